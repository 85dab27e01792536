"""Files in volumes (Files API 2.0): `/api/2.0/fs/files/Volumes/...` and `/api/2.0/fs/directories/Volumes/...`.

An upload is written under a hidden name and then renamed: nobody, the file arrival trigger least of all, sees half
a file.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from databricks_bridge.local.layout import LeadsOutside, checked, is_inside
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import ApiError, InvalidParameterValue
from databricks_bridge.local.server.requests import Arguments
from databricks_bridge.local.server.responses import JSONResponse

LARGEST_PAGE = 1000
DEEPEST_PATH = 100
_HIDDEN = ".upload-"


class FileDoesNotExist(ApiError):
    status: ClassVar[int] = 404
    error_code: ClassVar[str] = "NOT_FOUND"


class FileAlreadyExists(ApiError):
    status: ClassVar[int] = 409
    error_code: ClassVar[str] = "ALREADY_EXISTS"


class DirectoryIsNotEmpty(ApiError):
    status: ClassVar[int] = 400
    error_code: ClassVar[str] = "DIRECTORY_NOT_EMPTY"


def router(workspace: Workspace) -> APIRouter:
    """Upload, download, metadata, delete of files; create, list, metadata, delete of directories."""
    routes = APIRouter(prefix="/api/2.0/fs")

    @routes.put("/files/{path:path}")
    async def upload(path: str, request: Request) -> Response:
        overwrite = Arguments(dict(request.query_params)).boolean("overwrite", True)
        target = await run_in_threadpool(_new_file, workspace, path)
        draft = target.with_name(f"{_HIDDEN}{uuid.uuid4()}")
        try:
            with draft.open("wb") as file:
                async for chunk in request.stream():
                    await run_in_threadpool(file.write, chunk)
            _place(draft, target, overwrite, path)
        finally:
            draft.unlink(missing_ok=True)
        return Response(status_code=204)

    @routes.api_route("/files/{path:path}", methods=["GET", "HEAD"])
    async def download(path: str) -> Response:
        file = await run_in_threadpool(_existing_file, workspace, path)
        return FileResponse(file, media_type="application/octet-stream")

    @routes.delete("/files/{path:path}")
    async def delete_file(path: str) -> Response:
        (await run_in_threadpool(_existing_file, workspace, path)).unlink(missing_ok=True)
        return Response(status_code=204)

    @routes.put("/directories/{path:path}")
    def make_directory(path: str) -> Response:
        try:
            locate(workspace, path).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise FileAlreadyExists(f"{_shown(path)} or a path above it is a file.") from None
        return Response(status_code=204)

    @routes.head("/directories/{path:path}")
    def directory_metadata(path: str) -> Response:
        _existing_directory(workspace, path)
        return Response(status_code=200)

    @routes.get("/directories/{path:path}")
    def list_directory(path: str, request: Request) -> JSONResponse:
        given = Arguments(dict(request.query_params))
        size = min(given.integer("page_size", LARGEST_PAGE) or LARGEST_PAGE, LARGEST_PAGE)
        if size < 0:
            raise InvalidParameterValue(f"page_size is {size}; give a number from 0 to {LARGEST_PAGE}")
        return JSONResponse(_page(_existing_directory(workspace, path), _shown(path), size, given.text("page_token")))

    @routes.delete("/directories/{path:path}")
    def delete_directory(path: str) -> Response:
        directory = _existing_directory(workspace, path)
        if len(PurePosixPath(_shown(path)).parts) == 5:
            raise InvalidParameterValue(f"{_shown(path)} is a volume; delete it with the volumes API.")
        try:
            directory.rmdir()
        except OSError:
            raise DirectoryIsNotEmpty(f"The directory {_shown(path)} is not empty.") from None
        return Response(status_code=204)

    return routes


def locate(workspace: Workspace, path: str) -> Path:
    """The place of `Volumes/catalog/schema/volume/...`.

    Raises InvalidParameterValue, VolumeDoesNotExist, and FileDoesNotExist for what a link takes out of the volume.
    """
    parts = PurePosixPath(_shown(path)).parts
    if len(parts) < 5 or parts[1] != "Volumes" or any(part == ".." or "\0" in part for part in parts):
        raise InvalidParameterValue(f"{_shown(path)} is not a path in a volume: /Volumes/catalog/schema/volume/...")
    if len(parts) > DEEPEST_PATH:
        raise InvalidParameterValue(
            f"A path of the local workspace has at most {DEEPEST_PATH} parts, not {len(parts)}."
        )
    catalog, schema, volume = names.parts_of(".".join(parts[2:5]), 3)
    try:
        return checked(names.existing_volume(workspace, catalog, schema, volume), *parts[5:])
    except LeadsOutside as error:
        raise FileDoesNotExist(f"{_shown(path)} does not exist: {error}.") from None


def _shown(path: str) -> str:
    return "/" + path.strip("/")


def _new_file(workspace: Workspace, path: str) -> Path:
    """Where an upload goes; directories above it are made, as a store of objects needs none."""
    target = locate(workspace, path)
    if len(PurePosixPath(_shown(path)).parts) == 5 or target.is_dir():
        raise InvalidParameterValue(f"{_shown(path)} is a directory.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FileAlreadyExists(f"A path above {_shown(path)} is a file.") from None
    return target


def _place(draft: Path, target: Path, overwrite: bool, path: str) -> None:
    if overwrite:
        os.replace(draft, target)
        return
    try:
        os.link(draft, target)
    except FileExistsError:
        raise FileAlreadyExists(f"The file {_shown(path)} already exists.") from None


def _existing_file(workspace: Workspace, path: str) -> Path:
    file = locate(workspace, path)
    if not file.is_file():
        raise FileDoesNotExist(f"The file {_shown(path)} does not exist.")
    return file


def _existing_directory(workspace: Workspace, path: str) -> Path:
    directory = locate(workspace, path)
    if not directory.is_dir():
        raise FileDoesNotExist(f"The directory {_shown(path)} does not exist.")
    return directory


def _page(directory: Path, shown: str, size: int, token: str | None) -> dict[str, Any]:
    """One page of a listing by name; the token is the last name of the page before."""
    volume = volume_of(directory, shown)
    entries = sorted(entry for entry in directory.iterdir() if is_shown(entry, volume))
    rest = [entry for entry in entries if token is None or entry.name > token]
    contents = []
    for entry in rest[:size]:
        with contextlib.suppress(FileNotFoundError):
            contents.append(_entry(entry, shown))
    more = {"next_page_token": rest[size - 1].name} if len(rest) > size else {}
    return {"contents": contents, **more}


def volume_of(directory: Path, path: str) -> Path:
    """The folder of the volume in which `path` names this directory."""
    return [directory, *directory.parents][len(PurePosixPath(_shown(path)).parts) - 5]


def is_shown(entry: os.DirEntry[str] | Path, volume: Path) -> bool:
    """Whether a listing has it: unfinished uploads are left out, and links that lead out of the volume or nowhere."""
    if entry.name.startswith(_HIDDEN):
        return False
    return not entry.is_symlink() or (Path(entry).exists() and is_inside(Path(entry), volume))


def _entry(entry: Path, shown: str) -> dict[str, Any]:
    known = entry.stat()
    body: dict[str, Any] = {"path": f"{shown}/{entry.name}", "name": entry.name, "is_directory": entry.is_dir()}
    if not entry.is_dir():
        body |= {"file_size": known.st_size, "last_modified": round(known.st_mtime * 1000)}
    return body
