"""Operations on files: of the workspace, and in volumes."""

from __future__ import annotations

import base64
from typing import Any

from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import (
    BYTES,
    CONTENT,
    Operation,
    Operations,
    anything,
    fields,
    flag,
    listing,
    one_of,
    tagged,
    text,
    under,
    whole,
)

_PATH = text(pattern="^/[A-Za-z0-9_]{1,20}$", examples=["/Shared"])
_SOURCE = "# Databricks notebook source\nprint(1)\n"
_VOLUME_PATH = text(description="Volumes/catalog/schema/volume/...", examples=["Volumes/main/landing/flights/a.json"])
_MADE = "/made-by-example"


def operations() -> Operations:
    """All of them. What is deleted in an example has been made by the one before it."""
    return {
        **tagged("workspace files", under(("/api/2.0",), _workspace())),
        **tagged("volumes", under(("/api/2.0/fs",), _volumes())),
    }


def _workspace() -> Operations:
    status = fields("path", "object_type", path=text(), object_type=one_of("DIRECTORY", "NOTEBOOK", "FILE"))
    named = {"path": _PATH}

    def made(known: Known) -> dict[str, Any]:
        return {"path": f"{_MADE}/notebook"}

    return {
        ("POST", "workspace/mkdirs"): Operation(
            "Make a directory, and those above it",
            body=named,
            required=("path",),
            answer=anything(),
            example=lambda known: {"path": _MADE},
        ),
        ("POST", "workspace/import"): Operation(
            "Put a notebook or a file; also as a multipart form",
            body={
                **named,
                "content": text(format="byte", description="Base64."),
                "format": one_of("SOURCE", "AUTO", "RAW", "JUPYTER"),
                "language": one_of("PYTHON"),
                "overwrite": flag(),
            },
            required=("path",),
            answer=anything(),
            example=lambda known: {
                **made(known),
                "content": base64.b64encode(_SOURCE.encode()).decode(),
                "format": "SOURCE",
                "language": "PYTHON",
                "overwrite": True,
            },
        ),
        ("POST", "workspace-files/import-file/{path:path}"): Operation(
            "Put a file, or a notebook where a .py begins like one",
            query={"overwrite": flag()},
            takes=BYTES,
            body={},
            answer=anything(),
            example=lambda known: {"path": f"{_MADE[1:]}/file.txt", "overwrite": True, CONTENT: "text\n"},
        ),
        ("GET", "workspace-files/{path:path}"): Operation(
            "The content of a file or notebook",
            gives=BYTES,
            answer=text(),
            example=lambda known: {"path": f"{_MADE[1:]}/file.txt"},
        ),
        ("GET", "workspace/get-status"): Operation(
            "One object", query=named, required=("path",), answer=status, example=made
        ),
        ("GET", "workspace/list"): Operation(
            "The objects in a directory",
            query=named,
            required=("path",),
            answer=fields("objects", objects=listing(status)),
            example=lambda known: {"path": _MADE},
        ),
        ("GET", "workspace/export"): Operation(
            "The content of an object, in base64, or as it is with direct_download",
            query={**named, "format": one_of("SOURCE", "AUTO", "RAW"), "direct_download": flag()},
            required=("path",),
            answer=fields("content", "file_type", content=text(), file_type=text()),
            example=made,
        ),
        ("POST", "workspace/delete"): Operation(
            "Delete an object",
            body={**named, "recursive": flag()},
            required=("path",),
            answer=anything(),
            example=lambda known: {"path": _MADE, "recursive": True},
        ),
    }


def _volumes() -> Operations:
    path = {"path": _VOLUME_PATH}
    entry = fields("path", "name", "is_directory", path=text(), name=text(), is_directory=flag())

    def file(known: Known) -> dict[str, Any]:
        return {"path": None if known.folder is None else f"{known.folder}{_MADE}/file.json"}

    def directory(known: Known) -> dict[str, Any]:
        return {"path": None if known.folder is None else f"{known.folder}{_MADE}"}

    return {
        ("PUT", "directories/{path:path}"): Operation(
            "Make a directory, and those above it", path=path, status=204, example=directory
        ),
        ("PUT", "files/{path:path}"): Operation(
            "Put a file; the directories above it are made",
            query={"overwrite": flag()},
            path=path,
            takes=BYTES,
            body={},
            status=204,
            example=lambda known: {**file(known), "overwrite": True, CONTENT: "{}"},
        ),
        ("GET", "files/{path:path}"): Operation(
            "The content of a file", path=path, gives=BYTES, answer=text(), example=file
        ),
        ("HEAD", "files/{path:path}"): Operation("The size of a file", path=path, example=file),
        ("GET", "directories/{path:path}"): Operation(
            "What is in a directory, by name",
            query={"page_size": whole(0, 1000), "page_token": text()},
            path=path,
            answer=fields("contents", contents=listing(entry), next_page_token=text()),
            example=lambda known: {**directory(known), "page_size": 10},
        ),
        ("HEAD", "directories/{path:path}"): Operation("Whether it is a directory", path=path, example=directory),
        ("DELETE", "files/{path:path}"): Operation("Delete a file", path=path, status=204, example=file),
        ("DELETE", "directories/{path:path}"): Operation(
            "Delete an empty directory", path=path, status=204, example=directory
        ),
    }
