from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.errors import BadAnswer, InvalidArgument
from databricks_bridge.core.parameter_names import check_own, names_of
from databricks_bridge.core.parameters import of_run, ranges_of, render
from databricks_bridge.core.positions import Range, RunsPosition, TablePosition
from databricks_bridge.core.sources import TriggeredRuns
from tests.core.builders import FLIGHTS, WEATHER, aliases, at, run_ids

FLIGHTS_RANGE = Range("flights", "ops_share.silver.flights", at(3), at(5))
RUNS_RANGE = Range("bronze", "bronze-flights", RunsPosition(10), RunsPosition(20, frozenset({8, 7})), (8, 7))


def test_a_claim_is_told_in_these_names() -> None:
    given = dict(render("delays", "0", 2, "abc", [FLIGHTS_RANGE, RUNS_RANGE], {"region": "NY"}))
    ranges = json.loads(given.pop("bridge_ranges"))
    assert given == {
        "bridge_subscription": "delays",
        "bridge_epoch": "0",
        "bridge_generation": "2",
        "bridge_token": "abc",
        "bridge_full_rebuild": "[]",
        "flights_table": "ops_share.silver.flights",
        "flights_start": "4",
        "flights_end": "5",
        "bronze_run_ids": "[8, 7]",
        "region": "NY",
    }
    assert ranges[0] == {
        "alias": "flights",
        "table": "ops_share.silver.flights",
        "table_id": "t1",
        "metadata_id": "m1",
        "from": 3,
        "from_committed": 3,
        "from_ids": ["t1", "m1"],
        "from_fingerprint": "f3",
        "from_found": False,
        "to": 5,
        "to_fingerprint": "f5",
    }
    assert ranges[1]["runs"] == [8, 7]


def test_tables_that_are_read_whole_are_named_for_a_full_rebuild() -> None:
    whole, empty = Range("a", "n", at(-1), at(3)), Range("b", "m", at(-1), at(-1))
    given = dict(render("s", "0", 0, "t", [FLIGHTS_RANGE, whole, empty], {}))
    assert given["bridge_full_rebuild"] == '["a"]'


def test_a_range_begins_after_commits_without_data_and_is_read_back_with_its_watermark() -> None:
    """The token knows version 3, the change feed is read from 8 on."""
    passed = replace(at(3), through=7)
    ranges = (Range("a", "n", passed, at(9)), Range("b", "m", passed, passed))
    given = dict(render("s", "0", 0, "t", ranges, {}))
    assert (given["a_start"], given["a_end"]) == ("8", "9")
    assert (given["b_start"], given["b_end"]) == ("8", "7")
    assert ranges_of(given, {}) == ranges


def test_parameters_are_sorted_and_text() -> None:
    rendered = render("s", "0", 0, "t", [FLIGHTS_RANGE, RUNS_RANGE], {"a": "1"})
    assert list(rendered) == sorted(rendered)
    assert all(isinstance(value, str) for _, value in rendered)


@pytest.mark.parametrize(
    ("from_", "to", "start", "end"), [(-1, 0, "0", "0"), (-1, -1, "0", "-1"), (4, 4, "5", "4"), (4, 9, "5", "9")]
)
def test_start_is_from_plus_one_and_after_end_where_nothing_is_new(from_: int, to: int, start: str, end: str) -> None:
    given = dict(render("s", "0", 0, "t", [Range("a", "n", at(from_), at(to))], {}))
    assert (given["a_start"], given["a_end"]) == (start, end)


@pytest.mark.parametrize("name", ["flights_table", "flights_start", "flights_end", "bridge_token", "bridge_ranges"])
def test_an_own_parameter_must_not_hide_one_of_the_claim(name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        render("s", "0", 0, "t", [FLIGHTS_RANGE], {name: "mine"})


def test_a_job_has_to_declare_exactly_what_a_claim_sends() -> None:
    runs = TriggeredRuns(job_name="bronze", alias="bronze")
    weather = Range("weather", "main.silver.weather", at(1), at(1))
    sent = dict(render("s", "0", 0, "t", [FLIGHTS_RANGE, weather, RUNS_RANGE], {"region": "NY"}))
    assert names_of([FLIGHTS, WEATHER, runs], ["region"]) == set(sent)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"bridge_x": "1"}, "begin with bridge_"),
        ({"year": 2013}, "job_parameters['year'] is int"),
        ({"x": None}, "NoneType"),
    ],
)
def test_own_parameters_that_no_claim_can_carry_are_refused(own: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_own(own)
    assert words in str(refused.value)


identities = st.tuples(st.none() | st.text(max_size=5), st.none() | st.text(max_size=5))


def told_range(alias: str, ids: tuple[str | None, str | None], start: int, passed: int, length: int) -> Range:
    from_ = TablePosition(start, *ids, "x", through=start + passed if passed else None)
    return Range(alias, f"c.s.{alias}", from_, TablePosition(from_.at + length, *ids, None) if length else from_)


told_ranges = st.builds(
    told_range, aliases, identities, st.integers(-1, 1000), st.integers(0, 3), st.integers(0, 1000)
) | st.builds(
    lambda alias, low, done, runs: Range(alias, alias, RunsPosition(low), RunsPosition(low + 1, done), tuple(runs)),
    aliases,
    st.integers(0, 2**42),
    run_ids,
    st.lists(st.integers(1, 2**53), max_size=4),
)


@given(st.lists(told_ranges, max_size=3, unique_by=lambda one: one.alias).map(tuple))
def test_what_was_rendered_is_read_back_from_the_run(ranges: tuple[Range, ...]) -> None:
    rendered = render("s", "0", 0, "t", ranges, {"own": "1"})
    run = {"job_parameters": [{"name": name, "default": "", "value": value} for name, value in rendered]}
    assert ranges_of(of_run(run), {}) == ranges


def test_a_run_shows_its_values_or_else_the_defaults() -> None:
    run = {
        "job_parameters": [
            {"name": "a", "default": "d", "value": "v"},
            {"name": "b", "default": "d"},
            {"name": "c"},
            {},
        ]
    }
    assert of_run(run) == {"a": "v", "b": "d", "c": ""}
    assert of_run({}) == {}
    assert of_run({"job_parameters": None}) == {}


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "no json",
        "5",
        "null",
        '"abc"',
        "[1]",
        "[null]",
        "[{}]",
        '[{"alias": "a"}]',
        '{"alias": "a"}',
        '[{"alias":"a","job":"j"}]',
    ],
)
def test_a_run_that_does_not_show_its_ranges_is_a_bad_answer_with_what_to_do(text: str | None) -> None:
    given = {} if text is None else {"bridge_ranges": text}
    with pytest.raises(BadAnswer, match="must declare the parameter bridge_ranges"):
        ranges_of(given, {"a": "c.s.a"})
