"""A consumer that is lost while its run is under way: the watcher asks the run and sends again soon, not after an hour (T51).

The run, the record and the workspace are real; the watcher's clock is moved by its own pauses.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge.core.record import ClaimStatus, Record
from databricks_bridge.ledgers.airflow import KEY
from databricks_bridge.local.engine.model import NotebookResult
from databricks_bridge.triggers.watch import SubscriptionWatchTrigger
from tests.operators.conftest import DELAYS, Bench

HOUR = 3600.0


class WatchersStore:
    """The bench's store, as the triggerer hands it to a watcher."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def __getitem__(self, asset: Any) -> WatchersStore:
        return self

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.bench.store.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.bench.store.set(key, value)


async def _seconds_to_event(bench: Bench, most: float = HOUR) -> float | None:
    """How long a watcher that comes after the last write takes to send an event; None where it does not within `most`."""
    watcher = DELAYS.asset.watchers[0].trigger
    trigger = SubscriptionWatchTrigger(**watcher.serialize()[1])
    trigger.asset_state_store = WatchersStore(bench)  # type: ignore[assignment]
    began, slept = datetime.now(UTC), [0.0]

    async def rest(pause: float) -> None:
        slept.append(pause)
        if sum(slept) > most:
            raise asyncio.CancelledError

    trigger._now = lambda: began + timedelta(seconds=sum(slept))
    trigger._rest = rest  # type: ignore[method-assign]
    try:
        payload = (await anext(trigger.run())).payload
        assert "an open claim on" in payload["reason"]
        return sum(slept)
    except asyncio.CancelledError:
        return None
    finally:
        await trigger.cleanup()


def seconds_to_event(bench: Bench, most: float = HOUR) -> float | None:
    return asyncio.run(_seconds_to_event(bench, most))


def lose_consumer(bench: Bench) -> int:
    """A deferred task whose run is under way, and which nobody resumes; the run."""
    bench.notebooks.block("gold")
    with pytest.raises(TaskDeferred) as deferred:
        bench.run(bench.operator(deferrable=True))
    return int(deferred.value.trigger.serialize()[1]["run_id"])


@pytest.mark.parametrize("how", ["the token was wrong for 70 s", "the scheduler lost the task", "marked failed"])
def test_an_event_goes_out_soon_after_the_run_is_over(bench: Bench, how: str) -> None:
    run_id = lose_consumer(bench)
    if how == "marked failed":
        bench.api.post("runs/cancel", run_id=run_id)
    bench.notebooks.unblock("gold")
    bench.api.ended(run_id)
    seconds = seconds_to_event(bench)
    assert seconds is not None
    assert 60 <= seconds <= 180


def test_no_event_while_the_run_is_under_way_however_long(bench: Bench) -> None:
    run_id = lose_consumer(bench)
    assert seconds_to_event(bench, 5 * HOUR) is None
    bench.notebooks.unblock("gold")
    bench.api.ended(run_id)
    assert seconds_to_event(bench) is not None


def change_claim(bench: Bench, **changes: Any) -> Record:
    record = bench.record()
    assert record.claim is not None
    record = replace(record, claim=replace(record.claim, **changes))
    bench.store.set(KEY, record.to_json())
    return record


def test_a_run_that_is_gone_is_over(bench: Bench) -> None:
    run_id = lose_consumer(bench)
    bench.notebooks.unblock("gold")
    bench.api.ended(run_id)
    bench.api.post("runs/delete", run_id=run_id)
    assert seconds_to_event(bench) is not None


@pytest.mark.parametrize(
    "conn_id", ["", "nowhere", "ops"], ids=["not known", "no such connection", "of another workspace"]
)
def test_a_run_that_cannot_be_asked_about_is_no_reason_for_silence(bench: Bench, conn_id: str) -> None:
    lose_consumer(bench)
    change_claim(bench, conn_id=conn_id)
    seconds = seconds_to_event(bench)
    assert seconds is not None
    assert 60 <= seconds <= 180
    bench.notebooks.unblock("gold")


@pytest.mark.parametrize("status", ["blocked", "undecided"])
def test_never_while_a_claim_waits_for_a_person(bench: Bench, status: str) -> None:
    """Its run failed, so nobody has repaired it (`tests/feeds/test_watch_repaired.py`)."""
    bench.notebooks.functions["gold"] = lambda request: NotebookResult(False, None, "ValueError: boom", "Traceback")
    run_id = lose_consumer(bench)
    bench.notebooks.unblock("gold")
    bench.api.ended(run_id)
    change_claim(bench, status=ClaimStatus(status))
    assert seconds_to_event(bench, 5 * HOUR) is None
