from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.positions import (
    BEFORE_FIRST,
    Position,
    Range,
    RunsPosition,
    TablePosition,
    covers,
    merge,
    position_from_json,
    range_from_json,
)
from tests.core.builders import positions, ranges, runs_positions, table_positions


@given(table_positions, table_positions)
def test_table_versions_merge_forward_only(a: TablePosition, b: TablePosition) -> None:
    merged = merge(a, b)
    assert isinstance(merged, TablePosition)
    assert merged.version == max(a.version, b.version)
    assert covers(merged, a)
    assert covers(merged, b)
    assert covers(a, b) == (a.version >= b.version)


@given(runs_positions, runs_positions, runs_positions)
def test_run_sets_merge_as_sets(a: RunsPosition, b: RunsPosition, c: RunsPosition) -> None:
    assert merge(a, b) == merge(b, a)
    assert merge(a, a) == a
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert covers(merge(a, b), a)
    assert covers(merge(a, b), b)


@given(runs_positions, runs_positions, st.data())
def test_merged_runs_have_what_either_has_and_nothing_else(
    a: RunsPosition, b: RunsPosition, data: st.DataObject
) -> None:
    known = [*a.late, *b.late, *((0, run_id) for run_id in a.done | b.done)]
    start_ms, run_id = data.draw(st.sampled_from(known) if known else st.just((3, 3)))
    merged = a.merged(b)
    assert merged.has(start_ms, run_id) == (a.has(start_ms, run_id) or b.has(start_ms, run_id))


def test_a_late_run_is_not_done_until_a_further_position_says_so() -> None:
    mark = RunsPosition(100, frozenset({5}), late=frozenset({(40, 1), (60, 2)}))
    assert [mark.has(*one) for one in [(40, 1), (60, 2), (120, 6)]] == [False] * 3
    assert mark.has(40, 3)
    assert mark.has(120, 5)
    assert mark.oldest_ms == 40
    one_done = RunsPosition(100, frozenset({5}), late=frozenset({(60, 2)}))
    assert covers(one_done, mark)
    assert not covers(mark, one_done)
    assert not covers(RunsPosition(200, late=frozenset({(60, 2)})), RunsPosition(100)), "it has 2, which is late there"
    assert merge(mark, one_done) == merge(one_done, mark) == one_done
    assert merge(RunsPosition(50), RunsPosition(100, late=frozenset({(40, 1), (60, 2)}))) == RunsPosition(
        100, late=frozenset({(60, 2)})
    )


def test_late_runs_enter_token_and_json_only_where_there_are_some() -> None:
    """A record, and a token, of a release that knew none stay as they are."""
    old = {"kind": "runs", "low_water_ms": 9, "done": [1, 2], "found": False}
    mark = position_from_json(old)
    assert mark == RunsPosition(9, frozenset({1, 2}))
    assert mark.to_json() == old
    assert mark.identity() == [9, [1, 2]]
    late = RunsPosition(9, frozenset({1, 2}), late=frozenset({(8, 4), (7, 3)}))
    assert late.to_json() == old | {"late": [[7, 3], [8, 4]]}
    assert late.identity() == [9, [1, 2], [[7, 3], [8, 4]]]
    assert replace(late, found=True).identity() == replace(mark, found=True).identity() == ["found"]


def test_of_two_positions_that_were_only_found_the_merged_one_is_only_found() -> None:
    found, more = RunsPosition(10, frozenset({1}), found=True), RunsPosition(20, frozenset({2}), found=True)
    assert merge(found, more) == RunsPosition(20, frozenset({1, 2}), found=True)


@given(positions)
def test_a_position_covers_itself_and_nothing_covers_what_is_not_there(a: Position) -> None:
    assert covers(a, a)
    assert not covers(None, a)
    assert merge(None, a) == a


def test_positions_of_two_kinds_do_not_cover_each_other() -> None:
    assert not covers(TablePosition(9), RunsPosition(0))
    assert not covers(RunsPosition(9), TablePosition(0))


@given(positions)
def test_a_position_makes_the_way_through_json(a: Position) -> None:
    assert position_from_json(json.loads(json.dumps(a.to_json()))) == a


@given(ranges)
def test_a_range_makes_the_way_through_json(one: Range) -> None:
    assert range_from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize(
    ("from_", "to", "empty"), [(3, 5, False), (3, 4, False), (3, 3, True), (5, 3, True), (-1, -1, True), (-1, 0, False)]
)
def test_a_range_is_exclusive_at_from_and_inclusive_at_to(from_: int, to: int, empty: bool) -> None:
    assert Range("a", "n", TablePosition(from_), TablePosition(to)).empty is empty


def test_a_range_is_written_in_one_way() -> None:
    assert str(Range("a", "c.s.t", TablePosition(3), TablePosition(5))) == "c.s.t (3, 5]"
    assert (
        str(Range("a", "bronze", RunsPosition(0), RunsPosition(9, frozenset({2, 1})), (2, 1))) == "bronze runs [2, 1]"
    )


def test_before_the_first_commit_comes_before_version_0() -> None:
    assert BEFORE_FIRST == -1
    assert TablePosition(0).covers(TablePosition(BEFORE_FIRST))


def test_what_was_only_found_gives_way_to_what_was_processed_and_covers_none_of_it() -> None:
    """Two racers at a start at "latest": the later one may have found more than the first one's run has processed."""
    found, done = TablePosition(2, found=True), TablePosition(1)
    assert found.merged(done) == done.merged(found) == done
    assert not found.covers(done)
    assert found.covers(TablePosition(1, found=True))
    found_runs, done_runs = RunsPosition(20, found=True), RunsPosition(10, frozenset({7}))
    assert found_runs.merged(done_runs) == done_runs.merged(found_runs) == done_runs
    assert not found_runs.covers(done_runs)
