"""The life of a run where a server would be in the way: the queue's limit in moved time, retries' pauses, shares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.ports import RunFinished, Workspace
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.keeper import QUEUE_SECONDS
from databricks_bridge.local.runs.model import Outcome, Phase, Run
from databricks_bridge.local.runs.records import attempts_of, get_run
from databricks_bridge.local.server.job_settings import completed
from tests.local.local_kit import Notebooks, bare_workspace, failure


@dataclass
class Clock:
    """A time that only the test moves; a sleeper wakes when it is told to."""

    seconds: float = 1_356_998_400.0

    def __post_init__(self) -> None:
        self.wake = asyncio.Event()
        self.asleep: asyncio.Queue[float] = asyncio.Queue()

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.asleep.put_nowait(seconds)
        await self.wake.wait()
        self.wake.clear()

    def move(self, seconds: float) -> None:
        self.seconds += seconds
        self.wake.set()


def order(workspace: Workspace, task: dict[str, Any] | None = None, **settings: Any) -> Order:
    body = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/main"}, **(task or {})}
    job = workspace.store.add_job("ops", completed({"tasks": [body], **settings}), 0)
    return Order(job_id=job.job_id, settings=job.settings)


def present(workspace: Workspace, run: Run) -> Run:
    found = get_run(workspace.store, run.run_id)
    assert found is not None
    return found


async def test_C08_a_run_leaves_the_queue_after_48_hours_of_scaled_time(tmp_path: Path, notebooks: Notebooks) -> None:
    clock, scale = Clock(), 0.5
    ops = bare_workspace(tmp_path, notebooks, now=clock.now, sleep=clock.sleep, time_scale=scale)
    notebooks.block("main")
    wanted = order(ops, queue={"enabled": True})
    ops.runs.create(ops, wanted)
    queued = ops.runs.create(ops, wanted)
    housekeeping = asyncio.create_task(ops.runs.run_forever())
    assert await clock.asleep.get() == 60 * scale
    clock.move(QUEUE_SECONDS * scale - 1)
    await clock.asleep.get()
    assert present(ops, queued).phase is Phase.QUEUED
    clock.move(2)
    await clock.asleep.get()
    assert present(ops, queued).outcome is Outcome.NO_SLOT
    housekeeping.cancel()
    await ops.runs.close()
    ops.store.close()


async def test_a_retry_waits_for_its_scaled_pause(tmp_path: Path, notebooks: Notebooks) -> None:
    clock = Clock()
    ops = bare_workspace(tmp_path, notebooks, now=clock.now, sleep=clock.sleep, time_scale=0.1)
    finished: asyncio.Queue[RunFinished] = asyncio.Queue()
    ops.runs.on_run_finished(finished.put_nowait)
    notebooks.functions["main"] = lambda request: failure("ValueError: no")
    run = ops.runs.create(ops, order(ops, {"max_retries": 1, "min_retry_interval_millis": 60_000}))
    assert await clock.asleep.get() == 6
    assert [attempt.phase for attempt in attempts_of(ops.store, run.run_id)] == [Phase.DONE, Phase.WAITING_FOR_RETRY]
    clock.move(6)
    end = await asyncio.wait_for(finished.get(), 10)
    assert (end.result_state, end.termination_code) == ("FAILED", "RUN_EXECUTION_ERROR")
    assert len(notebooks.seen) == 2
    await ops.runs.close()
    ops.store.close()


async def test_what_must_be_before_a_notebook_is_done_before_each(tmp_path: Path, notebooks: Notebooks) -> None:
    seen_before: list[tuple[str, int]] = []

    async def publish(workspace: str) -> None:
        await asyncio.sleep(0.01)
        seen_before.append((workspace, len(notebooks.seen)))

    ops = bare_workspace(tmp_path, notebooks, before_run=publish)
    finished: asyncio.Queue[RunFinished] = asyncio.Queue()
    ops.runs.on_run_finished(finished.put_nowait)
    for _ in range(2):
        ops.runs.create(ops, order(ops))
        await asyncio.wait_for(finished.get(), 10)
    assert seen_before == [("ops", 0), ("ops", 1)]
    await ops.runs.close()
    ops.store.close()
