"""A deferred wait that has no access to the record has it read anew now and then: a person may have moved a watermark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge import DatabricksSubscriptionSensor, DeltaTable, Subscription
from databricks_bridge.core.pending import Finding, TableFinding
from databricks_bridge.core.record import Record
from databricks_bridge.triggers.subscription import READ_AGAIN_AFTER, SubscriptionTrigger
from tests.core.builders import FLIGHTS, NOW, at, spec_of

DEADLINE = NOW + timedelta(days=1)
DELAYS = Subscription("delays", DeltaTable("main.silver.flights", "ops"), start="earliest")


def waiting(now: datetime, newest: int) -> SubscriptionTrigger:
    """A wait from version 3 on that began at NOW, looking at a table of version `newest` when it is `now`."""
    found: dict[str, Finding] = {"flights": TableFinding(at(newest), newest, NOW)}

    async def look(*_: Any) -> dict[str, Finding]:
        return found

    trigger = SubscriptionTrigger.of(
        spec_of(FLIGHTS),
        Record("delays", "c", {"flights": at(3)}, revision=1),
        poll_interval=30,
        deadline=DEADLINE.isoformat(),
        now=NOW,
    )
    looker: Any = SimpleNamespace(look=look)
    trigger._looker, trigger._now = looker, lambda: now
    return trigger


async def test_after_an_hour_without_news_the_task_is_woken_to_read_the_record() -> None:
    assert await waiting(NOW + READ_AGAIN_AFTER - timedelta(seconds=1), newest=3)._poll() is None
    events = [event async for event in waiting(NOW + READ_AGAIN_AFTER, newest=3).run()]
    assert [event.payload for event in events] == [{"status": "read again", "deadline": DEADLINE.isoformat()}]


async def test_news_come_first() -> None:
    payload = await waiting(NOW + READ_AGAIN_AFTER, newest=4)._poll()
    assert payload is not None
    assert payload["updated"] == ["flights"]


async def test_what_an_older_release_stored_waits_on() -> None:
    trigger = waiting(NOW + timedelta(hours=9), newest=3)
    trigger.read_again_at = None
    assert await trigger._poll() is None


@pytest.mark.parametrize("answer", [None, {"subscription": "delays", "updated": ["flights"], "reason": "rewound"}])
def test_the_sensor_looks_anew_and_waits_on_to_the_same_deadline(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None
) -> None:
    sensor = DatabricksSubscriptionSensor(task_id="t", subscription=DELAYS, deferrable=True)

    async def look(context: Any) -> dict[str, Any] | None:
        return answer

    monkeypatch.setattr(sensor, "_look_once", look)
    deadline = datetime.now(UTC) + timedelta(hours=5)
    context: Any = {}
    event = {"status": "read again", "deadline": deadline.isoformat()}
    if answer is not None:
        assert sensor.execute_complete(context, event) == answer
        return
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute_complete(context, event)
    assert deferred.value.trigger.deadline == deadline.isoformat()
    assert timedelta(hours=4) < deferred.value.timeout < timedelta(hours=5, minutes=2)
