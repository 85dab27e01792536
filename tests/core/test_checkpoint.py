"""How far a streaming checkpoint has come: which batch counts, and what its offset means."""

from __future__ import annotations

import json

import pytest

from databricks_bridge.core.checkpoint import last_done, processed_version
from databricks_bridge.core.errors import LedgerError

TABLE = "87a941c9-8736-4028-9132-3b37a792dbde"
OTHER = "11111111-8736-4028-9132-3b37a792dbde"


def offset(version: int, index: int = -1, *, starting: bool = False, table: str = TABLE, kind: int = 1) -> str:
    value = {"sourceVersion": kind, "reservoirId": table, "reservoirVersion": version, "index": index}
    return json.dumps({**value, "isStartingVersion": starting})


def offsets(*lines: str) -> str:
    return "\n".join(("v1", '{"batchWatermarkMs":0,"conf":{}}', *lines))


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (offset(7), 6),
        (offset(7, -100, kind=3), 6),
        (offset(7, 4), 6),
        (offset(0), -1),
        (offset(7, 4, starting=True), -1),
        (offset(8), 7),
    ],
    ids=["before 7", "before 7, version 3", "in 7", "before the first", "in the snapshot", "after the snapshot of 7"],
)
def test_what_an_offset_has_wholly_processed(line: str, version: int) -> None:
    assert processed_version(offsets(line), None) == version


def test_a_table_is_picked_by_its_id() -> None:
    text = offsets(offset(3), "-", '{"logOffset":5}', offset(9, table=OTHER))
    assert processed_version(text, TABLE) == 2
    assert processed_version(text, OTHER) == 8
    with pytest.raises(LedgerError, match=r"reads 1111.*, 87a9.*; it has to be one table, with the id \(not known\)"):
        processed_version(text, None)
    with pytest.raises(LedgerError, match="with the id another"):
        processed_version(text, "another")


def test_a_table_that_is_read_twice_is_as_far_as_the_slower_reader() -> None:
    assert processed_version(offsets(offset(9), offset(4)), TABLE) == 3


@pytest.mark.parametrize("text", ["", "v1", offsets("-"), offsets('{"logOffset":5}'), offsets('{"reservoirId"')])
def test_a_checkpoint_of_no_table_is_an_error(text: str) -> None:
    with pytest.raises(LedgerError, match="checkpoint"):
        processed_version(text, None)


@pytest.mark.parametrize(
    ("planned", "done", "batch"),
    [
        (["0", "1", "2"], ["0", "1"], 1),
        (["0"], [], None),
        ([], [], None),
        (["9", "10", ".10.crc"], ["9", "10", ".9.crc"], 10),
        (["5"], ["4"], None),
    ],
)
def test_a_batch_counts_when_it_was_planned_and_committed(
    planned: list[str], done: list[str], batch: int | None
) -> None:
    assert last_done(planned, done) == batch
