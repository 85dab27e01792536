"""The names in a `_delta_log` folder, parsed once; after that nobody looks at a string again.

Grammar: Delta protocol, "Delta Log Entries", "Checkpoints", "Log Compaction Files", "Version Checksum File".
A pattern that only asks for twenty digits and `.json` would take compacted files, V2 checkpoints and staged
commits for commits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"


@dataclass(frozen=True)
class Commit:
    """`<version>.json`: a published commit."""

    version: int


@dataclass(frozen=True)
class ClassicCheckpoint:
    """`<version>.checkpoint.parquet`."""

    version: int


@dataclass(frozen=True)
class CheckpointPart:
    """`<version>.checkpoint.<part>.<parts>.parquet`: complete only when all `parts` are there, counted from 1."""

    version: int
    part: int
    parts: int


@dataclass(frozen=True)
class V2Checkpoint:
    """`<version>.checkpoint.<unique>.json` or `.parquet`: complete in itself, its sidecars were written before."""

    version: int
    suffix: str


@dataclass(frozen=True)
class Compacted:
    """`<start>.<end>.compacted.json`: commits start to end, both inclusive, a second time. Proves no version."""

    start: int
    end: int


@dataclass(frozen=True)
class Checksum:
    """`<version>.crc`."""

    version: int


@dataclass(frozen=True)
class LastCheckpoint:
    """`_last_checkpoint`: a hint, never proof."""


@dataclass(frozen=True)
class Staged:
    """`_staged_commits/<version>.<unique>.json`: proposed to a catalog, perhaps never ratified. Proves nothing."""

    version: int


@dataclass(frozen=True)
class Unknown:
    """Anything else: sidecars, vendor folders, temporary files. Ignored."""

    name: str


LogFile = (
    Commit
    | ClassicCheckpoint
    | CheckpointPart
    | V2Checkpoint
    | Compacted
    | Checksum
    | LastCheckpoint
    | Staged
    | Unknown
)

_VERSION = r"(\d{20})"
_UNIQUE = r"[0-9A-Za-z-]+"
_GRAMMAR: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], LogFile]], ...] = tuple(
    (re.compile(pattern, re.ASCII), make)
    for pattern, make in (
        (rf"{_VERSION}\.json", lambda m: Commit(int(m[1]))),
        (rf"{_VERSION}\.crc", lambda m: Checksum(int(m[1]))),
        (rf"{_VERSION}\.checkpoint\.parquet", lambda m: ClassicCheckpoint(int(m[1]))),
        (
            rf"{_VERSION}\.checkpoint\.(\d{{10}})\.(\d{{10}})\.parquet",
            lambda m: CheckpointPart(int(m[1]), int(m[2]), int(m[3])),
        ),
        (rf"{_VERSION}\.checkpoint\.{_UNIQUE}\.(json|parquet)", lambda m: V2Checkpoint(int(m[1]), m[2])),
        (rf"{_VERSION}\.{_VERSION}\.compacted\.json", lambda m: Compacted(int(m[1]), int(m[2]))),
        (r"_last_checkpoint", lambda m: LastCheckpoint()),
        (rf"_staged_commits/{_VERSION}\.{_UNIQUE}\.json", lambda m: Staged(int(m[1]))),
    )
)


def parse(name: str) -> LogFile:
    """The kind of one name, given relative to `_delta_log` (`_staged_commits/...` with its folder)."""
    for pattern, make in _GRAMMAR:
        if found := pattern.fullmatch(name):
            return make(found)
    return Unknown(name)


def commit_path(version: int) -> str:
    """Where commit `version` is: `_delta_log/00000000000000000012.json`."""
    return f"{LOG}/{version:020d}.json"


def checksum_path(version: int) -> str:
    """Where the checksum of `version` is, if its writer wrote one."""
    return f"{LOG}/{version:020d}.crc"


def offset(version: int) -> str:
    """A listing offset, exclusive in the store's terms, after which every file of `version` and above comes."""
    return f"{LOG}/{version:020d}"
