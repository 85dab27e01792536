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
from databricks_bridge.local.layout import checked
from databricks_bridge.local.managing import land_wave, landed_waves, ready_file
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.rest import Rest
from databricks_bridge.local.server.errors import ResourceAlreadyExists

_HIDDEN = ".upload-"
"""As uploads over the API begin: nobody, the file arrival trigger least of all, sees half a file."""


class NameRefused(BridgeError):
    """The name cannot be that of a file."""


@dataclass(frozen=True)
class Waves:
    """How many waves the lab file has, how many have landed, and the `files` that the next has for each workspace."""

    of: int
    landed: int
    files: Mapping[str, int]

    @property
    def next_number(self) -> int | None:
        """The number of the wave that comes next; None when all have landed."""
        return self.landed + 1 if self.landed < self.of else None


def drop(folder: Path, name: str, content: bytes, *, overwrite: bool) -> None:
    """Put a file into a folder, whole. Raises NameRefused, LeadsOutside, ResourceAlreadyExists, OSError."""
    if not name or name in (".", "..") or "/" in name or not name.isprintable():
        raise NameRefused(f"{name!r} cannot be the name of a file: give one without slashes.")
    target, draft = checked(folder, name), folder / f"{_HIDDEN}{uuid.uuid4()}"
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


def waves(workspace: Workspace) -> Waves | None:
    """The waves that `databricks-bridge local wave` lands; None where no lab file has any, or it cannot be read."""
    from databricks_bridge.local.lab_file import read_lab

    home = workspace.layout.home
    with contextlib.suppress(OSError, ValueError, LookupError, BridgeError):
        file = json.loads(ready_file(home).read_text())["file"]
        known = read_lab(Path(file)).waves if file else ()
        if known:
            landed = min(landed_waves(home), len(known))
            coming = known[landed] if landed < len(known) else {}
            counts = {name: sum(len(one.files) for one in arrivals) for name, arrivals in coming.items()}
            return Waves(len(known), landed, counts)
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
