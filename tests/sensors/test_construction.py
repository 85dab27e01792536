from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowSensorTimeout, TaskDeferred
from airflow.sdk.execution_time.context import AssetStateStoreAccessors

from databricks_bridge import DatabricksSubscriptionSensor, DatabricksTriggeredRunSensor, DeltaTable, Subscription
from databricks_bridge.core.errors import InvalidArgument, LedgerError, NotFound
from databricks_bridge.sensors.since import since_of

DELAYS = Subscription("delays", DeltaTable("main.silver.flights"), start="earliest")


def runs(**arguments: Any) -> DatabricksTriggeredRunSensor:
    return DatabricksTriggeredRunSensor(**({"task_id": "t", "job_name": "bronze"} | arguments))


@pytest.mark.parametrize("sensor", [DatabricksSubscriptionSensor(task_id="t", subscription=DELAYS), runs()], ids=repr)
def test_template_fields_are_attributes(sensor: Any) -> None:
    assert [name for name in sensor.template_fields if not hasattr(sensor, name)] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"job_name": None}, "needs exactly one of job_id and job_name"),
        ({"job_id": 5}, "needs exactly one of job_id and job_name"),
        ({"triggers": {"FILE"}}, "triggers has FILE"),
        ({"triggers": "FILE_ARRIVAL"}, "give a set of names"),
        ({"run_state": {"DONE"}}, "run_state has DONE"),
        ({"run_state": ()}, "run_state is empty"),
        ({"on_paused": "ignore"}, 'on_paused is \'ignore\'; use "warn" or "fail"'),
        ({"on_paused": None}, "on_paused is None"),
        ({"on_paused": True}, "on_paused is True"),
    ],
)
def test_mistakes_are_refused_at_parse(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        runs(**arguments)
    assert words in str(refused.value)


def test_table_update_is_accepted_for_table() -> None:
    assert set(runs(triggers={"TABLE_UPDATE"}).triggers) == {"TABLE"}


def test_the_subscription_is_an_inlet_once_whatever_the_author_gives() -> None:
    other = Asset("other")
    assert DatabricksSubscriptionSensor(task_id="t", subscription=DELAYS).inlets == [DELAYS.asset]
    given = DatabricksSubscriptionSensor(task_id="t", subscription=DELAYS, inlets=[other, DELAYS.asset])
    assert given.inlets == [other, DELAYS.asset]


def test_they_live_in_a_dag() -> None:
    with DAG("d", schedule=None):
        sensor = DatabricksSubscriptionSensor(
            task_id="a", subscription=DELAYS, deferrable=True, poke_interval=timedelta(seconds=5)
        )
        sensor >> runs(task_id="b", mode="reschedule")
    assert sensor.poke_interval == 5


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_sensor_without_access_to_the_record_says_what_to_add(deferrable: bool) -> None:
    sensor = DatabricksSubscriptionSensor(task_id="t", subscription=DELAYS, deferrable=deferrable)
    context: Any = {"asset_state_store": AssetStateStoreAccessors([])}
    with pytest.raises(LedgerError, match=r"inlets=\[subscription\.asset\]"):
        sensor.poke(context)


RUN_AFTER = datetime(2026, 1, 1, tzinfo=UTC)
CONTEXT: Any = {"dag_run": SimpleNamespace(run_after=RUN_AFTER)}


@pytest.mark.parametrize(
    ("since", "moment"),
    [
        (None, RUN_AFTER),
        ("", RUN_AFTER),
        ("2026-01-02T00:00:00+00:00", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02T00:00:00Z", datetime(2026, 1, 2, tzinfo=UTC)),
        (datetime(2026, 1, 3, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)),
    ],
)
def test_since_is_run_after_unless_given(since: Any, moment: datetime) -> None:
    assert since_of(since, CONTEXT) == moment


@pytest.mark.parametrize("since", ["yesterday", "2026-01-02T00:00:00", datetime(2026, 1, 3)])
def test_a_since_that_is_no_moment_is_refused(since: Any) -> None:
    with pytest.raises(InvalidArgument, match="give an aware datetime"):
        since_of(since, CONTEXT)


def test_a_deferred_wait_carries_a_deadline_and_goes_on_in_the_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any, since: datetime) -> None:
        return None

    monkeypatch.setattr(DatabricksTriggeredRunSensor, "_look_once", nothing)
    before = datetime.now(UTC)
    with pytest.raises(TaskDeferred) as deferred:
        runs(deferrable=True, timeout=60, triggers={"TABLE", "FILE_ARRIVAL"}, on_paused="fail").execute(CONTEXT)
    _, kwargs = deferred.value.trigger.serialize()
    deadline = datetime.fromisoformat(kwargs["deadline"])
    assert before + timedelta(seconds=60) <= deadline <= datetime.now(UTC) + timedelta(seconds=60)
    assert kwargs["since"] == RUN_AFTER.isoformat()
    assert kwargs["triggers"] == ["FILE_ARRIVAL", "TABLE"]
    assert (kwargs["on_paused"], kwargs["told"]) == ("fail", [])
    assert deferred.value.method_name == "execute_complete"
    assert deferred.value.timeout is not None
    assert deferred.value.timeout > timedelta(seconds=60)


READY = {"status": "ready", "subscription": "delays", "updated": ["flights"], "reason": "new", "deadline": "x"}


def test_the_event_becomes_the_value_of_the_task() -> None:
    sensor = DatabricksSubscriptionSensor(task_id="t", subscription=DELAYS)
    assert sensor.execute_complete(CONTEXT, READY) == {
        "subscription": "delays",
        "updated": ["flights"],
        "reason": "new",
    }
    run = {"run_id": 1, "trigger": "TABLE", "run_page_url": ""}
    found = runs().execute_complete(CONTEXT, {"status": "ready", "run": run})
    assert found == run | {"trigger_values": None}, "it is told without what cannot be asked for here"


@pytest.mark.parametrize("sensor", [DatabricksSubscriptionSensor(task_id="t", subscription=DELAYS), runs()], ids=repr)
def test_the_deadline_and_an_error_fail_the_task_with_their_own_types(sensor: Any) -> None:
    with pytest.raises(AirflowSensorTimeout, match="until 2026-01-01"):
        sensor.execute_complete(CONTEXT, {"status": "deadline", "deadline": "2026-01-01"})
    with pytest.raises(NotFound, match="no such table"):
        sensor.execute_complete(CONTEXT, {"status": "error", "error": "NotFound", "message": "no such table"})
