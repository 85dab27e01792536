"""How far a Structured Streaming checkpoint has processed a Delta table.

Layout: `offsets/N` is written before batch N, `commits/N` after it; an offsets file has a line `v1`, a line of metadata,
and one line for each source, JSON or `-` (Spark's OffsetSeqLog; Delta's DeltaSourceOffset).

An offset `{reservoirVersion: V, index: I}` means:

- `I` below 0: before anything of V, so V - 1 is done. -1 and -100 are the same; -20 and -19 are the stop before a change of
  schema in V, of a stream that tracks it.
- `I` from 0 on: the files of V up to and with number I. Delta moves on to `{V + 1, -1}` where it has read a whole
  commit of added and removed files, but not where it has read a commit with change files (UPDATE, DELETE and MERGE of a
  table with a change feed): after the last of these it stays at `{V, last}`. So only the commit's own files tell.
- `isStartingVersion`: the files are those of the whole table as of V, its first snapshot, and nothing before V counts alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.positions import BEFORE_FIRST

_HEADER_LINES = 2


@dataclass(frozen=True, kw_only=True)
class FileCounts:
    """How many files one commit adds and removes with changed rows, and how many change files it has."""

    adds: int = 0
    removes: int = 0
    changes: int = 0

    def last(self, change_feed: bool | None, index: int) -> int:
        """The index of the commit's last file as a stream counts them that stands at `index`, -1 where it reads none.

        A change feed has the change files alone where there are any, else all added and removed ones; a stream of the table
        the added ones. Where that is not known it is taken for a change feed, unless it is further than the change files
        go: a stream of the table never stays at the last file of a commit, and in the middle of one only where its rate limit
        ended a batch.
        """
        if change_feed is False or (change_feed is None and 0 < self.changes <= index):
            return self.adds - 1
        return (self.changes or self.adds + self.removes) - 1


class TableFiles(Protocol):
    """What a table's log tells of the files that a stream reads. Both give None where the log does not tell."""

    async def commit_files(self, version: int) -> FileCounts | None:
        """How many files this commit has."""
        ...

    async def snapshot_files(self, version: int) -> int | None:
        """How many files the table has as of this version."""
        ...


@dataclass(frozen=True, kw_only=True)
class StreamOffset:
    """How far one source of a stream has come. `snapshot`: in the files of the first snapshot, not of a commit."""

    table: str
    version: int
    index: int
    snapshot: bool = False


@dataclass(frozen=True)
class Reached:
    """The last version that is wholly processed, -1 for none. `inside` is a later one that is begun and of which nobody
    tells how many files it has, so that it may be done too; None where all is known.
    """

    version: int
    inside: int | None = None


def last_done(offsets: Iterable[str], commits: Iterable[str]) -> int | None:
    """The newest batch that was planned and committed, from the names in both folders; None while there is none."""
    return max(_batches(offsets) & _batches(commits), default=None)


def offsets_of(text: str, metadata_id: str | None) -> tuple[StreamOffset, ...]:
    """The offsets of one table in an offsets file; several where the stream reads it more than once.

    `metadata_id` picks the table among several. Raises LedgerError.
    """
    every = _delta_offsets(text)
    found = tuple(offset for offset in every if metadata_id in (None, offset.table))
    if len({offset.table for offset in found}) != 1:
        ids = ", ".join(sorted({offset.table for offset in every})) or "no Delta table"
        raise LedgerError(
            f"the checkpoint reads {ids}; it has to be one table, with the id {metadata_id or '(not known)'}"
        )
    return found


async def reached(
    offsets: Iterable[StreamOffset], files: TableFiles | None = None, change_feed: bool | None = None
) -> Reached:
    """The last version that is wholly processed by the slowest of these offsets, when their batch is done.

    `files` is asked only about a version that is begun. See `FileCounts.last` for `change_feed`.
    """
    found = [await _reached(offset, files, change_feed) for offset in offsets]
    return min(found, key=lambda one: (one.version, one.inside is not None))


async def _reached(offset: StreamOffset, files: TableFiles | None, change_feed: bool | None) -> Reached:
    before = BEFORE_FIRST if offset.snapshot else offset.version - 1
    if offset.index < 0:
        return Reached(before)
    if offset.snapshot:
        count = None if files is None else await files.snapshot_files(offset.version)
        last = None if count is None else count - 1
    else:
        counts = None if files is None else await files.commit_files(offset.version)
        last = None if counts is None else counts.last(change_feed, offset.index)
    if last is None:
        return Reached(before, inside=offset.version)
    return Reached(offset.version if offset.index >= last else before)


def processed_version(offsets: str, metadata_id: str | None) -> int:
    """The last version that the offsets alone, without the table's log, prove to be wholly processed. Raises LedgerError.

    Worked example: `reservoirVersion` 7 at index -1 is "before anything of 7", so 6. In the middle of 7, or of the first
    snapshot, what is begun does not count.
    """
    found = offsets_of(offsets, metadata_id)
    return min(BEFORE_FIRST if offset.snapshot else offset.version - 1 for offset in found)


def _delta_offsets(text: str) -> list[StreamOffset]:
    found = []
    for line in text.splitlines()[_HEADER_LINES:]:
        try:
            value = json.loads(line) if line.strip() not in ("", "-") else None
        except ValueError as error:
            raise LedgerError(f"the checkpoint's offsets are not whole ({error})") from error
        if isinstance(value, dict) and "reservoirId" in value and "reservoirVersion" in value:
            found.append(_offset(value))
    return found


def _offset(value: dict[str, Any]) -> StreamOffset:
    return StreamOffset(
        table=str(value["reservoirId"]),
        version=int(value["reservoirVersion"]),
        index=int(value.get("index", -1)),
        snapshot=bool(value.get("isStartingVersion") or value.get("isInitialSnapshot")),
    )


def _batches(names: Iterable[str]) -> set[int]:
    return {int(name) for name in names if name.isdecimal()}
