"""What the clients of one workspace share: the session, and one pause after a 429."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest
from aiohttp import web

from benchmarks.jobs_service import JobsService, serving
from databricks_bridge.core.errors import NotAuthenticated, Throttled
from databricks_bridge.workspace import line
from databricks_bridge.workspace.client import Workspace

from .conftest import Login, Server, Time, json_answer

GET = "/api/2.2/jobs/runs/get"


def client(host: str, login: Login, **changes: float) -> Workspace:
    return Workspace(host, login.headers, random=lambda: 0.0, **changes)


async def test_clients_of_one_workspace_share_a_session_until_the_last_leaves(server: Server, login: Login) -> None:
    server.script = [json_answer({})]
    first, second = client(server.host, login), client(f"{server.host}/", login)
    await first.get(GET)
    await second.get(GET)
    sessions = {one._transport._line.session() for one in (first, second) if one._transport._line}
    assert len(sessions) == 1
    await first.close()
    await second.get(GET)
    await second.close()
    await second.close()
    assert sessions.pop().closed
    assert asyncio.get_running_loop() not in line._lines


async def test_A08_after_a_429_nobody_asks_before_its_pause_is_over(login: Login) -> None:
    """Fifty at once against a service that is shut for two seconds: one crowd at first, then one that tries."""
    async with serving(JobsService()) as service:
        service.start(1, 1)
        crowd = [client(service.host, login) for _ in range(50)]
        service.shut_until = began = monotonic()
        service.shut_until += 2.0
        runs = await asyncio.gather(*(one.get_run(1) for one in crowd))
        assert {run["run_id"] for run in runs} == {1}
        late = [at - began for at in service.refused if at - began > 1.0]
        assert len(service.refused) <= line.CONNECTIONS, "no more than were under way at once"
        assert late == [], "and none of them again before the pause was over"
        assert service.counts["jobs/runs/get"] == 50 + len(service.refused)
        for one in crowd:
            await one.close()


async def test_a_service_that_goes_on_refusing_is_asked_by_one_at_a_time(server: Server, login: Login) -> None:
    refusals = 0

    async def refuse(request: web.Request) -> web.StreamResponse:
        nonlocal refusals
        refusals += 1
        if refusals > 25:
            return web.json_response({})
        return web.json_response({"message": "slow"}, status=429, headers={"Retry-After": "0"})

    server.script = [refuse]
    time = Time()
    crowd = [
        Workspace(
            server.host, login.headers, sleep=time.sleep, clock=time.clock, random=lambda: 0.0, budget_seconds=1e6
        )
        for _ in range(40)
    ]
    await asyncio.gather(*(one.get(GET) for one in crowd))
    assert refusals == 25 + 40, "each one that tries alone is refused at most until the service recovers"
    for one in crowd:
        await one.close()


async def test_a_pause_longer_than_the_time_left_is_told_without_a_request(server: Server, login: Login) -> None:
    server.script = [json_answer({"message": "slow"}, 429, Retry_After="600")]
    async with client(server.host, login) as first, client(server.host, login, budget_seconds=20) as second:
        with pytest.raises(Throttled):
            await first.get(GET)
        with pytest.raises(Throttled, match="pause of 600 s more") as caught:
            await second.get(GET)
    assert caught.value.retry_after == pytest.approx(600, abs=2)
    assert len(server.requests) == 1


async def test_who_tries_first_and_gives_up_lets_the_next_one_try(server: Server, login: Login) -> None:
    hangs = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        hangs.set()
        await asyncio.sleep(30)
        return web.json_response({})

    server.script = [json_answer({"message": "slow"}, 429, Retry_After="0"), hang, json_answer({"ok": True})]
    async with client(server.host, login) as one:
        first = asyncio.create_task(one.get(GET))
        await asyncio.wait_for(hangs.wait(), 10)
        second = asyncio.create_task(one.get(GET))
        await asyncio.sleep(0.05)
        assert len(server.requests) == 2
        first.cancel()
        assert await asyncio.wait_for(second, 10) == {"ok": True}


async def test_a_refusal_of_another_kind_ends_the_trial(server: Server, login: Login) -> None:
    server.script = [
        json_answer({"message": "slow"}, 429, Retry_After="0"),
        json_answer({"error_code": "UNAUTHENTICATED"}, 401),
        json_answer({"ok": True}),
    ]
    async with client(server.host, login) as one:
        with pytest.raises(NotAuthenticated):
            await one.get(GET)
        assert await asyncio.gather(one.get(GET), one.get(GET)) == [{"ok": True}] * 2
