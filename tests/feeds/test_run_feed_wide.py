"""Many jobs are waited for by reading the workspace's newest runs: what that costs, and what it must not miss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from benchmarks.jobs_service import PAGE, now_ms
from databricks_bridge.feeds.rounds import Bell
from databricks_bridge.feeds.run_book import Job
from tests.feeds.run_feed_kit import INTERVAL, Lab, feed_lab

JOBS = 12


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    async with feed_lab(monkeypatch) as made:
        made.feed._recheck_seconds = 600
        yield made


async def waiting(lab: Lab) -> list[asyncio.Task[list[int]]]:
    """A wait for a run of each job, once all of them are read from the workspace as a whole."""
    waits = [asyncio.create_task(lab.finished(job_id, 1)) for job_id in range(1, JOBS + 1)]
    async with asyncio.timeout(10):
        while lab.feed._head is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await lab.rounds(2)
    return waits


async def stop(waits: list[asyncio.Task[list[int]]]) -> None:
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_a_workspace_without_any_run_is_read_in_two_requests(lab: Lab) -> None:
    waits = await waiting(lab)
    assert sum((await lab.rounds(5)).values()) <= 2 * 6
    for number in range(3 * PAGE):
        lab.service.start(1000 + number, 50)
        lab.service.end(1000 + number)
    lab.service.start(1, 3, at_ms=now_ms() - 60_000)
    lab.service.end(1)
    assert await asyncio.wait_for(waits[2], 10) == [1], "behind three pages of runs that are new as well"
    await stop(waits)


async def test_a_run_that_is_shown_after_later_ones_is_seen_if_it_is_on_their_page(lab: Lab) -> None:
    for number in range(2 * PAGE):
        lab.service.start(1000 + number, 50, at_ms=now_ms() - 1000 * number)
        lab.service.end(1000 + number)
    waits = await waiting(lab)
    lab.service.start(1, 3, at_ms=now_ms() - 1000 * (PAGE - 4))
    lab.service.end(1)
    assert await asyncio.wait_for(waits[2], 10) == [1]
    await stop(waits)


def test_a_job_s_runs_by_start_and_by_end_are_those_of_its_last_change() -> None:
    job = Job(7, 0, {Bell(1.0): 0})
    over = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}

    def run(run_id: int, start: int, end: int | None) -> dict[str, object]:
        state = over if end is not None else {"life_cycle_state": "RUNNING"}
        return {"run_id": run_id, "start_time": start, "end_time": end or 0, "state": state}

    for run_id, start, end in ((1, 10, 50), (2, 20, 30), (3, 30, None), (4, 30, 40)):
        job.put(run(run_id, start, end))
    assert [one["run_id"] for one in job.started(20)] == [4, 3, 2]
    assert [one["run_id"] for one in job.ended(31)] == [4, 1]
    assert list(job.open) == [3]
    job.put(run(3, 30, 45))
    job.put(run(2, 20, None))
    assert [one["run_id"] for one in job.ended(31)] == [4, 3, 1]
    assert list(job.open) == [2]
    job.drop([4, 2])
    assert [one["run_id"] for one in job.started(0)] == [3, 1]
    assert [one["run_id"] for one in job.ended(0)] == [3, 1]
    job.put({"run_id": 5, "start_time": 60, "state": over})
    assert [one["run_id"] for one in job.ended(60)] == [5], "it ended no earlier than it began"


async def test_a_look_at_a_busy_job_reads_what_ended_since_and_no_more(lab: Lab) -> None:
    old = now_ms() - 24 * 3_600_000
    for number in range(500):
        lab.service.start(1000 + number, 1, at_ms=old + number)
        lab.service.end(1000 + number, at_ms=old + number + 1)
    since = now_ms()
    lab.service.start(1, 1)
    lab.service.end(1)
    bell, runs = lab.wait()
    listing = runs.list_runs(job_id=1, start_time_from_ms=old, end_time_from_ms=since)
    assert [run["run_id"] async for run in listing] == [1]
    await bell.rest(INTERVAL)
