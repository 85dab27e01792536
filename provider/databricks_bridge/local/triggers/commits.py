"""What the `_delta_log` of a table on disk says: its versions, their times, and which of them changed data."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_COMMIT = re.compile(r"^([0-9]{20})\.json$")
_LOG_FILE = re.compile(r"^([0-9]{20})\.(json|checkpoint\..+)$")
ID_FILE = ".table_id"


@dataclass(frozen=True)
class Commit:
    """One version of a table. `at` is the modification time of its file, which is what time travel goes by."""

    version: int
    at: datetime
    changes_data: bool


class CommitUnreadable(Exception):
    """A commit file is empty or cut short: it is being written. Look again later."""


def view_file(table: Path) -> Path:
    """Where the engine's catalog keeps the definition of a view of this name."""
    return table.with_name(table.name + ".view.json")


def commit_name(version: int) -> str:
    """File name of a commit: ``commit_name(7) == "00000000000000000007.json"``."""
    return f"{version:020d}.json"


def commit_versions(table: Path) -> list[int]:
    """Versions whose commit file is there, ascending; empty where there is no table."""
    return sorted(int(match[1]) for name in _names(table / "_delta_log") if (match := _COMMIT.match(name)))


def table_exists(table: Path) -> bool:
    """A table is there when its log holds a commit or a checkpoint."""
    return any(_LOG_FILE.match(name) for name in _names(table / "_delta_log"))


def commit_time(table: Path, version: int) -> datetime:
    """When the commit was made. Raises FileNotFoundError when its file is gone."""
    return datetime.fromtimestamp((table / "_delta_log" / commit_name(version)).stat().st_mtime, UTC)


def read_commit(table: Path, version: int) -> Commit:
    """One commit. It changes data when some `add` or `remove` says ``dataChange: true`` (Delta protocol).

    Raises FileNotFoundError when it is gone and CommitUnreadable while it is being written.
    """
    file = table / "_delta_log" / commit_name(version)
    at, empty = commit_time(table, version), True
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            empty = False
            try:
                action = json.loads(line)
            except ValueError as error:
                raise CommitUnreadable(f"{file.name} of {table.name} is cut short") from error
            if any(name in action and action[name].get("dataChange") for name in ("add", "remove")):
                return Commit(version, at, changes_data=True)
    if empty:
        raise CommitUnreadable(f"{file.name} of {table.name} is empty")
    return Commit(version, at, changes_data=False)


def table_id(table: Path) -> str | None:
    """The id of the table in this folder, made at the first look; None where there is no table.

    It lives in the folder, so that dropping and creating gives another id and CREATE OR REPLACE keeps it.
    """
    file = table / ID_FILE
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if known := file.read_text().strip():
            return known if table_exists(table) else None
    if not table_exists(table):
        return None
    draft = table / f".{uuid.uuid4()}.tmp"
    try:
        draft.write_text(str(uuid.uuid4()))
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
    except FileNotFoundError:
        return None
    finally:
        draft.unlink(missing_ok=True)
    if not table_exists(table):
        # Dropped meanwhile: an id left behind would stand in the way of the next table of this name.
        file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            table.rmdir()
        return None
    return file.read_text().strip()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
