"""A deployment's home is for its user alone: it holds tokens, and what notebooks print, read and write."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from databricks_bridge.core.errors import BridgeError

UMASK = 0o077
"""Of every process of a deployment that is no guest in another's: what it makes, nobody else reads."""
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OURS = (
    "deployment.",
    "store.sqlite",
    "engine",
    "metastores",
    "volumes",
    "workspaces",
    "tls",
    "local.log",
    "ready.json",
)


class NotPrivate(BridgeError):
    """The home belongs to somebody else, who could read what is in it."""


def make_private(home: Path) -> None:
    """Make the home where it is missing, and take from others what they may do there.

    One that was open to others is tightened below too, as far as it is a deployment's own: a copy keeps the modes.

    :raises NotPrivate: for a home of another user.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = home.stat()
    if not found.st_mode & _FOR_OTHERS:
        return
    try:
        home.chmod(stat.S_IMODE(found.st_mode) & ~_FOR_OTHERS)
    except PermissionError:
        raise NotPrivate(f"{home} belongs to another user of this machine; give a --home of your own") from None
    for entry in os.scandir(home):
        if entry.name.startswith(_OURS):
            _tighten(entry)
            if entry.is_dir(follow_symlinks=False):
                for folder, below, files in os.walk(entry.path):
                    _tighten_all(folder, [*below, *files])


def appending(log: Path) -> BinaryIO:
    """A log of a child process, opened for its end; made for its user alone."""
    return open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _tighten_all(folder: str, names: list[str]) -> None:
    for name in names:
        path = Path(folder, name)
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & _FOR_OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_FOR_OTHERS)


def _tighten(entry: os.DirEntry[str]) -> None:
    _tighten_all(os.path.dirname(entry.path), [entry.name])
