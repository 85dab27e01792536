from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.sources import DeltaTable, TriggeredRuns


@pytest.mark.parametrize(
    ("table", "alias"),
    [
        ("main.silver.flights", "flights"),
        ("main.silver.`flights`", "flights"),
        ("main.silver.flights-2013", "flights_2013"),
        ("main.silver.Flights", "Flights"),
    ],
)
def test_the_alias_is_the_last_name_part(table: str, alias: str) -> None:
    assert DeltaTable(table).alias == alias


def test_a_given_alias_wins() -> None:
    assert DeltaTable("main.silver.flights", alias="f").alias == "f"
    assert TriggeredRuns(job_name="bronze-flights", alias="b").alias == "b"


def test_the_alias_of_runs_comes_from_the_job() -> None:
    assert TriggeredRuns(job_name="bronze-flights").alias == "bronze_flights"
    assert TriggeredRuns(job_id=12).alias == "job_12"
    assert TriggeredRuns(job_id=12).job == "12"
    assert TriggeredRuns(job_name="bronze-flights").job == "bronze-flights"


def test_the_reader_name_is_read_as_or_the_table() -> None:
    assert DeltaTable("main.silver.flights").reader_name == "main.silver.flights"
    assert DeltaTable("main.silver.flights", read_as="share.s.f").reader_name == "share.s.f"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"table": "flights"}, "table is 'flights'; give the three-part name"),
        ({"table": "silver.flights"}, "three-part"),
        ({"table": "a.b.c.d"}, "three-part"),
        ({"table": "a..c"}, "three-part"),
        ({"table": "a. .c"}, "three-part"),
        ({"table": ""}, "three-part"),
        ({"table": None}, "three-part"),
        ({"table": 7}, "three-part"),
        ({"table": "a.b.c", "read_as": "flights"}, "read_as is 'flights'"),
        ({"table": "a.b.c", "read_as": ""}, "read_as is ''"),
        ({"table": "a.b.2013"}, "alias '2013' of a.b.2013 is not a plain name"),
        ({"table": "a.b.c", "alias": "a b"}, "plain name"),
        ({"table": "a.b.c", "alias": "a-b"}, "plain name"),
        ({"table": "a.b.bridge_ranges"}, "begins with bridge"),
        ({"table": "a.b.c", "start": "newest"}, "start of a.b.c is 'newest'"),
        ({"table": "a.b.c", "start": -1}, "version from 0 on"),
        ({"table": "a.b.c", "start": True}, "version from 0 on"),
        ({"table": "a.b.c", "start": 1.5}, "version from 0 on"),
        ({"table": "a.b.c", "start": "5"}, "version from 0 on"),
    ],
)
def test_a_table_that_cannot_be_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        DeltaTable(**arguments)
    assert words in str(refused.value)


@pytest.mark.parametrize("start", ["latest", "earliest", 0, 17, None])
def test_starts_of_a_table(start: Any) -> None:
    assert DeltaTable("a.b.c", start=start).start == start


def test_table_update_is_accepted_for_table() -> None:
    assert TriggeredRuns(job_id=1, triggers=frozenset({"TABLE_UPDATE"})).triggers == {"TABLE"}
    assert TriggeredRuns(job_id=1, triggers=["TABLE_UPDATE", "TABLE", "FILE_ARRIVAL"]).triggers == {
        "TABLE",
        "FILE_ARRIVAL",
    }  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "exactly one of job_id and job_name"),
        ({"job_id": 1, "job_name": "a"}, "exactly one of job_id and job_name"),
        ({"job_id": 1, "triggers": "FILE_ARRIVAL"}, "give a set of names, as in {'FILE_ARRIVAL'}"),
        ({"job_id": 1, "triggers": {"file_arrival"}}, "triggers has file_arrival; known are CONTINUOUS"),
        ({"job_id": 1, "triggers": {"TABLE_UPDATED"}}, "triggers has TABLE_UPDATED"),
        ({"job_id": 1, "triggers": {"TABLE", 3}}, "triggers has 3"),
        ({"job_id": 1, "triggers": set()}, "triggers is empty"),
        ({"job_id": 1, "run_state": "SUCCESS"}, "give a set of names"),
        ({"job_id": 1, "run_state": {"SUCCEEDED"}}, "run_state has SUCCEEDED"),
        ({"job_id": 1, "run_state": []}, "run_state is empty"),
        ({"job_id": 1, "start": 5}, '"latest" or "earliest"'),
        ({"job_name": "2013 flights"}, "plain name"),
        ({"job_name": "bridge"}, "begins with bridge"),
    ],
)
def test_runs_that_cannot_be_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        TriggeredRuns(**arguments)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [{"job_name": ""}, {"job_id": "seven"}, {"job_id": 1, "triggers": None}, {"job_id": 1, "run_state": [["SUCCESS"]]}],
    ids=["empty job name", "job id that is no number", "no triggers", "a list in a list"],
)
def test_other_mistakes_are_refused_at_parse_too(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        TriggeredRuns(**arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"via": "guess"}, 'use "log", "catalog", "sharing" or "sql"'),
        ({"via": "sql"}, "via='sql' and warehouse= go together"),
        ({"warehouse": "small"}, "via='sql' and warehouse= go together"),
        ({"via": "sharing"}, "via='sharing' and profile= go together"),
        ({"via": "log", "profile": "/p"}, "via='sharing' and profile= go together"),
    ],
)
def test_who_is_asked_for_the_version_is_checked_at_parse(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        DeltaTable("a.b.c", **arguments)
    assert words in str(refused.value)
