"""Our triggers over real HTTP, through what kills the official ones; and what they leave behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from benchmarks.jobs_service import JobsService, answer, cut, dropped, serving
from databricks_bridge.feeds import run_feed
from databricks_bridge.feeds.hub import hub_of_this_loop
from databricks_bridge.triggers import polling
from databricks_bridge.triggers.polling import PollingTrigger
from databricks_bridge.triggers.run import RunTrigger
from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger

BUSY = answer({"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "slow"}, 429, Retry_After="0")
SINCE = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JobsService]:
    monkeypatch.setattr(run_feed, "GATHER_SECONDS", 0.02)
    monkeypatch.setattr(polling, "SHORTEST_INTERVAL", 0.05)
    for module in ("transport", "line"):
        monkeypatch.setattr(f"databricks_bridge.workspace.{module}._FIRST_PAUSE_SECONDS", 0.01)
        monkeypatch.setattr(f"databricks_bridge.workspace.{module}._LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr("databricks_bridge.workspace.line.JITTER_SECONDS", 0.01)
    async with serving(JobsService()) as made:
        url, _, port = made.host.rpartition(":")
        connection = {"conn_type": "databricks", "host": url, "port": int(port), "password": "dapi-secret"}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        made.job(7, "bronze")
        yield made
        assert hub_of_this_loop().idle, "the last trigger out closes what they shared"


def waits_for_run(run_id: int, **changes: Any) -> PollingTrigger:
    arguments: dict[str, Any] = {"poll_interval": 0.1, "deadline": (SINCE + timedelta(days=1)).isoformat()} | changes
    return RunTrigger(databricks_conn_id="ops", run_id=run_id, **arguments)


def waits_for_job(job_id: int | None = None, job_name: str | None = "bronze", **changes: Any) -> PollingTrigger:
    arguments: dict[str, Any] = {"poll_interval": 0.1, "deadline": (SINCE + timedelta(days=1)).isoformat()} | changes
    return TriggeredRunTrigger(
        databricks_conn_id="ops",
        job_id=job_id,
        job_name=job_name,
        triggers=["FILE_ARRIVAL"],
        run_state=["SUCCESS"],
        since=SINCE.isoformat(),
        **arguments,
    )


async def event_of(trigger: PollingTrigger) -> dict[str, Any]:
    """As the triggerer runs it: the first event, and cleanup whatever happens."""
    try:
        async with asyncio.timeout(30):
            async for event in trigger.run():
                payload: dict[str, Any] = event.payload
                return payload
    finally:
        await trigger.cleanup()
    raise AssertionError("the trigger ended without an event")


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


TROUBLE = {
    "A08 429 ten times": [BUSY] * 10,
    "A06 one 401": [answer({"error_code": "UNAUTHENTICATED", "message": "expired"}, 401)],
    "A05 closed without an answer": [dropped] * 6,
    "A05 HTML 502": [answer("<html>Bad Gateway</html>", 502)] * 4,
    "A05 cut short": [cut] * 4,
    "a log-in page": [answer("<html>log in</html>", 200)] * 2,
    "one 403": [answer({"error_code": "PERMISSION_DENIED", "message": "no"}, 403)],
    "503": [answer({"error_code": "TEMPORARILY_UNAVAILABLE", "message": "later"}, 503, Retry_After="0")] * 4,
}


@pytest.mark.parametrize("trouble", TROUBLE.values(), ids=TROUBLE)
@pytest.mark.parametrize("wait", [lambda: waits_for_run(1), waits_for_job], ids=["run", "job"])
async def test_A05_A06_A08_a_wait_outlives_what_kills_the_official_trigger(
    service: JobsService, trouble: list[Any], wait: Callable[[], PollingTrigger]
) -> None:
    service.start(1, 7)
    waiting = asyncio.create_task(event_of(wait()))
    await eventually(lambda: service.counts["jobs/runs/get"] or service.counts["jobs/runs/list"])
    service.trouble = list(trouble)
    await eventually(lambda: not service.trouble)
    service.end(1)
    event = await waiting
    assert event["status"] == "ready"
    assert (event.get("run_id") or event["run"]["run_id"]) == 1


async def test_A03_a_state_new_to_us_is_waited_through_and_told_once(
    service: JobsService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.start(1, 7)
    waiting = asyncio.create_task(event_of(waits_for_run(1)))
    for state in ("PENDING", "QUEUED", "BLOCKED", "WAITING_FOR_RETRY", "FUTURE_STATE", "RUNNING"):
        service.runs[1] |= {"state": {"life_cycle_state": state}, "status": {"state": state}}
        seen = service.counts["jobs/runs/get"]
        await eventually(lambda seen=seen: service.counts["jobs/runs/get"] >= seen + 2)
        await asyncio.sleep(0.15)
    service.end(1)
    assert (await waiting)["outcome"] == "TERMINATED/SUCCESS"
    assert capsys.readouterr().out.count("FUTURE_STATE") == 1


async def test_A03_a_state_new_to_us_of_a_fired_run_is_told_once(
    service: JobsService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service.start(1003, 7)
    service.runs[1003] |= {"state": {"life_cycle_state": "FUTURE_STATE"}, "status": {"state": "FUTURE_STATE"}}
    waiting = asyncio.create_task(event_of(waits_for_job()))
    await eventually(lambda: service.counts["jobs/runs/list"] >= 4)
    service.end(1003)
    assert (await waiting)["run"]["run_id"] == 1003
    assert len([line for line in caplog.messages if "FUTURE_STATE" in line]) == 1


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ("MAXIMUM_CONCURRENT_RUNS_REACHED", "TERMINATED/MAXIMUM_CONCURRENT_RUNS_REACHED"),
        ("SUCCESS_WITH_FAILURES", "TERMINATED/SUCCESS_WITH_FAILURES"),
        ("EXCLUDED", "TERMINATED/EXCLUDED"),
    ],
)
async def test_C08_A16_every_ending_ends_the_wait_for_a_run_and_only_success_that_for_a_job(
    service: JobsService, result: str, outcome: str
) -> None:
    service.start(1, 7)
    one, job = asyncio.create_task(event_of(waits_for_run(1))), asyncio.create_task(event_of(waits_for_job()))
    await eventually(lambda: service.counts["jobs/runs/list"])
    service.end(1, result)
    assert (await one)["outcome"] == outcome
    service.start(2, 7)
    service.end(2)
    assert (await job)["run"]["run_id"] == 2


async def test_C13_manual_runs_and_retries_do_not_end_the_wait_for_a_fired_run(service: JobsService) -> None:
    waiting = asyncio.create_task(event_of(waits_for_job()))
    for run_id, trigger in enumerate(["ONE_TIME", "RETRY", "PERIODIC", "MODEL", "NEW_KIND"], start=1):
        service.start(run_id, 7, trigger=trigger)
        service.end(run_id)
    await eventually(lambda: service.counts["jobs/runs/list"] > 3)
    assert not waiting.done()
    service.start(9, 7)
    service.end(9)
    run = (await waiting)["run"]
    assert (run["run_id"], run["trigger"], run["job_parameters"]) == (9, "FILE_ARRIVAL", {"region": "NY"})


@pytest.mark.parametrize("refusals", [1, 1000])
async def test_C10_a_400_on_a_later_page_is_no_end_of_the_list(service: JobsService, refusals: int) -> None:
    """The run that is waited for is on the last page: once refused it is found all the same, for ever refused it is said."""
    for run_id in range(1, 60):
        service.start(run_id, 7, at_ms=int(SINCE.timestamp() * 1000) + run_id)
        service.end(run_id, "FAILED")
    service.start(100, 7, at_ms=int(SINCE.timestamp() * 1000))
    service.end(100)
    left = iter(range(refusals))

    async def third_page_refused(request: web.Request) -> web.StreamResponse:
        if request.query.get("page_token", "").endswith("-12") and next(left, None) is not None:
            return web.json_response({"error_code": "INVALID_PARAMETER_VALUE", "message": "offset"}, status=400)
        return service._answer(request.path.split("/", 3)[-1], dict(request.query))

    service.trouble = [third_page_refused] * 1000
    event = await event_of(waits_for_job())
    if refusals == 1:
        assert event["run"]["run_id"] == 100
        assert next(left, None) is None
    else:
        assert event["status"] == "error"
        assert "INVALID_PARAMETER_VALUE" in event["message"]
        service.trouble.clear()
        assert (await event_of(waits_for_job()))["run"]["run_id"] == 100


async def test_A14_two_jobs_of_one_name_are_an_error_that_names_both(service: JobsService) -> None:
    service.job(8, "bronze")
    event = await event_of(waits_for_job())
    assert (event["status"], event["error"]) == ("error", "InvalidArgument")
    assert "7, 8" in event["message"]


async def test_A14_a_run_of_a_job_that_lost_its_name_ends_no_wait(service: JobsService) -> None:
    waiting = asyncio.create_task(event_of(waits_for_job()))
    await eventually(lambda: service.counts["jobs/runs/list"] > 3)  # what was looked up is older than a poll
    service.job(7, "bronze_old")
    service.job(8, "bronze")
    looked_up = service.counts["jobs/list"]
    service.start(1, 7)
    service.end(1)
    await eventually(lambda: service.counts["jobs/list"] > looked_up)
    service.start(2, 8)
    service.end(2)
    event = await waiting
    assert (event["run"]["run_id"], event["run"]["job_id"]) == (2, 8)


async def test_a_run_deleted_while_it_is_waited_for(service: JobsService) -> None:
    service.start(1, 7)
    waiting = asyncio.create_task(event_of(waits_for_run(1)))
    await eventually(lambda: service.counts["jobs/runs/get"])
    del service.runs[1]
    assert (await waiting)["outcome"] == "gone"


async def test_the_deadline_is_the_triggers_own(service: JobsService) -> None:
    service.start(1, 7)
    deadline = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat()
    events = await asyncio.gather(
        event_of(waits_for_run(1, deadline=deadline)), event_of(waits_for_job(deadline=deadline))
    )
    assert [event["status"] for event in events] == ["deadline"] * 2


async def test_E16_the_same_wait_in_two_triggerers_is_told_in_both_and_harms_nothing(service: JobsService) -> None:
    service.start(1, 7)

    def triggerer() -> dict[str, Any]:
        return asyncio.run(event_of(waits_for_run(1)))

    both = [asyncio.create_task(asyncio.to_thread(triggerer)) for _ in range(2)]
    await eventually(lambda: service.counts["jobs/runs/get"] >= 2)
    service.end(1)
    assert await asyncio.gather(*both) == [await event_of(waits_for_run(1, deadline=waits_for_run(1).deadline))] * 2
    assert service.counts["jobs/runs/cancel"] == 0


async def test_E06_a_thousand_waits_do_not_block_the_loop(service: JobsService) -> None:
    for run_id in range(1, 51):
        service.start(run_id, 7)
    waiting = [asyncio.create_task(event_of(waits_for_run(n % 50 + 1, poll_interval=0.5))) for n in range(1000)]
    longest, last = 0.0, asyncio.get_running_loop().time()
    for _ in range(150):
        await asyncio.sleep(0.01)
        now = asyncio.get_running_loop().time()
        longest, last = max(longest, now - last - 0.01), now
    assert longest < 2.0
    for run_id in range(1, 51):
        service.end(run_id)
    assert {event["status"] for event in await asyncio.gather(*waiting)} == {"ready"}
    assert sum(service.counts.values()) < 60
