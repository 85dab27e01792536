"""The feed of runs over real HTTP: what it finds, what it asks for it, and that nothing ends it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

import pytest

from benchmarks.jobs_service import PAGE, answer, cut, dropped, now_ms
from databricks_bridge.core.errors import BadAnswer, NotAuthenticated, NotFound, NotPermitted, Unavailable
from databricks_bridge.core.outcomes import outcome_of
from databricks_bridge.feeds import run_feed
from databricks_bridge.feeds.rounds import Timing
from databricks_bridge.feeds.run_feed import FeedRuns, RunFeed
from tests.feeds.run_feed_kit import INTERVAL, Lab, eventually, feed_lab

HOUR = 3_600_000


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    async with feed_lab(monkeypatch) as made:
        yield made


async def test_a_run_that_ends_is_told_once_to_all_who_wait(lab: Lab) -> None:
    lab.service.start(1, 1)
    waits = [asyncio.create_task(lab.ended(1)) for _ in range(30)]
    await eventually(lambda: lab.service.counts["jobs/runs/get"])
    lab.service.end(1, "FAILED")
    assert await asyncio.gather(*waits) == ["FAILED"] * 30
    assert lab.service.counts["jobs/runs/get"] < 10


@pytest.mark.parametrize("waits", [100, 10_000])
async def test_waits_that_begin_one_after_another_are_served_together_and_not_too_late(lab: Lab, waits: int) -> None:
    """A triggerer that starts begins its triggers over a second or more. With one more in every moment it is served, too."""
    for run_id in range(1, 101):
        lab.service.start(run_id, 1)
    left, begun, now = iter(range(waits)), list[tuple[FeedRuns, int]](), 0.0

    async def meanwhile(seconds: float) -> None:
        nonlocal now
        now += seconds
        for number in islice(left, 1):
            _, runs = lab.wait(60)
            begun.append((runs, number % 100 + 1))
            runs.run(number % 100 + 1)
        await asyncio.sleep(0)

    timing = Timing(clock=lambda: now, sleep=meanwhile, random=lambda: 0.5)
    lab.feed = RunFeed(lab.feed._workspace, timing)
    await meanwhile(0.0)
    await eventually(lambda: lab.service.counts["jobs/runs/list"] or lab.service.counts["jobs/runs/get"])
    assert now <= run_feed.LONGEST_GATHER_SECONDS + 2 * run_feed.GATHER_SECONDS
    if waits == 100:
        await eventually(lambda: all(runs.run(run_id) for runs, run_id in begun))
        assert lab.service.counts == {"jobs/runs/list": -(-100 // PAGE)}


@pytest.mark.parametrize("random", [0.0, 0.999])
async def test_no_round_follows_on_the_heels_of_the_first_look(lab: Lab, random: float) -> None:
    lab.service.start(1, 1)
    now = 0.0

    async def meanwhile(seconds: float) -> None:
        nonlocal now
        now += seconds

    lab.feed = RunFeed(lab.feed._workspace, Timing(clock=lambda: now, sleep=meanwhile, random=lambda: random))
    _, runs = lab.wait(60)
    runs.run(1)
    await eventually(lambda: runs.run(1))
    assert sum(lab.service.counts.values()) == 1
    await asyncio.sleep(3 * INTERVAL)
    assert sum(lab.service.counts.values()) == 1


async def test_a_run_that_was_over_before_the_wait_and_one_that_is_gone(lab: Lab) -> None:
    lab.service.start(1, 1)
    lab.service.end(1)
    assert await lab.ended(1) == "SUCCESS"
    with pytest.raises(NotFound, match="Run 99 does not exist"):
        await lab.ended(99)


@pytest.mark.parametrize("open_runs", [1, 50, 100])
async def test_the_requests_of_a_round_are_those_of_the_open_runs_alone(lab: Lab, open_runs: int) -> None:
    for number in range(200):
        lab.service.start(1000 + number, number % 50 + 1, at_ms=now_ms() - HOUR - number)
        lab.service.end(1000 + number)
    for number in range(open_runs):
        lab.service.start(number + 1, number % 50 + 1)
    waits = [asyncio.create_task(lab.ended(number % open_runs + 1)) for number in range(300)]
    for job_id in range(1, 13):
        _, runs = lab.wait()
        async for run in runs.list_runs(job_id=job_id, start_time_from_ms=now_ms() - HOUR // 2):
            assert run["job_id"] == job_id
    lab.feed._recheck_seconds = 600
    await lab.rounds(5)
    asked = await lab.rounds(5)
    assert asked.keys() == {"jobs/runs/list"}
    assert sum(asked.values()) <= (1 + -(-open_runs // PAGE)) * 6
    for number in range(open_runs):
        lab.service.end(number + 1)
    assert await asyncio.gather(*waits) == ["SUCCESS"] * 300


async def test_runs_that_end_together_are_read_together(lab: Lab) -> None:
    for number in range(60):
        lab.service.start(number + 1, 1)
    waits = [asyncio.create_task(lab.ended(number + 1)) for number in range(60)]
    await lab.rounds(4)
    before = Counter(lab.service.counts)
    for number in range(60):
        lab.service.end(number + 1)
    await asyncio.gather(*waits)
    assert (lab.service.counts - before)["jobs/runs/get"] == 0


async def test_few_waits_in_a_busy_workspace_do_not_list_all_of_it(lab: Lab) -> None:
    for number in range(500):
        lab.service.start(number + 1, 2)
    wait = asyncio.create_task(lab.ended(7))
    await lab.rounds(5)
    assert sum((await lab.rounds(5)).values()) <= 6
    lab.service.end(7)
    assert await wait == "SUCCESS"


async def test_short_runs_between_two_rounds_are_all_seen(lab: Lab) -> None:
    """Forty jobs, so that the workspace is listed as a whole; each run begins and ends before anybody looks."""
    since = now_ms() - 1000
    waits = [asyncio.create_task(lab.finished(job_id, 10, since)) for job_id in range(1, 41)]
    await lab.rounds(3)
    for number in range(10):
        for job_id in range(1, 41):
            lab.service.start(job_id * 100 + number, job_id)
            lab.service.end(job_id * 100 + number)
        await asyncio.sleep(INTERVAL / 3)
    found = await asyncio.gather(*waits)
    assert [sorted(ids) for ids in found] == [[j * 100 + n for n in range(10)] for j in range(1, 41)]


@pytest.mark.parametrize("jobs", [1, 40])
async def test_a_run_that_started_before_the_newest_and_ends_after_it_is_seen(lab: Lab, jobs: int) -> None:
    old = now_ms() - 5 * HOUR
    lab.service.start(1, 1, at_ms=old)
    others = [asyncio.create_task(lab.finished(job_id, 1, old)) for job_id in range(2, jobs + 1)]
    wait = asyncio.create_task(lab.finished(1, 2, old))
    await lab.rounds(3)
    for number in range(60):
        lab.service.start(100 + number, 50)
        lab.service.end(100 + number)
    lab.service.start(2, 1)
    lab.service.end(2)
    await lab.rounds(3)
    lab.service.end(1)
    assert sorted(await wait) == [1, 2]
    for task in others:
        task.cancel()


@pytest.mark.parametrize("jobs", [1, 40])
async def test_a_run_that_is_repaired_later_is_seen_with_its_new_end(lab: Lab, jobs: int) -> None:
    lab.service.start(1, 1)
    lab.service.end(1, "FAILED")
    others = [asyncio.create_task(lab.finished(job_id, 1)) for job_id in range(2, jobs + 1)]
    bell, runs = lab.wait()

    async def state() -> str:
        (run,) = [one async for one in runs.list_runs(job_id=1, start_time_from_ms=0)]
        return str(outcome_of(run).result)

    assert await state() == "FAILED"
    lab.service.reopen(1)
    await lab.rounds(3)
    lab.service.end(1)
    async with asyncio.timeout(10):
        while await state() != "SUCCESS":
            await bell.rest(60)
    for task in others:
        task.cancel()


async def test_a_repair_between_two_rounds_is_found_when_the_job_is_checked(lab: Lab) -> None:
    old = now_ms() - 5 * HOUR
    lab.service.start(1, 1, at_ms=old)
    lab.service.end(1, "FAILED", at_ms=old + 1)
    lab.service.start(2, 1)
    lab.service.end(2)
    bell, runs = lab.wait()
    listing = [run async for run in runs.list_runs(job_id=1, start_time_from_ms=old)]
    assert [outcome_of(run).result for run in listing] == ["SUCCESS", "FAILED"]
    lab.service.end(1, "SUCCESS")
    async with asyncio.timeout(10):
        while listing[-1]["state"]["result_state"] != "SUCCESS":
            await bell.rest(60)
            listing = [run async for run in runs.list_runs(job_id=1, start_time_from_ms=old)]


async def test_a_run_over_once_is_not_believed_to_be_over_by_who_comes_after_its_repair(lab: Lab) -> None:
    lab.service.start(1, 1)
    lab.service.end(1, "FAILED")
    first_bell, first = lab.wait()
    async with asyncio.timeout(10):
        while first.run(1) is None:
            await first_bell.rest(60)
    lab.service.reopen(1)
    later = asyncio.create_task(lab.ended(1))
    await lab.rounds(3)
    assert not later.done()
    lab.service.end(1)
    assert await later == "SUCCESS"


@pytest.mark.parametrize("waits", [1, 40])
async def test_trouble_ends_no_wait(lab: Lab, waits: int) -> None:
    for run_id in range(1, waits + 1):
        lab.service.start(run_id, 1)
    all_waits = [asyncio.create_task(tolerant(lab, run_id)) for run_id in range(1, waits + 1)]
    await lab.rounds(2)
    busy = answer({"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "slow"}, 429, Retry_After="0")
    lab.service.trouble = [
        *[busy] * 10,
        answer({"error_code": "UNAUTHENTICATED", "message": "who?"}, 401),
        answer("<html>Bad Gateway</html>", 502),
        *[dropped, cut] * 5,
        answer("<html>log in</html>", 200),
        answer([], 200),
    ]
    await eventually(lambda: not lab.service.trouble)
    for run_id in range(1, waits + 1):
        lab.service.end(run_id)
    assert await asyncio.gather(*all_waits) == ["SUCCESS"] * waits


async def tolerant(lab: Lab, run_id: int) -> str:
    """As `lab.ended`, looking on after what a trigger outlives."""
    while True:
        try:
            return await lab.ended(run_id)
        except (Unavailable, NotAuthenticated, BadAnswer):
            await asyncio.sleep(INTERVAL)


async def test_a_run_that_may_not_be_seen_is_told_to_its_own_wait_alone(lab: Lab) -> None:
    lab.service.start(1, 1)
    good = asyncio.create_task(lab.ended(1))
    await lab.rounds(2)

    async def refused(request: Any) -> Any:
        from aiohttp import web

        if request.query.get("run_id") == "2":
            body = {"error_code": "PERMISSION_DENIED", "message": "User x does not have View permissions on run 2"}
            return web.json_response(body, status=403)
        return lab.service._answer(request.path.split("/", 3)[-1], dict(request.query))

    lab.service.trouble = [refused] * 1000
    with pytest.raises(NotPermitted):
        await lab.ended(2)
    lab.service.trouble.clear()
    lab.service.end(1)
    assert await good == "SUCCESS"


async def test_a_job_deleted_while_it_is_waited_for_is_told(lab: Lab) -> None:
    lab.service.job(7, "bronze")
    bell, runs = lab.wait()
    job_id = await runs.job_of(None, "bronze")
    assert [run async for run in runs.list_runs(job_id=job_id, start_time_from_ms=0)] == []
    del lab.service.jobs[7]

    async def until_it_says_so() -> None:
        while True:
            assert [run async for run in runs.list_runs(job_id=7, start_time_from_ms=0)] == []
            await bell.rest(60)

    with pytest.raises(NotFound, match="does not exist"):
        await asyncio.wait_for(until_it_says_so(), 10)
    with pytest.raises(NotFound, match="no job called 'bronze'"):
        await runs.job_of(None, "bronze")


async def test_a_job_made_anew_under_its_name_is_followed(lab: Lab) -> None:
    lab.service.job(70, "bronze")
    bell, runs = lab.wait()
    assert await runs.job_of(None, "bronze") == 70
    assert [run async for run in runs.list_runs(job_id=70, start_time_from_ms=0)] == []
    del lab.service.jobs[70]
    lab.service.job(71, "bronze")
    lab.service.start(5, 71)
    lab.service.end(5)
    found: list[int] = []
    async with asyncio.timeout(10):
        while found != [5]:
            await bell.rest(INTERVAL)
            job_id = await runs.job_of(None, "bronze")
            try:
                found = [run["run_id"] async for run in runs.list_runs(job_id=job_id, start_time_from_ms=0)]
            except NotFound:
                assert job_id == 70


async def test_a_name_is_looked_up_anew_when_the_listing_says_that_its_job_is_gone(lab: Lab) -> None:
    """Else who comes later would be told of the old job for as long as the feed lives."""
    lab.service.job(70, "bronze")
    _, runs = lab.wait()
    assert await runs.job_of(None, "bronze") == 70
    del lab.service.jobs[70]
    lab.service.job(71, "bronze")
    gone = {"error_code": "INVALID_PARAMETER_VALUE", "message": "Job 70 does not exist."}
    lab.service.trouble.append(answer(gone, 400))
    with pytest.raises(NotFound):
        await runs.list_runs(job_id=70, start_time_from_ms=0).__anext__()
    assert await runs.job_of(None, "bronze") == 71


async def test_nothing_is_asked_when_nobody_waits(lab: Lab) -> None:
    lab.service.start(1, 1)
    wait = asyncio.create_task(lab.ended(1))
    await lab.rounds(2)
    wait.cancel()
    for _, runs in lab.waits:
        runs.leave()
    assert sum((await lab.rounds(3)).values()) <= 1
    assert lab.feed._book.ids == {}
