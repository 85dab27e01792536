"""What depends on time alone: the queue's limit, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.keeper import QUEUE_SECONDS, RunKeeper
from databricks_bridge.local.runs.model import Outcome, Phase
from databricks_bridge.local.runs.records import get_run
from databricks_bridge.local.server.auth import Credentials
from databricks_bridge.local.server.job_settings import completed
from databricks_bridge.local.store import Store
from tests.local.local_kit import Notebooks


@dataclass
class Clock:
    """A time that only the test moves; a sleeper wakes when it is told to."""

    seconds: float = 1_356_998_400.0

    def __post_init__(self) -> None:
        self.wake = asyncio.Event()
        self.asleep = asyncio.Event()

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.asleep.set()
        await self.wake.wait()
        self.wake.clear()


async def nothing(workspace: str) -> None:
    """There are no shares to publish."""


async def test_a_run_leaves_the_queue_after_48_hours_of_scaled_time(tmp_path: Path, notebooks: Notebooks) -> None:
    clock, scale = Clock(), 0.5
    layout = Layout(tmp_path)
    store = Store(layout.store_file)
    engine = InstantEngine(notebooks.run)
    runs = RunKeeper(store, engine, now=clock.now, sleep=clock.sleep, time_scale=scale, before_run=nothing)
    workspace = Workspace(
        name="ops",
        workspace_id="1001",
        metastore="ops",
        metastore_id="",
        host="http://127.0.0.1:1",
        user_name="tester",
        layout=layout,
        now=clock.now,
        time_scale=scale,
        engine="instant",
        credentials=Credentials("", "", ""),
        store=store,
        runs=runs,
        shares=cast(Any, None),
    )
    runs.open([workspace])
    file = layout.workspace_files("ops") / "main.py"
    file.parent.mkdir(parents=True)
    file.touch()
    notebooks.block("main")
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/main"}}
    settings = completed({"tasks": [task], "queue": {"enabled": True}})
    job = store.add_job("ops", settings, 0)
    order = Order(job_id=job.job_id, settings=settings)
    _, queued = runs.create(workspace, order), runs.create(workspace, order)
    housekeeping = asyncio.create_task(runs.run_forever())

    async def phase_after(seconds: float) -> Phase:
        await clock.asleep.wait()
        clock.asleep.clear()
        clock.seconds += seconds
        clock.wake.set()
        await clock.asleep.wait()
        found = get_run(store, queued.run_id)
        assert found is not None
        return found.phase

    assert await phase_after(QUEUE_SECONDS * scale - 1) is Phase.QUEUED
    assert await phase_after(2) is Phase.DONE
    skipped = get_run(store, queued.run_id)
    assert skipped is not None
    assert skipped.outcome is Outcome.NO_SLOT
    housekeeping.cancel()
    await runs.close()
    store.close()
