"""Grants and effective permissions (Unity Catalog API 2.1), and what the one user of a workspace may read.

An owner has every right on what it owns and on all below it, without a grant, as on Databricks; the user owns all that it
makes, until it gives the ownership to somebody else. What is granted counts for whom a job runs as. A fault `revoke` takes a
privilege away from the user without a trace in the grants.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import InvalidParameterValue, PermissionDenied
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.server.unity_catalog_errors import TableDoesNotExist
from databricks_bridge.local.server.unity_catalog_owners import explicit_owner
from databricks_bridge.local.triggers.commits import table_exists, view_file

KINDS = {"catalog": 1, "schema": 2, "table": 3, "volume": 3}
USER_PRIVILEGES = (
    "USE_CATALOG",
    "USE_SCHEMA",
    "SELECT",
    "MODIFY",
    "EXECUTE",
    "READ_VOLUME",
    "WRITE_VOLUME",
    "CREATE_SCHEMA",
    "CREATE_TABLE",
    "CREATE_VOLUME",
    "EXTERNAL_USE_SCHEMA",
)
_KNOWN = frozenset((*USER_PRIVILEGES, "ALL_PRIVILEGES", "BROWSE", "MANAGE", "APPLY_TAG", "REFRESH", "CREATE_FUNCTION"))
_OF_CONTAINERS = frozenset(name for name in _KNOWN if name.startswith(("USE_", "CREATE_"))) | {"EXTERNAL_USE_SCHEMA"}
_UNFIT = {
    "schema": frozenset({"USE_CATALOG", "CREATE_SCHEMA"}),
    "table": _OF_CONTAINERS | {"READ_VOLUME", "WRITE_VOLUME", "EXECUTE"},
    "volume": _OF_CONTAINERS | {"SELECT", "MODIFY", "EXECUTE", "REFRESH"},
}
"""What cannot be granted on each kind, since nothing that it holds could have it."""
_TO_READ = {"table": "SELECT", "volume": "READ_VOLUME"}
Body = dict[str, Any]
Grants = dict[str, dict[str, list[str]]]
Call = Callable[[Workspace, Arguments, str, str], Body]


def router(workspace: Workspace) -> APIRouter:
    """`permissions/{type}/{name}` to read and change, `effective-permissions/{type}/{name}` to read."""
    routes = APIRouter(prefix="/api/2.1/unity-catalog")
    for method, path, call in (
        ("GET", "permissions", _get),
        ("PATCH", "permissions", _update),
        ("GET", "effective-permissions", _effective),
    ):
        routes.add_api_route(
            f"/{path}/{{kind}}/{{name}}", _endpoint(workspace, call, f"{method} {path}"), methods=[method]
        )
    return routes


def require_select(workspace: Workspace, table: str) -> None:
    """Raises PermissionDenied where the user may not read `catalog.schema.table`; it need not be there."""
    missing = missing_privilege(workspace, "table", table)
    if missing is not None:
        raise PermissionDenied(f"User does not have {missing}.")


def missing_privilege(workspace: Workspace, kind: str, full_name: str, principal: str | None = None) -> str | None:
    """The first privilege that is lacking to read a table or volume, such as ``SELECT on Table 'main.s.t'``, or None.

    :param principal: whose; the user where it is left out.
    """
    parts = full_name.lower().split(".")
    granted = _granted(workspace)
    for above, count, privilege in (
        ("catalog", 1, "USE_CATALOG"),
        ("schema", 2, "USE_SCHEMA"),
        (kind, 3, _TO_READ[kind]),
    ):
        name = ".".join(parts[:count])
        if privilege not in _privileges_on(workspace, granted, above, name, principal or workspace.user_name):
            return f"{privilege.replace('_', ' ')} on {above.capitalize()} '{name}'"
    return None


def forget(workspace: Workspace, kind: str, full_name: str) -> None:
    """What was granted on something that is deleted, and on all below it: who makes it again has made another one."""
    name = full_name.lower()
    with workspace.store.transaction():
        granted = _granted(workspace)
        below = () if kind in ("table", "volume") else tuple(f"{one} {name}." for one in KINDS)
        left = {key: held for key, held in granted.items() if key != f"{kind} {name}" and not key.startswith(below)}
        if left != granted:
            _keep(_file(workspace), left)


def _endpoint(workspace: Workspace, call: Call, name_of_call: str) -> Callable[[Request, str, str], Any]:
    async def endpoint(request: Request, kind: str, name: str) -> JSONResponse:
        given = await read(request, name_of_call)
        return JSONResponse(await run_in_threadpool(call, workspace, given, *_securable(workspace, kind, name)))

    return endpoint


def _securable(workspace: Workspace, kind: str, name: str) -> tuple[str, str]:
    """The kind and full name in lower case. Raises InvalidParameterValue, and the errors of what does not exist."""
    count = KINDS.get(kind.lower())
    if count is None:
        raise InvalidParameterValue(f"The local workspace has grants on {', '.join(KINDS)}, not on {kind!r}.")
    parts = names.parts_of(name, count)
    if count == 1:
        names.existing_catalog(workspace, *parts)
    else:
        schema = names.existing_schema(workspace, *parts[:2])
    if kind.lower() == "volume":
        names.existing_volume(workspace, *parts)
    elif count == 3 and not table_exists(schema / parts[2]) and not view_file(schema / parts[2]).is_file():
        raise TableDoesNotExist(f"Table '{'.'.join(parts)}' does not exist.")
    return kind.lower(), ".".join(parts)


def _get(workspace: Workspace, given: Arguments, kind: str, name: str) -> Body:
    return _assignments(_on(workspace, _granted(workspace), kind, name), given.text("principal"))


def _update(workspace: Workspace, given: Arguments, kind: str, name: str) -> Body:
    changes = given.values.get("changes") or []
    if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
        raise InvalidParameterValue("changes must be a list of {principal, add, remove}")
    with workspace.store.transaction():  # one writer at a time
        granted = _granted(workspace)
        there = {who: list(privileges) for who, privileges in _on(workspace, granted, kind, name).items()}
        for change in changes:
            one = Arguments(change)
            principal, add, remove = one.text("principal"), one.texts("add"), one.texts("remove")
            if principal is None:
                raise InvalidParameterValue("Missing required field: principal")
            if unknown := sorted({*add, *remove} - _KNOWN):
                raise InvalidParameterValue(f"Privilege {', '.join(unknown)} is not applicable to this entity.")
            if unfit := sorted({*add} & _UNFIT.get(kind, frozenset())):
                raise InvalidParameterValue(
                    f"Privilege {', '.join(unfit)} is not applicable to this entity [{name}:{kind.upper()}]."
                )
            gone = _KNOWN if "ALL_PRIVILEGES" in remove else {*remove}
            kept = [privilege for privilege in there.get(principal, []) if privilege not in gone]
            there[principal] = kept + [privilege for privilege in add if privilege not in kept]
        granted[f"{kind} {name}"] = there
        _keep(_file(workspace), granted)
    return _assignments(there, None)


def _effective(workspace: Workspace, given: Arguments, kind: str, name: str) -> Body:
    granted = _granted(workspace)
    wanted = given.text("principal")
    found: dict[str, list[Body]] = {}
    for above, full_name in _lineage(kind, name):
        inherited = {} if above == kind else {"inherited_from_type": above.upper(), "inherited_from_name": full_name}
        held = dict(_on(workspace, granted, above, full_name))
        owner = explicit_owner(workspace, above, full_name) or (workspace.user_name if above == "catalog" else None)
        if owner is not None:
            held[owner] = [*dict.fromkeys([*held.get(owner, ()), *USER_PRIVILEGES])]
        for principal, privileges in held.items():
            left = [one for one in privileges if not _is_revoked(workspace, principal, one, kind, name)]
            found.setdefault(principal, []).extend({"privilege": one, **inherited} for one in left)
    return {
        "privilege_assignments": [
            {"principal": principal, "privileges": privileges}
            for principal, privileges in sorted(found.items())
            if privileges and wanted in (None, principal)
        ]
    }


def _privileges_on(workspace: Workspace, granted: Grants, kind: str, name: str, principal: str) -> set[str]:
    held: set[str] = set()
    for above, full_name in _lineage(kind, name):
        held.update(_on(workspace, granted, above, full_name).get(principal, ()))
        if principal == (explicit_owner(workspace, above, full_name) or workspace.user_name):
            held.update(USER_PRIVILEGES)
    if "ALL_PRIVILEGES" in held:
        held.update(USER_PRIVILEGES)
    return {one for one in held if not _is_revoked(workspace, principal, one, kind, name)}


def _is_revoked(workspace: Workspace, principal: str, privilege: str, kind: str, name: str) -> bool:
    return principal == workspace.user_name and any(
        workspace.faults.is_revoked(workspace.metastore, privilege, full_name) for _, full_name in _lineage(kind, name)
    )


def _lineage(kind: str, name: str) -> list[tuple[str, str]]:
    """The securable and those above it, itself first."""
    parts = name.split(".")
    above = [("catalog", parts[0]), ("schema", ".".join(parts[:2]))]
    return [(kind, name), *reversed(above[: len(parts) - 1])]


def _on(workspace: Workspace, granted: Grants, kind: str, name: str) -> Mapping[str, list[str]]:
    """What has been granted on the securable itself. Its owner needs no grant."""
    return granted.get(f"{kind} {name}", {})


def _assignments(granted: Mapping[str, list[str]], principal: str | None) -> Body:
    return {
        "privilege_assignments": [
            {"principal": who, "privileges": privileges}
            for who, privileges in sorted(granted.items())
            if privileges and principal in (None, who)
        ]
    }


def _file(workspace: Workspace) -> Path:
    return workspace.layout.metastore_root(workspace.metastore) / ".grants.json"


def _granted(workspace: Workspace) -> Grants:
    try:
        return dict(json.loads(_file(workspace).read_text()))
    except FileNotFoundError:
        return {}


def _keep(file: Path, granted: Grants) -> None:
    draft = file.with_name(f".{uuid.uuid4()}.tmp")
    draft.write_text(json.dumps(granted))
    os.replace(draft, file)
