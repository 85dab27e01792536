"""Workspace files over HTTP: `/api/2.0/workspace/...`, and `workspace-files/import-file` as the CLI uses it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import workspace_files_jupyter as jupyter
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue, MalformedRequest
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.server.workspace_files_export import exported
from databricks_bridge.local.server.workspace_files_tree import SQL_HEADER, DirectoryProtected, Tree, is_notebook

_CONTENT = "application/octet-stream"
_FIELD_NAME = re.compile(rb'content-disposition:[^\r\n]*?\bname="([^"]*)"', re.IGNORECASE)


def router(workspace: Workspace) -> APIRouter:
    """import, export, get-status, list, mkdirs, delete."""
    tree = Tree(workspace.layout.workspace_files(workspace.name))
    tree.make_home(workspace.user_name)
    routes = APIRouter(prefix="/api/2.0")

    @routes.post("/workspace/import")
    async def import_(request: Request) -> Response:
        kind, _, boundary = request.headers.get("content-type", "").partition("boundary=")
        if kind.startswith("multipart/form-data"):
            fields = _form(await request.body(), boundary.strip('"').encode())
            content = fields.pop("content", b"")
            given = Arguments({name: _form_text(name, value) for name, value in fields.items()})
        else:
            given = await read(request, "POST workspace/import")
            content = _decoded(given.text("content") or "")
        await run_in_threadpool(_import, tree, given, content)
        return JSONResponse({})

    @routes.get("/workspace/export")
    async def export(request: Request) -> Response:
        given = await read(request)
        content, kind = await run_in_threadpool(exported, tree, _path(given), given.text("format") or "SOURCE")
        if given.boolean("direct_download"):
            return Response(content, media_type=_CONTENT)
        return JSONResponse({"content": base64.b64encode(content).decode(), "file_type": kind})

    @routes.post("/workspace-files/import-file/{path:path}")
    async def import_file(path: str, request: Request) -> Response:
        overwrite = Arguments(dict(request.query_params)).boolean("overwrite")
        await run_in_threadpool(_write_auto, tree, f"/{path.lstrip('/')}", await request.body(), overwrite)
        return JSONResponse({})

    @routes.get("/workspace-files/{path:path}")
    async def download(path: str) -> Response:
        content, _ = await run_in_threadpool(tree.read, f"/{path.lstrip('/')}")
        return Response(content, media_type=_CONTENT)

    for method, name, function in (
        ("GET", "get-status", lambda given: tree.status(_path(given))),
        ("GET", "list", lambda given: {"objects": tree.listing(_path(given))}),
        ("POST", "mkdirs", lambda given: tree.make_directories(_path(given))),
        ("POST", "delete", lambda given: _delete(tree, workspace.user_name, given)),
    ):
        routes.add_api_route(f"/workspace/{name}", _endpoint(function, f"{method} workspace/{name}"), methods=[method])
    return routes


def _endpoint(function: Callable[[Arguments], dict[str, Any] | None], call: str) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(function, await read(request, call)) or {})

    return endpoint


def _import(tree: Tree, given: Arguments, content: bytes) -> None:
    kind, language, overwrite = given.text("format") or "SOURCE", given.text("language"), given.boolean("overwrite")
    if kind == "AUTO":
        _write_auto(tree, _path(given), content, overwrite)
    elif kind == "RAW":
        tree.write_file(_path(given), content, overwrite)
    elif kind == "JUPYTER":
        tree.write_notebook(_path(given), jupyter.source_of(content), overwrite)
    elif kind == "SOURCE" and language == "PYTHON":
        tree.write_notebook(_path(given), content, overwrite)
    elif kind == "SOURCE" and language == "SQL":
        source = content if is_notebook(content, SQL_HEADER) else SQL_HEADER + b"\n" + content
        tree.write_auto(f"{_path(given)}.sql", source, overwrite)
    elif kind == "SOURCE" and language is None:
        raise InvalidParameterValue("To import a single file as SOURCE, you must set the language field.")
    else:
        raise FeatureDisabled(f"Import of {kind} {language or ''} is not supported by the local workspace; use Python.")


def _delete(tree: Tree, user: str, given: Arguments) -> None:
    """Raises DirectoryProtected for what every workspace has."""
    path = _path(given)
    if tree.plain(path) in ("/", "/Users", "/Repos", "/Shared", f"/Users/{user}", f"/Repos/{user}"):
        raise DirectoryProtected(f"Folder ({path}) is protected")
    tree.delete(path, given.boolean("recursive"))


def _write_auto(tree: Tree, path: str, content: bytes, overwrite: bool) -> None:
    if path.endswith(jupyter.SUFFIX):
        tree.write_notebook(path.removesuffix(jupyter.SUFFIX), jupyter.source_of(content), overwrite)
    else:
        tree.write_auto(path, content, overwrite)


def _path(given: Arguments) -> str:
    path = given.text("path")
    if path is None:
        raise InvalidParameterValue("Missing required field: path")
    return path


def _decoded(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except ValueError:
        raise InvalidParameterValue("content is not base64") from None


def _form_text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedRequest(f"Could not parse the multipart form: {name} is not UTF-8.") from None


def _form(body: bytes, boundary: bytes) -> dict[str, bytes]:
    """The fields of a multipart form (RFC 7578), all in memory: an import has at most 10 MB."""
    if not boundary:
        raise MalformedRequest("Could not parse the multipart form: its boundary is missing.")
    fields: dict[str, bytes] = {}
    # The first piece is the preamble, the last the closing "--".
    for piece in body.split(b"--" + boundary)[1:-1]:
        head, separator, content = piece.partition(b"\r\n\r\n")
        name = _FIELD_NAME.search(head)
        if not separator or name is None:
            raise MalformedRequest("Could not parse the multipart form.")
        fields[name[1].decode(errors="replace")] = content.removesuffix(b"\r\n")
    return fields
