"""The open Delta Sharing server of the shares that this workspace's metastore provides, as PROTOCOL.md describes it.

A recipient sees what the metastore that reads the share sees: the versions that have been published to it, and no more.
Errors have the protocol's form, `{"errorCode", "message"}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import delta_sharing_lines as lines
from databricks_bridge.local.server import pages, signed_links
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.delta_sharing_lines import Capabilities, Moment, Unsupported
from databricks_bridge.local.server.delta_sharing_log import CannotBeBuilt, Snapshot, snapshot
from databricks_bridge.local.server.delta_sharing_recipients import PREFIX, recipient_of
from databricks_bridge.local.server.errors import ApiError, InvalidParameterValue, NotFound, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.shares import Share
from databricks_bridge.local.triggers.commits import commit_time, commit_versions, table_exists, table_id

FILES = "/local/shared-files/"
SIGNATURE = "X-Databricks-Signature"
"""By this name delta-kernel-rs, which is in the official Python client, knows a link that it fetches as it stands."""
NDJSON = "application/x-ndjson; charset=utf-8"
LARGEST_PAGE = 2**31 - 1
_TABLE = "/shares/{share}/schemas/{schema}/tables/{table}"
Body = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One call of a recipient. `parts` are those of its path, in lower case."""

    workspace: Workspace
    recipient: str
    parts: dict[str, str]
    given: Arguments
    capabilities: Capabilities
    file_ids: str | None


def router(workspace: Workspace) -> APIRouter:
    """The protocol's calls, and the links to data files."""
    routes = APIRouter()
    for method, path, answer in (
        ("GET", _TABLE + "/version", _version),
        ("HEAD", _TABLE, _version),
        ("GET", _TABLE + "/metadata", _metadata),
        ("POST", _TABLE + "/query", _query),
        ("GET", _TABLE + "/changes", _changes),
        ("GET", "/shares", _shares),
        ("GET", "/shares/{share}", _share),
        ("GET", "/shares/{share}/schemas", _schemas),
        ("GET", "/shares/{share}/schemas/{schema}/tables", _tables),
        ("GET", "/shares/{share}/all-tables", _tables),
    ):
        place = f"{PREFIX}{{metastore_id}}{path}"
        routes.add_route(place, _endpoint(workspace, answer), methods=[method], include_in_schema=False)
    routes.add_route(f"{FILES}{{rest:path}}", partial(_file, workspace), methods=["GET"], include_in_schema=False)
    return routes


def _endpoint(workspace: Workspace, answer: Callable[[Asked], Response]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        try:
            recipient = recipient_of(workspace, request.headers.get("authorization", ""))
            parts = {name: value.lower() for name, value in request.path_params.items()}
            if parts["metastore_id"] != workspace.metastore_id:
                raise ResourceDoesNotExist(f"There is no metastore {parts['metastore_id']} here.")
            capabilities = Capabilities.of(request.headers.get("delta-sharing-capabilities", ""))
            file_ids = request.headers.get("fileidhash")
            if file_ids is not None and file_ids.lower() not in ("parquet", "delta"):
                raise InvalidParameterValue("fileidhash must be parquet or delta")
            asked = Asked(workspace, recipient, parts, await read(request), capabilities, file_ids)
            return await run_in_threadpool(answer, asked)
        except ApiError as error:
            headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
            body = {"errorCode": str(error.error_code), "message": error.message}
            return JSONResponse(body, status_code=error.status, headers=headers)

    return endpoint


def _shares(asked: Asked) -> Response:
    found = [share for share in asked.workspace.shares.of(asked.recipient) if _provided(asked, share)]
    return _listed(asked, "shares", [_share_item(asked, share) for share in found])


def _share(asked: Asked) -> Response:
    return JSONResponse({"share": _share_item(asked, _found_share(asked))})


def _schemas(asked: Asked) -> Response:
    share = _found_share(asked)
    return _listed(asked, "schemas", [{"name": name, "share": share.catalog} for name in sorted(share.schemas)])


def _tables(asked: Asked) -> Response:
    """Of one schema, or of all of the share."""
    share = _found_share(asked)
    schemas = [_found_schema(asked, share)] if "schema" in asked.parts else sorted(share.schemas)
    catalog = _catalog(asked, share)
    found = [table for schema in schemas for table in names.children(catalog / schema) if table_exists(table)]
    share_id = _share_item(asked, share)["id"]
    items = [
        {
            "name": table.name,
            "schema": table.parent.name,
            "share": share.catalog,
            "shareId": share_id,
            "id": table_id(table),
            "accessModes": ["url"],
        }
        for table in found
    ]
    return _listed(asked, "tables", items)


def _version(asked: Asked) -> Response:
    share, table = _found_table(asked)
    version = _newest(table)
    if since := asked.given.text("startingTimestamp"):
        at = _milliseconds(share, since)
        version = next((one for one in commit_versions(table) if _time(table, one) >= at), -1)
        if version < 0:
            raise InvalidParameterValue(f"The timestamp {since} is after the newest version of the table.")
    return Response(headers={"Delta-Table-Version": str(version)})


def _metadata(asked: Asked) -> Response:
    _, _, found, moment = _asked_for(asked)
    form = asked.capabilities.format_for(found)
    return _ndjson(asked, found.version, form, lines.head(found, form, moment))


def _query(asked: Asked) -> Response:
    if asked.given.values.get("startingVersion") is not None:
        raise Unsupported("Files since a startingVersion are not served by the local workspace; ask for a snapshot.")
    limit = asked.given.optional_integer("limitHint")
    share, table, found, moment = _asked_for(asked)
    form = asked.capabilities.format_for(found)
    expires = int(asked.workspace.now()) + signed_links.LINK_SECONDS
    place = f"{share.metastore}/{share.catalog}/{table.parent.name}/{table.name}"

    def link(path: str) -> str:
        what = f"{place}/{path}"
        signature = signed_links.signature_of(asked.workspace, f"{FILES}{what}", expires)
        return f"{asked.workspace.host}{FILES}{quote(what)}?expires={expires}&{SIGNATURE}={signature}"

    said = [*lines.head(found, form, moment), *lines.files(found, form, moment, limit, link, expires * 1000)]
    return _ndjson(asked, found.version, form, said)


def _changes(asked: Asked) -> Response:
    _found_table(asked)
    raise Unsupported("The change data feed is not served by the local workspace; ask for snapshots.")


def _ndjson(asked: Asked, version: int, form: str, said: list[Body]) -> Response:
    headers = {"Delta-Table-Version": str(version), "delta-sharing-capabilities": f"responseformat={form}"}
    if asked.file_ids is not None:
        headers["fileidhash"] = asked.file_ids.lower()
    content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in said)
    return Response(content, media_type=NDJSON, headers=headers)


async def _file(workspace: Workspace, request: Request) -> Response:
    """A data file, to whoever has a link: of the version that it was given for, gone or not by now."""
    rest = request.path_params["rest"]
    try:
        expires = int(request.query_params.get("expires", ""))
    except ValueError:
        raise InvalidParameterValue("expires must be a whole number") from None
    signed_links.check(workspace, request, f"{FILES}{rest}", expires, request.query_params.get(SIGNATURE, ""))
    metastore, _, path = rest.partition("/")
    file = workspace.layout.metastore_root(metastore) / path
    if not await run_in_threadpool(file.is_file):
        raise NotFound("The file is no longer there: the provider has cleaned the table, or has taken the share back.")
    return FileResponse(file, media_type="application/octet-stream")


def _listed(asked: Asked, kind: str, items: list[Body]) -> Response:
    """One page of items, which are in the order of schema and name."""
    size = asked.given.optional_integer("maxResults")
    if size is not None and not 0 <= size <= LARGEST_PAGE:
        raise InvalidParameterValue(f"maxResults must be from 0 to {LARGEST_PAGE}, not {size}")
    token = asked.given.text("pageToken")
    after = "" if token is None else str(pages.decode(token, kind, 1)[0])
    rest = [item for item in items if _key(item) > after]
    shown = rest if size is None else rest[:size]
    last = _key(shown[-1]) if shown else after
    more = {"nextPageToken": pages.encode(kind, last)} if len(shown) < len(rest) else {}
    return JSONResponse({"items": shown, **more})


def _key(item: Body) -> str:
    return f"{item.get('schema', '')}/{item['name']}"


def _share_item(asked: Asked, share: Share) -> Body:
    folder = _catalog(asked, share)
    return {"name": share.catalog, "id": names.card(folder, names.catalog_card(folder))["id"]}


def _found_share(asked: Asked) -> Share:
    share = asked.workspace.shares.find(asked.recipient, asked.parts["share"])
    if share is None or not _provided(asked, share):
        raise ResourceDoesNotExist(f"Share '{asked.parts['share']}' does not exist, or is not given to this recipient.")
    return share


def _provided(asked: Asked, share: Share) -> bool:
    return share.source_metastore == asked.workspace.metastore


def _found_schema(asked: Asked, share: Share) -> str:
    schema = asked.parts["schema"]
    if schema not in share.schemas:
        raise ResourceDoesNotExist(f"Schema '{schema}' does not exist in the share '{share.catalog}'.")
    return schema


def _found_table(asked: Asked) -> tuple[Share, Path]:
    """The table as the reader has it; of a share that is not held, it is there as soon as somebody asks for it."""
    share, name = _found_share(asked), asked.parts["table"]
    table = _catalog(asked, share) / _found_schema(asked, share) / name
    if names.is_name(name) and share.lag == "none" and not table_exists(table):
        asked.workspace.shares.publish(share)
    if not names.is_name(name) or not table_exists(table):
        raise ResourceDoesNotExist(f"Table '{name}' does not exist in the share '{share.catalog}'.")
    return share, table


def _catalog(asked: Asked, share: Share) -> Path:
    return asked.workspace.layout.metastore_root(share.metastore) / share.catalog


def _asked_for(asked: Asked) -> tuple[Share, Path, Snapshot, Moment | None]:
    """The table as of the version or time that is asked for, else its newest version."""
    share, table = _found_table(asked)
    version, since = asked.given.optional_integer("version"), asked.given.text("timestamp")
    if version is not None and since is not None:
        raise InvalidParameterValue("Give version or timestamp, not both.")
    newest = _newest(table)
    if version is not None:
        _require_history(share)
        if not 0 <= version <= newest:
            raise InvalidParameterValue(f"There is no version {version}; the newest is {newest}.")
    elif since is not None:
        at = _milliseconds(share, since)
        if at > _time(table, newest):
            raise InvalidParameterValue(f"The timestamp {since} is after the newest version of the table.")
        version = max((one for one in commit_versions(table) if _time(table, one) <= at), default=None)
        if version is None:
            raise InvalidParameterValue(f"The timestamp {since} is before the first version that is still there.")
    wanted = newest if version is None else version
    try:
        found = snapshot(table, wanted)
        moment = None if version is None else Moment(version, _time(table, version))
    except (CannotBeBuilt, FileNotFoundError) as error:
        raise InvalidParameterValue(f"Version {wanted} of the table cannot be read: {error}.") from None
    return share, table, found, moment


def _newest(table: Path) -> int:
    versions = commit_versions(table)
    if not versions:
        raise ResourceDoesNotExist(f"Table '{table.name}' has no version in the share.")
    return versions[-1]


def _time(table: Path, version: int) -> int:
    return int(commit_time(table, version).timestamp() * 1000)


def _milliseconds(share: Share, text: str) -> int:
    _require_history(share)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min
    if at.tzinfo is None:
        raise InvalidParameterValue(f"{text!r} is not a timestamp such as 2026-01-01T00:00:00Z")
    return int(at.timestamp() * 1000)


def _require_history(share: Share) -> None:
    if not share.history:
        raise InvalidParameterValue(
            "A version or a time can be asked for only where the share has history; this has none."
        )
