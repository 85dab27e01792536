"""What a stream has wholly processed that stopped inside a version: by offsets and commits that real Spark wrote.

`tests/local/engine/test_stream_checkpoints.py` makes the same ones anew and compares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.checkpoint import FileCounts, Reached, StreamOffset, offsets_of, reached
from tests.core.test_checkpoint import OTHER, TABLE, offset, offsets

RECORDING = Path(__file__).with_name("stream_offsets.json")
RECORDED: dict[str, dict[str, Any]] = json.loads(RECORDING.read_text())


class Counted:
    """A log whose commits have these files; `asked` is what it was asked for."""

    def __init__(self, commits: dict[int, FileCounts] | None = None, snapshot: int | None = None) -> None:
        self.commits, self.snapshot = commits or {}, snapshot
        self.asked: list[int] = []

    async def commit_files(self, version: int) -> FileCounts | None:
        self.asked.append(version)
        return self.commits.get(version)

    async def snapshot_files(self, version: int) -> int | None:
        self.asked.append(version)
        return self.snapshot


@pytest.mark.parametrize("name", sorted(RECORDED))
async def test_T02_what_real_streams_have_processed(name: str) -> None:
    one = RECORDED[name]
    log = Counted({int(version): FileCounts(**counts) for version, counts in one["commits"].items()}, one["snapshot"])
    found = await reached([StreamOffset(**one["offset"])], log)
    assert found == Reached(one["done"])


FILES = FileCounts(adds=3, removes=2, changes=2)
NO_CHANGES = FileCounts(adds=3, removes=2)


@pytest.mark.parametrize(
    ("index", "counts", "change_feed", "done"),
    [
        (1, FILES, None, 7),
        (0, FILES, None, 6),
        (1, FILES, True, 7),
        (1, FILES, False, 6),
        (2, FILES, False, 7),
        (2, FileCounts(adds=10, changes=2), None, 6),
        (9, FileCounts(adds=10, changes=2), None, 7),
        (4, NO_CHANGES, None, 7),
        (3, NO_CHANGES, True, 6),
        (2, NO_CHANGES, None, 6),
        (2, NO_CHANGES, False, 7),
        (0, FileCounts(removes=1), None, 7),
        (0, FileCounts(changes=1), None, 7),
        (0, FileCounts(adds=2, changes=1), None, 7),
    ],
    ids=[
        "all change files",
        "one of two change files",
        "all change files, said to be a feed",
        "two of three added files",
        "all added files",
        "further than the change files, so a stream of the table: three of ten added files",
        "further than the change files: all added files",
        "a feed without change files, all",
        "a feed without change files, but one",
        "may be a feed in its middle",
        "all added files, no change files",
        "a whole file deleted",
        "change files alone",
        "with deletion vectors an UPDATE adds more files than it has change files",
    ],
)
async def test_a_stop_inside_a_version(index: int, counts: FileCounts, change_feed: bool | None, done: int) -> None:
    [found] = offsets_of(offsets(offset(7, index)), None)
    assert await reached([found], Counted({7: counts}), change_feed) == Reached(done)


@pytest.mark.parametrize(("files", "done"), [(4, Reached(7)), (5, Reached(-1)), (None, Reached(-1, inside=7))])
async def test_a_stop_inside_the_first_snapshot(files: int | None, done: Reached) -> None:
    """Delta before 3.0 stays at the snapshot's last file until the next commit."""
    [found] = offsets_of(offsets(offset(7, 3, starting=True)), None)
    assert await reached([found], Counted(snapshot=files)) == done


async def test_what_no_log_tells_is_said_to_be_unknown() -> None:
    [found] = offsets_of(offsets(offset(7, 3)), None)
    assert await reached([found]) == Reached(6, inside=7)
    assert await reached([found], Counted()) == Reached(6, inside=7)


@pytest.mark.parametrize("line", [offset(7), offset(7, -100, kind=3), offset(7, -20, kind=3), offset(7, -19, kind=3)])
async def test_before_a_version_the_log_is_not_asked(line: str) -> None:
    log = Counted({7: FILES})
    assert await reached(offsets_of(offsets(line), None), log) == Reached(6)
    assert log.asked == []


async def test_a_table_that_is_read_twice_is_as_far_as_the_slower_reader() -> None:
    both = offsets_of(offsets(offset(7, 1), offset(9, table=OTHER), offset(8, 0)), TABLE)
    log = Counted({7: FILES, 8: FileCounts(changes=2)})
    assert await reached(both, log) == Reached(7)
    assert await reached(both, Counted({8: FileCounts(changes=1)})) == Reached(6, inside=7)
