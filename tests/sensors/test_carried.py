"""What a deferred wait carries into the triggerer: refused at parse where it cannot cross, else the same on the other side."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.serde import deserialize, serialize

from databricks_bridge import (
    DatabricksIncrementalRunOperator,
    DatabricksSubscriptionSensor,
    DatabricksTriggeredRunSensor,
    DeltaTable,
    DeltaVersionSensor,
    Subscription,
)
from databricks_bridge.core.errors import InvalidArgument

Make = Callable[..., Any]
DELAYS = Subscription("delays", DeltaTable("main.silver.flights", "ops"), start="earliest")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def versions(**given: Any) -> DeltaVersionSensor:
    default: dict[str, Any] = {"task_id": "t", "table": "main.silver.flights", "deferrable": True}
    return DeltaVersionSensor(**(default | given))


def runs(**given: Any) -> DatabricksTriggeredRunSensor:
    default: dict[str, Any] = {"task_id": "t", "job_name": "bronze", "deferrable": True}
    return DatabricksTriggeredRunSensor(**(default | given))


def pending(**given: Any) -> DatabricksSubscriptionSensor:
    default: dict[str, Any] = {"task_id": "t", "subscription": DELAYS, "deferrable": True}
    return DatabricksSubscriptionSensor(**(default | given))


def incremental(**given: Any) -> DatabricksIncrementalRunOperator:
    default: dict[str, Any] = {"task_id": "t", "subscription": DELAYS, "job_name": "gold", "deferrable": True}
    return DatabricksIncrementalRunOperator(**(default | given))


def nothing() -> None:
    """Can be called, and cannot be carried."""


FOREIGN = [nothing, {1}, Path("x"), datetime(2026, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize("make", [versions, runs, pending, incremental])
def test_A13_how_to_retry_is_no_argument_and_is_named(make: Make) -> None:
    with pytest.raises(TypeError, match="retry_args"):
        make(retry_args={"wait": nothing})


@pytest.mark.parametrize("value", FOREIGN, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (versions, "newer_than"),
        (versions, "poke_interval"),
        (versions, "timeout"),
        (runs, "job_id"),
        (runs, "poke_interval"),
        (runs, "timeout"),
        (pending, "poke_interval"),
        (pending, "timeout"),
        (pending, "subscription"),
        (incremental, "job_id"),
        (incremental, "poll_interval"),
        (incremental, "max_generations"),
        (incremental, "subscription"),
    ],
)
def test_A13_what_cannot_cross_is_an_error_at_parse_that_names_the_argument(make: Make, name: str, value: Any) -> None:
    given = {"job_name": None} if name == "job_id" else {}
    with pytest.raises(ValueError, match=name):
        make(**given, **{name: value})


@pytest.mark.parametrize("make", [versions, runs])
@pytest.mark.parametrize(
    "since", [nothing, {1}, Path("x"), timedelta(days=1), date(2026, 1, 1), datetime(2026, 1, 1), "yesterday", 5]
)
def test_A13_a_since_that_is_no_moment_is_refused_at_parse(make: Make, since: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"since is .*give an aware datetime"):
        make(since=since)


@pytest.mark.parametrize("since", [None, "", NOON, NOON.isoformat(), "2026-01-01T12:00:00Z", "{{ data_interval_end }}"])
def test_a_since_that_is_a_moment_or_may_become_one_is_taken(since: Any) -> None:
    assert (versions(since=since).since, runs(since=since).since) == (since, since)


@pytest.mark.parametrize("newer_than", ["x", 1.5, -2, True, "", []])
def test_a_version_that_is_none_is_refused_at_parse(newer_than: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"newer_than is .*; give a version, from -1 on"):
        versions(newer_than=newer_than)


@pytest.mark.parametrize("newer_than", [-1, 0, "7", "{{ params.version }}", None])
def test_a_version_or_a_template_is_taken(newer_than: Any) -> None:
    assert versions(newer_than=newer_than).newer_than == newer_than


@pytest.mark.parametrize("job_id", ["seven", True, 1.5, -1, ""])
def test_an_id_that_is_no_number_is_refused_at_parse(job_id: Any) -> None:
    with pytest.raises(InvalidArgument, match="give the job's number"):
        runs(job_name=None, job_id=job_id)


@pytest.mark.parametrize("job_id", [7, "7", "{{ params.job }}"])
def test_an_id_or_a_template_is_taken(job_id: Any) -> None:
    assert runs(job_name=None, job_id=job_id).job_id == job_id


@pytest.mark.parametrize(
    ("sensor", "carried"),
    [
        (
            runs(triggers={"TABLE_UPDATE", "FILE_ARRIVAL"}, since=NOON, poke_interval=timedelta(seconds=5)),
            {"triggers": ["FILE_ARRIVAL", "TABLE"], "since": NOON.isoformat(), "poll_interval": 5.0},
        ),
        (
            runs(job_name=None, job_id="7", timeout=timedelta(hours=1)),
            {"job_id": 7, "since": NOON.isoformat(), "run_state": ["SUCCESS"]},
        ),
        (versions(newer_than="7", poke_interval=timedelta(minutes=1)), {"newer_than": 7, "poll_interval": 60.0}),
        (versions(since="2026-01-01T13:00:00+01:00"), {"since": "2026-01-01T13:00:00+01:00", "newer_than": None}),
    ],
    ids=["sets", "an id as text", "a version as text", "another zone"],
)
def test_A13_what_can_cross_is_the_same_on_the_other_side(
    monkeypatch: pytest.MonkeyPatch, sensor: Any, carried: dict[str, Any]
) -> None:
    async def look_once(self: Any, context: Any) -> None:
        return None

    monkeypatch.setattr(type(sensor), "_look_once", look_once)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({"dag_run": SimpleNamespace(run_after=NOON)})
    path, arguments = deferred.value.trigger.serialize()
    stored: Any = deserialize(serialize(arguments))
    module, _, name = path.rpartition(".")
    again = getattr(import_module(module), name)(**stored)
    assert again.serialize() == (path, arguments)
    assert {one: arguments[one] for one in carried} == carried
