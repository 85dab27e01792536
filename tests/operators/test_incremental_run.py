from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time.context import AssetStateStoreAccessors

from databricks_bridge import DatabricksIncrementalRunOperator, DeltaTable, Subscription
from databricks_bridge.core.acts import AwaitRun, Finish
from databricks_bridge.core.errors import InvalidArgument, LedgerError, NotFound
from databricks_bridge.core.positions import Range
from tests.core.builders import at

DELAYS = Subscription("delays", DeltaTable("main.silver.flights"), start="earliest")
COMMITTED = Finish((Range("flights", "f", at(3), at(5)), Range("weather", "w", at(4), at(4))), 11, "committed f (3, 5]")
NOTHING = Finish((), None, "nothing new in flights")
BY_ANOTHER = Finish((), 11, "f (3, 5] was committed by another process")


def operator(**arguments: Any) -> DatabricksIncrementalRunOperator:
    return DatabricksIncrementalRunOperator(
        **({"task_id": "t", "subscription": DELAYS, "job_name": "gold"} | arguments)
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"job_name": None}, "needs exactly one of job_id and job_name"),
        ({"job_id": 3}, "needs exactly one of job_id and job_name"),
        ({"job_parameters": {"bridge_token": "x"}}, "begin with bridge_"),
        ({"job_parameters": {"year": 2013}}, "job_parameters['year'] is int"),
        ({"on_nothing_new": "fail"}, "on_nothing_new is 'fail'"),
        ({"max_generations": 0}, "max_generations is 0"),
        ({"poll_interval": timedelta(0)}, "give a positive timedelta"),
    ],
)
def test_mistakes_are_refused_at_parse(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        operator(**arguments)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"poll_interval": 30},
        {"max_generations": "three"},
        {"job_name": None, "job_id": "gold"},
        {"job_parameters": ["a"]},
        {"job_parameters": {"flights_end": "9"}},
    ],
    ids=["seconds as a number", "a count as a word", "an id as a word", "a list", "a name that the claim sets"],
)
def test_other_mistakes_are_refused_at_parse_too(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        operator(**arguments)


def test_template_fields_are_attributes() -> None:
    one = operator()
    assert [name for name in one.template_fields if not hasattr(one, name)] == []


def test_the_subscription_is_an_inlet_once() -> None:
    other = Asset("other")
    assert operator().inlets == [DELAYS.asset]
    assert operator(inlets=[other, DELAYS.asset]).inlets == [other, DELAYS.asset]


def test_it_lives_in_a_dag_scheduled_by_its_own_asset() -> None:
    with DAG("d", schedule=DELAYS.asset, max_active_runs=1):
        assert operator().deferrable is False


@pytest.mark.parametrize("deferrable", [True, False])
def test_without_access_to_the_record_it_says_what_to_add_and_starts_nothing(deferrable: bool) -> None:
    context: Any = {
        "asset_state_store": AssetStateStoreAccessors([]),
        "dag_run": SimpleNamespace(run_type="manual"),
        "ti": SimpleNamespace(map_index=-1),
    }
    with pytest.raises(LedgerError, match=r"inlets=\[subscription\.asset\].*partial\(\)"):
        operator(deferrable=deferrable).execute(context)


def driven_to(monkeypatch: pytest.MonkeyPatch, end: Finish | AwaitRun) -> Any:
    """An empty context, the drive itself replaced by its end: the driver has tests of its own."""

    async def drive(self: Any, context: Any, event: Any) -> Finish | AwaitRun:
        return end

    monkeypatch.setattr(DatabricksIncrementalRunOperator, "_drive", drive)
    task = SimpleNamespace(retries=1)
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, max_tries=1, task=task)
    return {"ti": ti, "dag": SimpleNamespace(fail_fast=False)}


def test_it_returns_the_run_and_the_ranges_that_are_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    value = operator().execute(driven_to(monkeypatch, COMMITTED))
    assert value is not None
    assert (value["run_id"], value["reason"]) == (11, "committed f (3, 5]")
    assert [one["alias"] for one in value["ranges"]] == ["flights"]


def test_nothing_new_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowSkipException, match="nothing new in flights"):
        operator().execute(driven_to(monkeypatch, NOTHING))


def test_nothing_new_succeeds_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    value = operator(on_nothing_new="succeed").execute(driven_to(monkeypatch, NOTHING))
    assert value == {"run_id": None, "ranges": [], "reason": "nothing new in flights"}


def test_a_claim_that_another_process_committed_is_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    value = operator().execute(driven_to(monkeypatch, BY_ANOTHER))
    assert value is not None
    assert (value["run_id"], value["ranges"]) == (11, [])


@pytest.mark.parametrize(("limit", "days"), [(timedelta(hours=1), 1 / 24), (None, 60)])
def test_an_active_run_is_deferred_with_an_absolute_deadline(
    monkeypatch: pytest.MonkeyPatch, limit: timedelta | None, days: float
) -> None:
    task = operator(deferrable=True, execution_timeout=limit, poll_interval=timedelta(seconds=7))
    before = datetime.now(UTC)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(driven_to(monkeypatch, AwaitRun(11)))
    _, kwargs = deferred.value.trigger.serialize()
    deadline = datetime.fromisoformat(kwargs["deadline"])
    assert before + timedelta(days=days) <= deadline <= datetime.now(UTC) + timedelta(days=days)
    assert (kwargs["run_id"], kwargs["poll_interval"]) == (11, 7.0)


def test_a_run_that_goes_on_is_deferred_again_with_the_same_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"status": "ready", "run_id": 11, "outcome": "x", "deadline": "2030-01-01T00:00:00+00:00"}
    with pytest.raises(TaskDeferred) as deferred:
        operator(deferrable=True).execute_complete(driven_to(monkeypatch, AwaitRun(12)), event)
    assert deferred.value.trigger.serialize()[1]["deadline"] == event["deadline"]


def test_an_event_is_only_a_reason_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"status": "ready", "run_id": 99, "outcome": "TERMINATED/FAILED", "deadline": "2030-01-01T00:00:00+00:00"}
    value = operator(deferrable=True).execute_complete(driven_to(monkeypatch, COMMITTED), event)
    assert value is not None
    assert value["run_id"] == 11


def test_the_deadline_and_an_error_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    context = driven_to(monkeypatch, COMMITTED)
    with pytest.raises(AirflowTaskTimeout, match="a run that was started goes on, the next try follows it"):
        operator().execute_complete(context, {"status": "deadline", "deadline": "2026-01-01T00:00:00+00:00"})
    with pytest.raises(NotFound):
        operator().execute_complete(context, {"status": "error", "error": "NotFound", "message": "gone"})
