"""Permissions of jobs and of what is in the workspace (Permissions API 2.0): kept and shown.

There is one user here, who may do everything, so they keep nobody from anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.workspace_files_tree import Tree

_OF_FILES = ("CAN_READ", "CAN_RUN", "CAN_EDIT", "CAN_MANAGE")
LEVELS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("CAN_VIEW", "CAN_MANAGE_RUN", "CAN_MANAGE", "IS_OWNER"),
    "directories": _OF_FILES,
    "notebooks": _OF_FILES,
    "files": _OF_FILES,
    "repos": _OF_FILES,
}
"""The kinds of objects that have permissions, and the levels that each has."""
_OBJECT_TYPES = {"directories": ("DIRECTORY",), "notebooks": ("NOTEBOOK",), "files": ("FILE",), "repos": ("REPO",)}
_NAMES = {"jobs": "job", "directories": "directory", "notebooks": "notebook", "files": "file", "repos": "repo"}
_PRINCIPALS = ("user_name", "group_name", "service_principal_name")
_FILE = "permissions.json"
Body = dict[str, Any]
Given = dict[str, list[str]]
"""Levels by principal, which is written as `user_name:somebody`."""


def router(workspace: Workspace) -> APIRouter:
    """get, set (PUT) and update (PATCH), and the levels that there are."""
    routes = APIRouter(prefix="/api/2.0/permissions")

    @routes.get("/{kind}/{object_id}")
    async def get(kind: str, object_id: str) -> Body:
        key = await run_in_threadpool(_existing, workspace, kind, object_id)
        return _shown(kind, object_id, _kept(workspace).get(key) or _default(workspace, kind))

    @routes.put("/{kind}/{object_id}")
    async def put(kind: str, object_id: str, request: Request) -> Body:
        key = await run_in_threadpool(_existing, workspace, kind, object_id)
        return _changed(workspace, kind, key, {}, await read(request, "PUT access"))

    @routes.patch("/{kind}/{object_id}")
    async def patch(kind: str, object_id: str, request: Request) -> Body:
        key = await run_in_threadpool(_existing, workspace, kind, object_id)
        before = _kept(workspace).get(key) or _default(workspace, kind)
        return _changed(workspace, kind, key, before, await read(request, "PUT access"))

    @routes.get("/{kind}/{object_id}/permissionLevels")
    async def levels(kind: str, object_id: str) -> Body:
        await run_in_threadpool(_existing, workspace, kind, object_id)
        return {"permission_levels": [{"permission_level": level} for level in LEVELS[kind]]}

    return routes


def _existing(workspace: Workspace, kind: str, object_id: str) -> str:
    """The key under which the permissions of an object are kept. Raises FeatureDisabled, ResourceDoesNotExist."""
    if kind not in LEVELS:
        raise FeatureDisabled(f"{words(Area.SETTING, 'permissions')}, not of {kind}.")
    number = Arguments({"object_id": object_id}).integer("object_id")
    if kind == "jobs":
        if workspace.store.job(number, workspace.name) is None:
            raise ResourceDoesNotExist(f"Job {number} does not exist.")
        return str(number)
    found = Tree(workspace.layout.workspace_files(workspace.name)).by_number(number)
    if found is None or found["object_type"] not in _OBJECT_TYPES[kind]:
        raise ResourceDoesNotExist(f"{kind}: there is no object with the id {number} in the workspace.")
    return f"{kind}/{number}"


def given_access(items: Any, kind: str = "jobs") -> Given:
    """An `access_control_list`, checked. Raises InvalidParameterValue."""
    levels = LEVELS[kind]
    items = items or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidParameterValue("access_control_list must be a list of objects")
    given: Given = {}
    for item in items:
        one = Arguments(item)
        named = [f"{kind}:{name}" for kind in _PRINCIPALS if (name := one.text(kind))]
        level = one.text("permission_level")
        if len(named) != 1 or level not in levels:
            raise InvalidParameterValue(
                f"each entry needs one of {', '.join(_PRINCIPALS)} and a permission_level of {', '.join(levels)}"
            )
        given[named[0]] = [level]
    owners = _owners(given)
    if len(owners) > 1:
        raise InvalidParameterValue("The job must have exactly one owner.")
    if owners and owners[0].startswith("group_name:"):
        raise InvalidParameterValue(f"A group cannot own a job: {owners[0].partition(':')[2]}")
    return given


def keep_access(workspace: Workspace, key: str, before: Given, given: Given) -> Given:
    """Keep `given` on top of `before`; what the object has then. An owner in `given` takes the place of the one before."""
    if _owners(given):
        before = {principal: levels for principal, levels in before.items() if "IS_OWNER" not in levels}
    after = {**before, **given}
    if "/" not in key and not _owners(after):
        after |= _owner(workspace)
    kept = {**_kept(workspace), key: after}
    file = workspace.layout.workspace_files(workspace.name).with_name(_FILE)
    draft = file.with_suffix(".writing")
    draft.write_text(json.dumps(kept))
    draft.replace(file)
    return after


def _changed(workspace: Workspace, kind: str, key: str, before: Given, given: Arguments) -> Body:
    access = given_access(given.values.get("access_control_list"), kind)
    return _shown(kind, key.rpartition("/")[2], keep_access(workspace, key, before, access))


def _owners(given: Given) -> list[str]:
    return [principal for principal, levels in given.items() if "IS_OWNER" in levels]


def _owner(workspace: Workspace) -> Given:
    return {f"user_name:{workspace.user_name}": ["IS_OWNER"]}


def _default(workspace: Workspace, kind: str) -> Given:
    """What nobody has changed: a job has an owner, all else is managed by the user who made it."""
    return _owner(workspace) if kind == "jobs" else {f"user_name:{workspace.user_name}": ["CAN_MANAGE"]}


def _kept(workspace: Workspace) -> dict[str, Given]:
    try:
        return dict(json.loads(workspace.layout.workspace_files(workspace.name).with_name(_FILE).read_text()))
    except FileNotFoundError:
        return {}


def _shown(kind: str, object_id: str, given: Given) -> Body:
    """With the admins, who manage everything by inheritance, as on Databricks."""
    entries: list[Body] = []
    for principal, levels in given.items():
        which, _, name = principal.partition(":")
        permissions: list[Body] = [{"permission_level": level, "inherited": False} for level in levels]
        shown = {} if which == "group_name" else {"display_name": name}
        entries.append({which: name, **shown, "all_permissions": permissions})
    inherited = {"permission_level": "CAN_MANAGE", "inherited": True, "inherited_from_object": [f"/{kind}/"]}
    admins = next((entry for entry in entries if entry.get("group_name") == "admins"), None)
    if admins is None:
        entries.append({"group_name": "admins", "all_permissions": [inherited]})
    else:
        admins["all_permissions"].append(inherited)
    return {"object_id": f"/{kind}/{object_id}", "object_type": _NAMES[kind], "access_control_list": entries}
