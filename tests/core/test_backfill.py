"""What a backfill is told, under which token, and where earlier tries left it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.acts import RunSeen
from databricks_bridge.core.backfill import Asking, Backfill, marks_of, ranges_of, standing
from databricks_bridge.core.bounds import bounds_of
from databricks_bridge.core.errors import BadAnswer, InvalidArgument
from databricks_bridge.core.outcomes import outcome_of
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.sources import TriggeredRuns
from tests.core.builders import FLIGHTS, NOW, TARGET, WEATHER, at
from tests.core.driving import FAILED, OK, RUNNING, SKIPPED

BOTH = (FLIGHTS, WEATHER)
ASKING = Asking("delays", "manual__1", "build_gold", -1)
BACKFILL = Backfill("delays", TARGET, {"flights": (3, 7), "weather": (2, 2)}, ASKING)
FINDINGS = {"flights": TableFinding(at(9), 9, NOW), "weather": TableFinding(at(2, "t2"), None, None)}


def seen(generation: int, state: dict[str, Any], **changes: str) -> RunSeen:
    claim = BACKFILL.claim(generation, ranges_of(BACKFILL.bounds, BOTH, FINDINGS), {}, NOW)
    return RunSeen(generation + 11, outcome_of({"state": state}), dict(claim.parameters) | changes)


@pytest.mark.parametrize(
    "value",
    [
        {"flights": (3, 7), "weather": (2, 2)},
        {"weather": ["2", 2], "flights": ["3", " 7 "]},
        '{"flights": [3, "7"], "weather": [2, 2]}',
    ],
)
def test_numbers_digits_and_json_text_are_the_same(value: object) -> None:
    assert bounds_of(value, BOTH) == {"flights": (3, 7), "weather": (2, 2)}


def test_minus_one_is_before_the_first_commit() -> None:
    assert bounds_of({"flights": ("-1", 0)}, [FLIGHTS]) == {"flights": (-1, 0)}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"flights": (3, 7)}, r"leaves out weather; name every source .*\(flights, weather\), with \(n, n\)"),
        ({"flights": (3, 7), "weather": (2, 2), "x": (0, 1)}, "names no source x"),
        ({"flights": (3, 3), "weather": (2, 2)}, "is empty; from is exclusive"),
        ({"flights": (7, 3), "weather": (2, 2)}, r"range of flights is \(7, 3\), which ends before it begins"),
        ({"flights": (-2, 3), "weather": (2, 2)}, "the version -2; give a number from -1 on"),
        ({"flights": (True, 3), "weather": (2, 2)}, "the version True"),
        ({"flights": (3.0, 7), "weather": (2, 2)}, r"the version 3\.0"),
        ({"flights": ("", 7), "weather": (2, 2)}, "the version ''"),
        ({"flights": (3, 5, 7), "weather": (2, 2)}, r"range of flights is \(3, 5, 7\); give \(from, to\)"),
        ({"flights": "37", "weather": (2, 2)}, "range of flights is '37'"),
        ("", "range is the text '', which is no JSON"),
        ("None", "range is the text 'None', which is no JSON"),
        ("[1, 2]", r"range is \[1, 2\]; give alias to \(from, to\)"),
        (7, "range is 7"),
    ],
)
def test_what_is_no_range_is_refused(value: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        bounds_of(value, BOTH)


def test_triggered_runs_have_no_versions() -> None:
    runs = TriggeredRuns(job_name="bronze")
    with pytest.raises(InvalidArgument, match="bronze is a source of triggered runs, which have no versions"):
        bounds_of({"flights": (3, 7), "bronze": (0, 1)}, (FLIGHTS, runs))


def test_a_run_is_told_the_ranges_and_that_it_is_a_backfill() -> None:
    claim = BACKFILL.claim(1, ranges_of(BACKFILL.bounds, BOTH, FINDINGS), {"region": "NY"}, NOW)
    told = dict(claim.parameters)
    assert (told["flights_table"], told["flights_start"], told["flights_end"]) == ("ops_share.silver.flights", "4", "7")
    assert (told["weather_start"], told["weather_end"]) == ("3", "2")
    assert (told["bridge_epoch"], told["bridge_generation"], told["region"]) == ("backfill", "1", "NY")
    assert told["bridge_token"] == claim.token == BACKFILL.token(1)
    assert [one.to for one in claim.ranges] == [
        replace(at(7), fingerprint=None),
        replace(at(2, "t2"), fingerprint=None),
    ]


def test_versions_beyond_the_newest_are_refused() -> None:
    short = FINDINGS | {"flights": TableFinding(at(5), 5, NOW)}
    with pytest.raises(InvalidArgument, match=r"range of flights ends at 7, but main\.silver\.flights has 5"):
        ranges_of(BACKFILL.bounds, BOTH, short)
    with pytest.raises(InvalidArgument, match="has no version at all"):
        ranges_of(BACKFILL.bounds, BOTH, FINDINGS | {"flights": TableFinding(None, None, None)})


def test_a_look_begins_where_the_range_does() -> None:
    assert {alias: mark.version for alias, mark in marks_of(BACKFILL.bounds).items()} == {"flights": 3, "weather": 2}


OTHERS = [
    replace(BACKFILL, subscription="other"),
    replace(BACKFILL, target=replace(TARGET, host="http://127.0.0.1:2")),
    replace(BACKFILL, target=replace(TARGET, workspace_id="1002")),
    replace(BACKFILL, target=replace(TARGET, job_id=8)),
    replace(BACKFILL, bounds={"flights": (3, 8), "weather": (2, 2)}),
    replace(BACKFILL, bounds={"flights": (2, 7), "weather": (2, 2)}),
    replace(BACKFILL, asking=replace(ASKING, dag_id="other")),
    replace(BACKFILL, asking=replace(ASKING, run_id="manual__2")),
    replace(BACKFILL, asking=replace(ASKING, task_id="other")),
    replace(BACKFILL, asking=replace(ASKING, map_index=0)),
]


def test_everything_that_was_asked_for_is_in_the_token() -> None:
    tokens = {one.token(generation) for one in [BACKFILL, *OTHERS] for generation in (0, 1)}
    assert len(tokens) == 2 * (len(OTHERS) + 1)
    assert {len(token) for token in tokens} == {64}


def test_the_order_of_the_sources_is_not_in_the_token() -> None:
    turned = replace(BACKFILL, bounds=dict(reversed(BACKFILL.bounds.items())))
    assert turned.token(0) == BACKFILL.token(0)


def test_a_run_is_known_by_its_token_alone() -> None:
    assert BACKFILL.generation_of(seen(2, OK).parameters) == 2
    for changes in (
        {"bridge_token": "x"},
        {"bridge_generation": "3"},
        {"bridge_generation": "two"},
        {"bridge_epoch": "0"},
    ):
        run = seen(2, OK, **changes)
        assert BACKFILL.generation_of(run.parameters) is None
        with pytest.raises(BadAnswer, match=r"run 13 .* does not carry the token of this backfill"):
            BACKFILL.ran(run)


def test_a_run_shows_the_ranges_that_it_was_given() -> None:
    claim = BACKFILL.ran(seen(2, OK))
    assert (claim.generation, claim.token) == (2, BACKFILL.token(2))
    assert [str(one) for one in claim.ranges] == ["ops_share.silver.flights (3, 7]", "main.silver.weather (2, 2]"]


@pytest.mark.parametrize(
    ("states", "goes_on_with"),
    [
        ([], (0, None)),
        ([RUNNING], (0, 11)),
        ([OK], (0, 11)),
        ([FAILED], (1, None)),
        ([FAILED, SKIPPED, RUNNING], (2, 13)),
        ([OK, FAILED], (0, 11)),
        ([FAILED, FAILED], (2, None)),
    ],
    ids=["none yet", "running", "done", "failed", "skipped, then running", "repaired later", "failed twice"],
)
def test_where_earlier_tries_left_it(states: list[dict[str, Any]], goes_on_with: tuple[int, int | None]) -> None:
    generation, run = standing({number: seen(number, state) for number, state in enumerate(states)})
    assert (generation, run.run_id if run else None) == goes_on_with


@given(st.dictionaries(st.integers(0, 6), st.sampled_from([OK, FAILED, SKIPPED, RUNNING])))
def test_never_a_run_that_is_over_without_success(states: dict[int, dict[str, Any]]) -> None:
    runs = {number: seen(number, state) for number, state in states.items()}
    generation, run = standing(runs)
    assert run is runs.get(generation)
    assert run is None or run.outcome == outcome_of({"state": OK}) or run.outcome == outcome_of({"state": RUNNING})
    assert all(states[number] in (FAILED, SKIPPED) for number in range(generation))
