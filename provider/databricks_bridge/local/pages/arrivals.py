"""How files come into volumes from a page: one from a form, or the next wave of the deployment's lab file."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.managing import land_wave, landed_waves, ready_file
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.rest import Rest
from databricks_bridge.local.server.errors import ResourceAlreadyExists

_HIDDEN = ".upload-"
"""As uploads over the API begin: nobody, the file arrival trigger least of all, sees half a file."""


class NameRefused(BridgeError):
    """The name cannot be that of a file."""


@dataclass(frozen=True)
class NextWave:
    """The wave that comes next: `files` in each workspace."""

    number: int
    of: int
    files: Mapping[str, int]


def drop(folder: Path, name: str, content: bytes, *, overwrite: bool) -> None:
    """Put a file into a folder, whole. Raises NameRefused, ResourceAlreadyExists, OSError."""
    if not name or name in (".", "..") or "/" in name or not name.isprintable():
        raise NameRefused(f"{name!r} cannot be the name of a file: give one without slashes.")
    target, draft = folder / name, folder / f"{_HIDDEN}{uuid.uuid4()}"
    if target.is_dir():
        raise ResourceAlreadyExists(f"{name} is a folder.")
    try:
        draft.write_bytes(content)
        if overwrite:
            os.replace(draft, target)
        else:
            os.link(draft, target)
    except FileExistsError:
        raise ResourceAlreadyExists(
            f"There is a file {name} already. Give another name, or overwrite it, which is no arrival."
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def next_wave(workspace: Workspace) -> NextWave | None:
    """What `databricks-bridge local wave` would land; None where no lab file has one left, or can be read."""
    from databricks_bridge.local.lab_file import read_lab

    home = workspace.layout.home
    with contextlib.suppress(OSError, ValueError, LookupError, BridgeError):
        file = json.loads(ready_file(home).read_text())["file"]
        number = landed_waves(home) + 1
        waves = read_lab(Path(file)).waves if file else ()
        if number <= len(waves):
            counts = {name: sum(len(one.files) for one in arrivals) for name, arrivals in waves[number - 1].items()}
            return NextWave(number, len(waves), counts)
    return None


def land_next(workspace: Workspace) -> int:
    """Land the next wave in all workspaces of the deployment, over HTTP like any client; its number. Raises BridgeError."""
    home = workspace.layout.home
    rests = {
        name: Rest(name, one.host, one.credentials.token, one.ca_file)
        for name, one in workspace.runs.workspaces.items()
    }
    file = json.loads(ready_file(home).read_text())["file"]
    return land_wave(home, Path(file), None, rests, lambda line: None)
