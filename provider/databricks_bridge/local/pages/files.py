"""Volumes and their files, a form that drops one, and the next wave of files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fastapi.concurrency import run_in_threadpool

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.pages.arrivals import drop, land_next, waves
from databricks_bridge.local.pages.asked import Asked, Goto, Page
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.parts import (
    address,
    button,
    code,
    hidden,
    link,
    said,
    size,
    soft,
    table,
    time,
)
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import ApiError, ResourceDoesNotExist
from databricks_bridge.local.server.volume_files import is_shown, locate, volume_of

PER_PAGE = 200
MOST_COUNTED = 1000
"""Files of a volume that its row in the list of volumes counts."""


@dataclass(frozen=True)
class _File:
    name: str
    is_folder: bool
    size: int
    modified_ms: int


def show_volumes(asked: Asked) -> Page:
    """`/local/files`."""
    rows = [_volume(volume) for volume in _volumes(asked.workspace)]
    head = ("Volume", "Files", "Newest")
    landed = asked.number("landed")
    body = (
        "<h1>Files</h1>"
        + (said(f"Wave {landed} has landed.", "good") if landed else "")
        + (
            table(rows, head, label="Volumes", numbers=("Files",))
            if rows
            else soft("No volumes yet: the volumes API makes one.")
        )
        + _waves(asked)
    )
    return Page("Files", body, "Files")


def show_folder(asked: Asked) -> Page:
    """`/local/files/{catalog}/{schema}/{volume}/...?after=`."""
    return _page(asked)


async def drop_file(asked: Asked) -> Page | Goto:
    """`POST /local/files/{catalog}/{schema}/{volume}/...`: a file of the browser's machine, or text and a name for it."""
    upload = asked.uploads.get("file")
    name, typed = asked.form.get("name", "").strip(), asked.form.get("text", "")
    content = typed.replace("\r\n", "\n").encode(errors="replace")
    if upload is not None and upload.name:
        name, content = name or upload.name.replace("\\", "/").rpartition("/")[2], upload.content
    overwrite = asked.form.get("overwrite") == "on"
    try:
        await run_in_threadpool(lambda: drop(_folder(asked), name, content, overwrite=overwrite))
    except (BridgeError, ApiError) as error:
        return await run_in_threadpool(_page, asked, str(error))
    except OSError as error:
        return await run_in_threadpool(_page, asked, f"The file cannot be written: {error.strerror or error}.")
    return Goto(address("local", "files", *asked.path["path"].strip("/").split("/"), dropped=name))


async def land(asked: Asked) -> Goto:
    """`POST /local/files`: the next wave of the lab file, in all workspaces."""
    number = await run_in_threadpool(land_next, asked.workspace)
    return Goto(address("local", "files", landed=number))


def _volumes(workspace: Workspace) -> Iterable[Path]:
    for catalog in names.children(workspace.layout.volumes_root(workspace.metastore)):
        for schema in names.children(catalog):
            yield from names.children(schema)


def _volume(volume: Path) -> list[str]:
    *above, name = volume.parts[-3:]
    found = _entries(volume, volume, MOST_COUNTED)
    newest = max((entry.modified_ms for entry in found), default=0)
    count = f"{len(found):,}" + (" and more" if len(found) == MOST_COUNTED else "")
    return [link(address("local", "files", *above, name), f"/Volumes/{'/'.join([*above, name])}"), count, time(newest)]


def _folder(asked: Asked) -> Path:
    path = asked.path["path"].strip("/")
    folder = locate(asked.workspace, f"Volumes/{path}")
    if not folder.is_dir():
        raise ResourceDoesNotExist(f"/Volumes/{path} is no folder.")
    return folder


def _entries(folder: Path, volume: Path, most: int | None = None) -> list[_File]:
    found: list[_File] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not is_shown(entry, volume):
                continue
            if most is not None and len(found) == most:
                break
            try:
                known, is_folder = entry.stat(), entry.is_dir()
            except OSError:
                continue  # gone meanwhile
            found.append(_File(entry.name, is_folder, known.st_size, round(known.st_mtime * 1000)))
    return found


def _page(asked: Asked, problem: str = "") -> Page:
    path = asked.path["path"].strip("/")
    folder = _folder(asked)
    entries = sorted(_entries(folder, volume_of(folder, f"Volumes/{path}")), key=lambda entry: entry.name)
    after = asked.query.get("after", "")
    rest = [entry for entry in entries if entry.name > after]
    dropped = asked.query.get("dropped", "")
    arrived = next((entry for entry in entries if entry.name == dropped), None)
    rows = [
        [
            link(address("local", "files", *path.split("/"), entry.name), f"{entry.name}/")
            if entry.is_folder
            else code(entry.name),
            "" if entry.is_folder else size(entry.size),
            time(entry.modified_ms),
        ]
        for entry in rest[:PER_PAGE]
    ]
    more = ""
    if len(rest) > PER_PAGE:
        more = link(address("local", "files", *path.split("/"), after=rest[PER_PAGE - 1].name), "Next")
    body = (
        f"<h1>{_crumbs(path)}</h1>"
        + (said(f"{arrived.name} has arrived.", "good") if arrived else "")
        + (table(rows, ("Name", "Size", "Modified"), label="Files", numbers=("Size",)) if rows else soft("No files."))
        + (f"<p>{more} · {len(entries):,} in all</p>" if more else "")
        + f'<h2 id="drop">Drop a file</h2>{_form(asked, path, problem)}'
    )
    return Page(f"/Volumes/{path}", body, "Files", status=422 if problem else 200)


def _crumbs(path: str) -> str:
    """The path with a link for each folder above."""
    parts = path.split("/")
    shown = []
    for count, part in enumerate(parts, start=1):
        is_link = 3 <= count < len(parts)
        shown.append(link(address("local", "files", *parts[:count]), part) if is_link else text(part))
    return "/Volumes/<wbr>" + "/<wbr>".join(shown)


def _form(asked: Asked, path: str, problem: str) -> str:
    name, typed = text(asked.form.get("name", "")), text(asked.form.get("text", ""))
    action = text(address("local", "files", *path.split("/")))
    return (
        (said(problem, "bad") if problem else "")
        + f'<form method="post" enctype="multipart/form-data" action="{action}">{hidden(asked.form_value)}'
        '<div class="fields"><div><label for="name">Name <span class="soft">such as flights-1.json</span></label>'
        f'<input id="name" name="name" value="{name}" autocomplete="off"></div>'
        '<div><label for="file">A file <span class="soft">of this machine</span></label>'
        '<input id="file" name="file" type="file"></div>'
        '<div class="whole"><label for="text">Or its text</label>'
        f'<textarea id="text" name="text" spellcheck="false">{typed}</textarea></div>'
        '<div class="whole"><label><input type="checkbox" name="overwrite">Overwrite '
        '<span class="soft">a file of that name, which is no arrival</span></label></div></div>'
        '<div class="row"><button>Drop file</button></div></form>'
    )


def _waves(asked: Asked) -> str:
    found = waves(asked.workspace)
    if found is None:
        return ""
    if found.next_number is None:
        told, act = f"All {found.of} waves of the lab file have landed. Drop a file of your own into a volume.", ""
    else:
        counts = ", ".join(f"{count} in {name}" for name, count in sorted(found.files.items()))
        told = f"The lab file has {found.of} waves. The next one has files for: {counts}."
        pressed = button(asked.form_value, address("local", "files"), f"Land wave {found.next_number}")
        act = f'<div class="row">{pressed}</div>'
    return f"<h2>Waves</h2>{soft(told)}{act}"
