"""What a checkpoint or a control table must have reached, and what they are called."""

from __future__ import annotations

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.positions import Range, RunsPosition
from databricks_bridge.core.postconditions import (
    CheckpointReached,
    ControlTableReached,
    Readable,
    asked_of,
    conditions_of,
    missing_of,
    untold_of,
)
from databricks_bridge.core.sources import TriggeredRuns
from tests.core.builders import FLIGHTS, WEATHER, at

VOLUME = "/Volumes/main/gold/checkpoints/delays"
CHECKPOINT = CheckpointReached(VOLUME)
CONTROL = ControlTableReached("main.ops.job_watermarks", "small")
RANGES = (
    Range("flights", "f", at(3), at(5)),
    Range("weather", "w", at(4), at(4)),
    Range("bronze", "b", RunsPosition(0), RunsPosition(9, frozenset({1})), (1,)),
)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (VOLUME, VOLUME),
        (f"dbfs:{VOLUME}/", VOLUME),
        ("s3://bucket/checkpoints/delays/", "s3://bucket/checkpoints/delays"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
        ("file:///srv/checkpoint", "file:///srv/checkpoint"),
    ],
)
def test_where_a_checkpoint_can_be(given: str, kept: str) -> None:
    assert CheckpointReached(given).checkpoint == kept


@pytest.mark.parametrize(
    "given", ["", "/tmp/checkpoint", "/Volumes/main/gold", "checkpoint", "dbfs:/x", "http://x/y", 7]
)
def test_where_it_cannot_be(given: object) -> None:
    with pytest.raises(InvalidArgument, match="checkpoint is"):
        CheckpointReached(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("table", ["job_watermarks", "ops.job_watermarks", "main.ops.job watermarks", "a.b.c;drop"])
def test_a_control_table_has_three_plain_parts(table: str) -> None:
    with pytest.raises(InvalidArgument, match="table of ControlTableReached"):
        ControlTableReached(table, "small")


def test_a_control_table_is_quoted_and_needs_a_warehouse() -> None:
    assert CONTROL.quoted == "`main`.`ops`.`job_watermarks`"
    with pytest.raises(InvalidArgument, match="give the warehouse's name"):
        ControlTableReached("main.ops.job_watermarks", " ")


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        (CHECKPOINT, {"flights": at(5)}),
        (CheckpointReached(VOLUME, alias="flights"), {"flights": at(5)}),
        (CheckpointReached(VOLUME, alias="weather"), {}),
        (CONTROL, {"flights": at(5)}),
    ],
)
def test_only_tables_with_something_new_are_asked_for(condition: Readable, asked: dict[str, object]) -> None:
    assert asked_of(condition, RANGES) == asked


@pytest.mark.parametrize(
    ("reached", "missing"),
    [
        ({"flights": 5}, ""),
        ({"flights": 9, "other": 0}, ""),
        ({"flights": 4}, "the control table main.ops.job_watermarks has flights at 4, not at 5"),
        ({"other": 9}, "the control table main.ops.job_watermarks has nothing of flights"),
        ({}, "the control table main.ops.job_watermarks has nothing of flights"),
    ],
)
def test_what_has_not_come_far_enough(reached: dict[str, int], missing: str) -> None:
    assert missing_of(CONTROL, asked_of(CONTROL, RANGES), reached) == missing


def test_none_one_and_several_conditions() -> None:
    def own(ranges: object, run_id: int) -> bool:
        return True

    assert conditions_of(None, [FLIGHTS]) == ()
    assert conditions_of(own, [FLIGHTS]) == (own,)
    assert conditions_of([CHECKPOINT, own], [FLIGHTS]) == (CHECKPOINT, own)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (True, "postcondition is True"),
        ("x", "postcondition is 'x'"),
        ([CHECKPOINT, 1], "postcondition is 1"),
        (CheckpointReached(VOLUME, alias="gold"), r"is for 'gold', which is no table of the subscription: .*flights"),
    ],
)
def test_other_things_are_refused_at_parse(given: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        conditions_of(given, [FLIGHTS, WEATHER])


@pytest.mark.parametrize("condition", [CHECKPOINT, CONTROL])
def test_versions_prove_nothing_of_runs(condition: Readable) -> None:
    with pytest.raises(InvalidArgument, match="tells versions, and the subscription has no table"):
        conditions_of(condition, [TriggeredRuns(job_name="bronze")])


def test_what_no_condition_tells_of_is_named() -> None:
    ranges = (Range("flights", "s.flights", at(3), at(3)), Range("weather", "s.weather", at(3), at(8)))
    of_flights = CheckpointReached("s3://bucket/checkpoint", alias="flights")
    assert untold_of([of_flights], ranges, "0") == "its postcondition tells nothing of s.weather (3, 8]"
    assert untold_of([of_flights, CheckpointReached("s3://bucket/other", alias="weather")], ranges, "0") == ""
    assert untold_of([of_flights, lambda ranges, run_id: True], ranges, "0") == ""


def test_after_the_first_epoch_only_a_function_tells_without_a_run() -> None:
    """The watermark was moved back, or the table made anew: what stands in the checkpoint may be of before."""
    ranges = (Range("flights", "s.flights", at(3), at(8)),)
    of_flights = CheckpointReached("s3://bucket/checkpoint", alias="flights")
    assert untold_of([of_flights], ranges, "0") == ""
    assert "before the epoch e1" in untold_of([of_flights], ranges, "e1")
    assert untold_of([of_flights, lambda ranges, run_id: True], ranges, "e1") == ""
