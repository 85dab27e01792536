"""What is refused to the feed of runs, and to whom that is told: one answer never speaks for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.errors import BadAnswer, BridgeError, NotFound, NotPermitted, WorkspaceError
from databricks_bridge.feeds.rounds import Bell
from databricks_bridge.feeds.run_feed import FeedRuns
from tests.feeds.run_feed_kit import INTERVAL, Lab, eventually, feed_lab

ODD = {"error_code": "INVALID_PARAMETER_VALUE", "message": "The page token has expired."}
GONE = {"error_code": "INVALID_PARAMETER_VALUE", "message": "What this token names does not exist."}
FORBIDDEN = {"error_code": "PERMISSION_DENIED", "message": "no View permission"}
LOG_IN = "<html>log in</html>"


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    async with feed_lab(monkeypatch) as made:
        yield made


def refuse(lab: Lab, when: Callable[[web.Request], bool], body: Any, status: int, times: int = 10**6) -> list[str]:
    """Answers so, where `when` says so, so many times; the queries that were refused."""
    refused: list[str] = []

    async def maybe(request: web.Request) -> web.StreamResponse:
        if len(refused) < times and when(request):
            refused.append(request.path_qs)
            if isinstance(body, str):
                return web.Response(text=body, status=status, content_type="text/html")
            return web.json_response(body, status=status)
        return lab.service._answer(request.path.split("/", 3)[-1], dict(request.query))

    lab.service.trouble = [maybe] * 100_000
    return refused


def of_active(request: web.Request) -> bool:
    return request.path.endswith("runs/list") and "active_only" in request.query


@pytest.mark.parametrize("said", [ODD, GONE], ids=["expired", "does not exist"])
async def test_a_page_token_that_is_refused_once_ends_nobody_s_wait(lab: Lab, said: dict[str, str]) -> None:
    for run_id in range(1, 61):
        lab.service.start(run_id, 1)
    waits = [asyncio.create_task(lab.ended(run_id)) for run_id in range(1, 61)]
    await lab.rounds(3)
    refused = refuse(lab, lambda request: "page_token" in request.query, said, 400, times=1)
    await eventually(lambda: refused)
    await lab.rounds(3)
    assert not any(wait.done() for wait in waits)
    for run_id in range(1, 61):
        lab.service.end(run_id)
    assert await asyncio.gather(*waits) == ["SUCCESS"] * 60


@pytest.mark.parametrize("said", [ODD, GONE], ids=["expired", "does not exist"])
async def test_a_listing_that_is_refused_is_no_word_about_any_run(lab: Lab, said: dict[str, str]) -> None:
    for run_id in range(1, 61):
        lab.service.start(run_id, 1)
    places = [lab.wait() for _ in range(60)]
    for run_id, (_, runs) in enumerate(places, start=1):
        runs.run(run_id)
    await lab.rounds(3)
    refused = refuse(lab, of_active, said, 400, times=2)
    await eventually(lambda: len(refused) == 2)
    lab.service.end(7)
    seen = set[str]()
    async with asyncio.timeout(10):
        while True:
            await places[6][0].rest(INTERVAL)
            try:
                run = places[6][1].run(7)
            except BridgeError as error:
                seen.add(type(error).__name__)
                continue
            if run is not None and run["state"].get("result_state") == "SUCCESS":
                break
    assert seen <= {"BadAnswer"}


async def test_a_run_that_is_refused_in_a_new_way_is_told_to_its_own_wait_alone(lab: Lab) -> None:
    for run_id in range(1, 61):
        lab.service.start(run_id, 1)
    good = [asyncio.create_task(lab.ended(run_id)) for run_id in range(1, 61)]
    await lab.rounds(2)
    refuse(lab, lambda request: request.query.get("run_id") == "999", ODD, 400)
    with pytest.raises(WorkspaceError, match="expired"):
        await lab.ended(999)
    await lab.rounds(3)
    for run_id in range(1, 61):
        lab.service.end(run_id)
    assert await asyncio.gather(*good) == ["SUCCESS"] * 60


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [(FORBIDDEN, 403, "NotPermitted"), (LOG_IN, 200, "BadAnswer"), (ODD, 400, "WorkspaceError")],
    ids=["403", "HTML", "400"],
)
async def test_a_check_of_a_job_that_is_refused_once_is_forgotten_at_the_next_round(
    lab: Lab, body: Any, status: int, error: str
) -> None:
    """Many jobs are looked at by listing the workspace, which says nothing of the one that was refused."""
    others = [asyncio.create_task(lab.finished(job_id, 1)) for job_id in range(2, 13)]
    bell, runs = lab.wait()
    assert [run async for run in runs.list_runs(job_id=1, start_time_from_ms=0)] == []
    await lab.rounds(3)
    mine = refuse(lab, lambda request: request.query.get("job_id") == "1", body, status, times=1)
    await eventually(lambda: mine)
    lab.feed._recheck_seconds = 600
    checked = lab.service.queries.copy()
    with pytest.raises(BridgeError) as told:
        await asyncio.wait_for(_until_refused(bell, runs), 10)
    assert type(told.value).__name__ == error
    await eventually(lambda: lab.feed._book.jobs[1].error is None)
    again = [query for query in lab.service.queries[len(checked) :] if "jobs/get?" in query]
    assert [query.partition("&")[0] for query in again] == ["/api/2.2/jobs/get?job_id=1"], (
        "a round later, not after another ten minutes"
    )
    lab.service.start(5, 1)
    lab.service.end(5)
    async with asyncio.timeout(10):
        while [run["run_id"] async for run in runs.list_runs(job_id=1, start_time_from_ms=0)] != [5]:
            await bell.rest(INTERVAL)
    assert not any(task.done() for task in others)
    for task in others:
        task.cancel()


async def test_a_job_that_stays_refused_is_told_to_those_who_wait_for_it_alone(lab: Lab) -> None:
    others = [asyncio.create_task(lab.finished(job_id, 1)) for job_id in range(2, 13)]
    bell, runs = lab.wait()
    assert [run async for run in runs.list_runs(job_id=1, start_time_from_ms=0)] == []
    await lab.rounds(3)
    mine = refuse(lab, lambda request: request.query.get("job_id") == "1", FORBIDDEN, 403)
    await eventually(lambda: mine)
    with pytest.raises(NotPermitted):
        await asyncio.wait_for(_until_refused(bell, runs), 10)
    for _ in range(5):
        await bell.rest(INTERVAL)
        with pytest.raises(NotPermitted):
            await runs.list_runs(job_id=1, start_time_from_ms=0).__anext__()
    for job_id in range(2, 13):
        lab.service.start(100 + job_id, job_id)
        lab.service.end(100 + job_id)
    assert await asyncio.gather(*others) == [[100 + job_id] for job_id in range(2, 13)]


async def _until_refused(bell: Bell, runs: FeedRuns) -> None:
    while True:
        assert [run async for run in runs.list_runs(job_id=1, start_time_from_ms=0)] == []
        await bell.rest(INTERVAL)


async def test_a_listing_of_a_job_that_says_gone_is_not_believed_while_the_job_is_there(lab: Lab) -> None:
    refuse(lab, lambda request: request.path.endswith("runs/list"), GONE, 400)
    _, runs = lab.wait()
    with pytest.raises(BadAnswer, match="the runs of job 1, which is there, are refused"):
        await runs.list_runs(job_id=1, start_time_from_ms=0).__anext__()


async def test_a_job_that_never_was_is_told_at_the_first_look(lab: Lab) -> None:
    _, runs = lab.wait()
    with pytest.raises(NotFound, match="does not exist"):
        await runs.list_runs(job_id=4711, start_time_from_ms=0).__anext__()


async def test_jobs_that_are_deleted_together_are_told_within_the_longest_time_however_many(lab: Lab) -> None:
    lab.feed._recheck_seconds = 0.0
    waits = [lab.wait(interval=900.0) for _ in range(12)]  # four rounds an hour
    for job_id, (_, runs) in enumerate(waits, start=1):
        assert [run async for run in runs.list_runs(job_id=job_id, start_time_from_ms=0)] == []
    lab.service.jobs.clear()
    for rounds in range(1, 5):
        async with lab.feed._turn:
            await lab.feed._recheck()
        gone = [job for job in lab.feed._book.jobs.values() if isinstance(job.error, NotFound)]
        assert len(gone) == 3 * rounds


async def test_a_run_of_an_answer_without_a_start_is_told_to_who_waits_for_it(lab: Lab) -> None:
    over = {"run_id": 3, "job_id": 1, "state": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}}
    refuse(lab, lambda request: request.query.get("run_id") == "3", over, 200)
    assert await lab.ended(3) == "SUCCESS"
