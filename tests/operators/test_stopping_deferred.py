"""The trigger's `on_kill`: Airflow calls it for a mark, for a clear, and when another triggerer has taken over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge.core.errors import RunFailed
from databricks_bridge.triggers.run import RunTrigger
from tests.operators.conftest import Bench
from tests.operators.test_stopping import blocked, says

__all__ = ["blocked"]


def deferred(bench: Bench, **context: Any) -> RunTrigger:
    """The trigger of a deferred try, made anew from what Airflow stored."""
    with pytest.raises(TaskDeferred) as given:
        bench.run(bench.operator(deferrable=True, poll_interval=timedelta(seconds=1)), **context)
    return RunTrigger(**given.value.trigger.serialize()[1])


def result_of(bench: Bench) -> Any:
    return bench.runs()[0]["state"].get("result_state")


@pytest.mark.parametrize("state", ["failed", "success"])
async def test_A10_a_mark_cancels_the_run(blocked: Bench, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    trigger = await asyncio.to_thread(deferred, blocked)
    says(monkeypatch, state)
    await trigger.on_kill()
    assert (await asyncio.to_thread(blocked.api.ended, trigger.run_id))["state"]["result_state"] == "CANCELED"


@pytest.mark.parametrize("state", ["deferred", "scheduled", "queued", "running", "up_for_retry", None])
async def test_A10_a_clear_or_a_triggerer_that_took_over_cancels_nothing(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    trigger = await asyncio.to_thread(deferred, blocked)
    answer = says(monkeypatch, state)
    await trigger.on_kill()
    assert len(answer.asked) == 1
    assert (result_of(blocked), blocked.notebooks.killed) == (None, [])


@pytest.mark.parametrize("context", [{"try_number": 3}, {"fail_fast": True}], ids=["last try", "fail_fast"])
async def test_failed_without_certainty_cancels_nothing(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch, context: dict[str, Any]
) -> None:
    trigger = await asyncio.to_thread(lambda: deferred(blocked, **context))
    says(monkeypatch, "failed")
    await trigger.on_kill()
    assert blocked.notebooks.killed == []


async def test_after_the_deadline_and_after_a_stall_nothing_is_cancelled(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = await asyncio.to_thread(deferred, blocked)
    says(monkeypatch, "failed")
    late = RunTrigger(**(trigger.serialize()[1] | {"deadline": (datetime.now(UTC) - timedelta(1)).isoformat()}))
    await late.on_kill()
    times = iter([0.0, 0.0, 31.0])
    trigger._beat().clock = lambda: next(times)
    trigger._beat()
    trigger._beat()
    await trigger.on_kill()
    assert blocked.notebooks.killed == []


async def test_a_trigger_of_an_older_release_or_of_a_foreign_run_never_cancels(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = await asyncio.to_thread(deferred, blocked)
    answer = says(monkeypatch, "failed")
    for tried in (None, {}, {"dag_id": "x"}):
        await RunTrigger(**(trigger.serialize()[1] | {"tried": tried})).on_kill()
    stored = trigger.serialize()[1]
    del stored["tried"]
    await RunTrigger(**stored).on_kill()
    assert (answer.asked, blocked.notebooks.killed) == ([], [])


async def test_what_was_cancelled_while_deferred_is_recorded_by_the_next_process(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = await asyncio.to_thread(deferred, blocked)
    before = blocked.store.rows.copy()
    says(monkeypatch, "failed")
    await trigger.on_kill()
    await asyncio.to_thread(blocked.api.ended, trigger.run_id)
    assert blocked.store.rows == before
    with pytest.raises(RunFailed, match="CANCELED"):
        await asyncio.to_thread(lambda: blocked.run(try_number=2))
    blocked.notebooks.unblock("gold")
    await asyncio.to_thread(lambda: blocked.run(try_number=3))
    assert len(blocked.runs()) == 2


async def test_A10_a_cleared_task_finds_its_run_again(blocked: Bench) -> None:
    first = await asyncio.to_thread(deferred, blocked)
    again = await asyncio.to_thread(lambda: deferred(blocked, try_number=2))
    assert again.run_id == first.run_id
    assert len(blocked.runs()) == 1
