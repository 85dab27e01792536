from __future__ import annotations

from pathlib import Path
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
        ({"table": "a.b.c", "start": ["latest"]}, "start of a.b.c is ['latest']"),
        ({"table": "a.b.c", "alias": "bridge_x"}, "begins with bridge"),
        ({"table": ["a.b.c"]}, "three-part"),
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
        ({"job_id": 1, "triggers": 5}, "triggers is 5; give a set of names"),
        ({"job_id": 1, "triggers": {"MANUAL", "TABLE"}}, "triggers has MANUAL; known are"),
        ({"job_id": True}, "job_id of TriggeredRuns is True; give the number"),
        ({"job_id": 1.5}, "job_id of TriggeredRuns is 1.5; give the number"),
        ({"job_name": 7}, "job_name of TriggeredRuns is 7; give the job's exact name"),
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"reader_profile": "p.share"}, "reader_profile= asks the reader for its version; give read_as= too"),
        ({"read_as": "x.y.z", "reader_warehouse": "w"}, "reader_conn_id= and reader_warehouse= together"),
        ({"read_as": "x.y.z", "reader_conn_id": "c"}, "got reader_conn_id"),
        (
            {"read_as": "x.y.z", "reader_profile": "p", "reader_conn_id": "c", "reader_warehouse": "w"},
            "give reader_profile=, or",
        ),
        ({"read_as": "x.y.z", "reader_profile": " "}, "reader_profile of a.b.c is ' '"),
        ({"read_as": "x.y.z", "reader_profile": "p.share#z"}, "what follows # in reader_profile of a.b.c is 'z'"),
        ({"read_as": "x.y.z", "reader_conn_id": "c", "reader_warehouse": 7}, "reader_warehouse of a.b.c is 7"),
    ],
)
def test_a_reader_that_cannot_be_asked_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        DeltaTable("a.b.c", **arguments)
    assert words in str(refused.value)


def test_a_reader_is_asked_by_its_profile_or_by_sql() -> None:
    assert DeltaTable("a.b.c", read_as="x.y.z", reader_profile="p.share#s.y.z").reader_profile == "p.share#s.y.z"
    assert DeltaTable("a.b.c", read_as="x.y.z", reader_conn_id="c", reader_warehouse="w").reader_warehouse == "w"


@pytest.mark.parametrize("value", [None, "", " ", 7, Path("x"), print])
@pytest.mark.parametrize("field", ["databricks_conn_id", "profile", "warehouse", "reader_profile", "alias"])
def test_A13_what_is_no_text_is_refused_at_parse(field: str, value: Any) -> None:
    if (value is None and field != "databricks_conn_id") or (value == "" and field == "alias"):
        return
    with pytest.raises(InvalidArgument, match=field):
        DeltaTable("main.silver.flights", **{field: value})
    if field in ("databricks_conn_id", "alias"):
        with pytest.raises(InvalidArgument, match=field):
            TriggeredRuns(job_name="bronze", **{field: value})
