"""The waves of files, landed as an outside system would: by the Files API, into a volume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from demo.databricks_api import Workspace
from demo.places import ROOT, Places

Landed: TypeAlias = Mapping[str, Sequence[Path]]
"""The files with raw records, by workspace."""

DATA = ROOT / "demo" / "data"
LANDING = {"ops": ("flights", "/Volumes/main/landing/flights"), "met": ("weather", "/Volumes/main/landing/weather")}
STORY = (1, 2, 3)
"""The waves that the demo lands."""
LATER = (4,)
"""There for a person to land."""


def files(workspace: str, *waves: int) -> list[Path]:
    """The shipped files of these waves, or of all that the story lands, for one workspace."""
    folder, _ = LANDING[workspace]
    return sorted(file for wave in waves or STORY for file in (DATA / folder).glob(f"wave-{wave}-*.json"))


def shipped(*waves: int) -> Landed:
    """The shipped files of these waves, or of all that the story lands."""
    return {name: files(name, *waves) for name in LANDING}


def lying(places: Places) -> Landed:
    """What lies in the volumes now, whoever put it there."""
    folders = {name: places.volume(name, volume) for name, (_, volume) in LANDING.items()}
    return {
        name: sorted(file for file in folder.rglob("*") if file.is_file() and file.name[0] not in "._")
        for name, folder in folders.items()
    }


def land(workspaces: dict[str, Workspace], wave: int) -> int:
    """Land a wave in both workspaces and return how many files that were."""
    landed = 0
    for name, (_, volume) in LANDING.items():
        for file in files(name, wave):
            with file.open("rb") as content:
                workspaces[name].client.files.upload(f"{volume}/{file.name}", content)
            landed += 1
    return landed
