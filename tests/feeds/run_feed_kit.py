"""A service with jobs, a feed of its runs, and those who wait at the feed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.jobs_service import JobsService, serving
from databricks_bridge.core.outcomes import outcome_of
from databricks_bridge.feeds import run_feed
from databricks_bridge.feeds.rounds import Bell, Timing
from databricks_bridge.feeds.run_book import is_active
from databricks_bridge.feeds.run_feed import FeedRuns, RunFeed
from databricks_bridge.workspace.client import Workspace

INTERVAL = 0.1


@dataclass
class Lab:
    """A service, a feed of it, and those who wait."""

    service: JobsService
    feed: RunFeed
    waits: list[tuple[Bell, FeedRuns]] = field(default_factory=list)

    def wait(self, interval: float = INTERVAL) -> tuple[Bell, FeedRuns]:
        bell = Bell(interval)
        self.waits.append((bell, self.feed.join(bell)))
        return self.waits[-1]

    async def ended(self, run_id: int) -> str:
        """Waits for a run as `RunTrigger` does; its result."""
        bell, runs = self.wait()
        async with asyncio.timeout(20):
            while True:
                run = runs.run(run_id)
                if run is not None and not is_active(run):
                    return outcome_of(run).result
                await bell.rest(60)

    async def finished(self, job_id: int, count: int, from_ms: int = 0) -> list[int]:
        """Waits until so many runs of the job are over, as `TriggeredRunTrigger` does; their ids."""
        bell, runs = self.wait()
        async with asyncio.timeout(20):
            while True:
                listing = runs.list_runs(job_id=job_id, start_time_from_ms=from_ms)
                found = [run["run_id"] async for run in listing if not is_active(run)]
                if len(found) >= count:
                    return found
                await bell.rest(60)

    async def rounds(self, count: int) -> Counter[str]:
        """What so many rounds ask for."""
        before = Counter(self.service.counts)
        await asyncio.sleep(INTERVAL * count)
        return self.service.counts - before


@asynccontextmanager
async def feed_lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    monkeypatch.setattr(run_feed, "GATHER_SECONDS", 0.02)

    async def headers() -> dict[str, str]:
        return {"Authorization": "Bearer dapi-secret"}

    async def soon(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))

    async with (
        serving(JobsService()) as service,
        Workspace(service.host, headers, sleep=soon, budget_seconds=5) as workspace,
    ):
        for job_id in range(1, 60):
            service.job(job_id, f"job-{job_id}")
        made = Lab(service, RunFeed(workspace, Timing(random=lambda: 0.5), recheck_seconds=0.3))
        yield made
        for _, runs in made.waits:
            runs.leave()


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
