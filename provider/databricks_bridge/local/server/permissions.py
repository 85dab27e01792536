"""Permissions of jobs (Permissions API 2.0): kept and shown. There is one user here, who may do everything."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, read

LEVELS = ("CAN_VIEW", "CAN_MANAGE_RUN", "CAN_MANAGE", "IS_OWNER")
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
        job = _job(workspace, kind, object_id)
        return _shown(job, _kept(workspace).get(job) or _owner(workspace))

    @routes.put("/{kind}/{object_id}")
    async def put(kind: str, object_id: str, request: Request) -> Body:
        job = _job(workspace, kind, object_id)
        return _changed(workspace, job, {}, await read(request, "PUT access"))

    @routes.patch("/{kind}/{object_id}")
    async def patch(kind: str, object_id: str, request: Request) -> Body:
        job = _job(workspace, kind, object_id)
        return _changed(
            workspace, job, _kept(workspace).get(job) or _owner(workspace), await read(request, "PUT access")
        )

    @routes.get("/{kind}/{object_id}/permissionLevels")
    async def levels(kind: str, object_id: str) -> Body:
        _job(workspace, kind, object_id)
        return {"permission_levels": [{"permission_level": level} for level in LEVELS]}

    return routes


def _job(workspace: Workspace, kind: str, object_id: str) -> str:
    if kind != "jobs":
        raise FeatureDisabled(f"The local workspace keeps the permissions of jobs, not of {kind}.")
    job_id = Arguments({"job_id": object_id}).integer("job_id")
    if workspace.store.job(job_id, workspace.name) is None:
        raise ResourceDoesNotExist(f"Job {job_id} does not exist.")
    return str(job_id)


def given_access(items: Any) -> Given:
    """An `access_control_list`, checked. Raises InvalidParameterValue."""
    items = items or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidParameterValue("access_control_list must be a list of objects")
    given: Given = {}
    for item in items:
        one = Arguments(item)
        named = [f"{kind}:{name}" for kind in _PRINCIPALS if (name := one.text(kind))]
        level = one.text("permission_level")
        if len(named) != 1 or level not in LEVELS:
            raise InvalidParameterValue(
                f"each entry needs one of {', '.join(_PRINCIPALS)} and a permission_level of {', '.join(LEVELS)}"
            )
        given[named[0]] = [level]
    owners = _owners(given)
    if len(owners) > 1:
        raise InvalidParameterValue("The job must have exactly one owner.")
    if owners and owners[0].startswith("group_name:"):
        raise InvalidParameterValue(f"A group cannot own a job: {owners[0].partition(':')[2]}")
    return given


def keep_access(workspace: Workspace, job: str, before: Given, given: Given) -> Given:
    """Keep `given` on top of `before`; what the job has then. An owner in `given` takes the place of the one before."""
    if _owners(given):
        before = {principal: levels for principal, levels in before.items() if "IS_OWNER" not in levels}
    after = {**before, **given}
    if not _owners(after):
        after |= _owner(workspace)
    kept = {**_kept(workspace), job: after}
    file = workspace.layout.workspace_files(workspace.name).with_name(_FILE)
    draft = file.with_suffix(".writing")
    draft.write_text(json.dumps(kept))
    draft.replace(file)
    return after


def _changed(workspace: Workspace, job: str, before: Given, given: Arguments) -> Body:
    access = given_access(given.values.get("access_control_list"))
    return _shown(job, keep_access(workspace, job, before, access))


def _owners(given: Given) -> list[str]:
    return [principal for principal, levels in given.items() if "IS_OWNER" in levels]


def _owner(workspace: Workspace) -> Given:
    return {f"user_name:{workspace.user_name}": ["IS_OWNER"]}


def _kept(workspace: Workspace) -> dict[str, Given]:
    try:
        return dict(json.loads(workspace.layout.workspace_files(workspace.name).with_name(_FILE).read_text()))
    except FileNotFoundError:
        return {}


def _shown(job: str, given: Given) -> Body:
    entries = []
    for principal, levels in given.items():
        kind, _, name = principal.partition(":")
        permissions = [{"permission_level": level, "inherited": False} for level in levels]
        entries.append({kind: name, "display_name": name, "all_permissions": permissions})
    return {"object_id": f"/jobs/{job}", "object_type": "job", "access_control_list": entries}
