"""Seats on one event loop share clients, sources and polls; the last one out closes them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from databricks_bridge.core.policy import Policy, Ready
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.core.waiting import decide_wait
from databricks_bridge.feeds.driver import utc_now
from databricks_bridge.feeds.hub import hub_of_this_loop
from databricks_bridge.feeds.leases import Leases
from databricks_bridge.feeds.seat import FeedLooker, Seat
from databricks_bridge.workspace.client import Workspace

from .conftest import SOURCE, Lab

INTERVAL = 0.1
SPEC = SubscriptionSpec("delays", (SOURCE,), "earliest", Policy())
MARKS = {SOURCE.alias: TablePosition(0)}


@dataclass
class Opener:
    """Opens clients of the lab, and keeps them."""

    lab: Lab
    opened: list[Workspace] = field(default_factory=list)
    closed: Counter[str] = field(default_factory=Counter)

    async def __call__(self, name: str) -> Workspace:
        token = self.lab.deployment.token(name)

        async def headers() -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        async def on_close() -> None:
            self.closed[name] += 1

        self.opened.append(Workspace(self.lab.deployment.host(name), headers, on_close=on_close))
        return self.opened[-1]


@pytest.fixture
async def opener(lab: Lab) -> AsyncIterator[Opener]:
    yield Opener(lab)
    assert hub_of_this_loop().idle


async def until_ready(seat: Seat, spec: SubscriptionSpec = SPEC) -> Ready:
    looker = FeedLooker(seat)
    async with asyncio.timeout(20):
        while True:
            findings = await looker.look(spec, MARKS)
            decision = decide_wait(spec, MARKS, None, findings, utc_now())
            if isinstance(decision, Ready):
                return decision
            await seat.rest(60)


async def test_many_waits_on_a_table_are_one_client_and_one_poll_and_all_are_woken(lab: Lab, opener: Opener) -> None:
    seats = [Seat(opener, INTERVAL) for _ in range(50)]
    waits = [asyncio.create_task(until_ready(seat)) for seat in seats]
    async with asyncio.timeout(20):
        while len(hub_of_this_loop().tables) == 0:  # noqa: ASYNC110
            await asyncio.sleep(INTERVAL)
    await asyncio.sleep(INTERVAL * 3)
    (watched,) = hub_of_this_loop().tables._tables.values()
    assert watched.looks <= 6
    lab.commit(1)
    assert {decision.updated for decision in await asyncio.gather(*waits)} == {(SOURCE.alias,)}
    assert len(opener.opened) == 1
    for seat in seats[1:]:
        await seat.close()
    assert opener.closed == {}
    assert (await seats[0].workspace("ops")).host == lab.deployment.host("ops")
    await seats[0].close()
    assert opener.closed == {"ops": 1}
    await seats[0].close()
    assert opener.closed == {"ops": 1}


async def test_runs_and_tables_of_one_subscription_are_answered_by_their_feeds(lab: Lab, opener: Opener) -> None:
    job_id = await lab.create_job("bronze", [])
    runs = TriggeredRuns(
        databricks_conn_id="analytics", job_id=job_id, triggers=frozenset({"ONE_TIME"}), alias="bronze"
    )
    spec = replace(SPEC, sources=(SOURCE, runs))
    seat = Seat(opener, INTERVAL)
    wait = asyncio.create_task(until_ready(seat, spec))
    await asyncio.sleep(INTERVAL * 2)
    assert not wait.done()
    await lab.analytics.run_now(job_id, job_parameters={}, idempotency_token="once")
    assert (await wait).updated == ("bronze",)
    assert len(opener.opened) == 2
    await seat.close()


async def test_a_loop_of_its_own_has_feeds_of_its_own(lab: Lab, opener: Opener) -> None:
    mine = hub_of_this_loop()

    async def other() -> bool:
        return hub_of_this_loop() is mine

    assert not await asyncio.to_thread(lambda: asyncio.run(other()))
    assert hub_of_this_loop() is mine


async def test_a_lease_is_opened_once_for_a_crowd_and_again_after_a_failure() -> None:
    closed: list[int] = []

    async def close(value: int) -> None:
        closed.append(value)

    leases: Leases[str, int] = Leases(close)
    opened = 0

    async def opening() -> int:
        nonlocal opened
        opened += 1
        await asyncio.sleep(0.01)
        if opened == 1:
            raise OSError("not yet")
        return opened

    first, *others = await asyncio.gather(*(leases.take("a", opening) for _ in range(5)), return_exceptions=True)
    assert isinstance(first, OSError)
    assert others == [2, 2, 2, 2]
    for _ in range(4):
        await leases.give_back("a")
    assert (closed, len(leases)) == ([2], 0)
