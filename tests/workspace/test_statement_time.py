"""A wait through a warehouse keeps its time, and takes back the statement that it began (T32)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from databricks_bridge.core.errors import Unavailable
from databricks_bridge.workspace.client import Workspace
from databricks_bridge.workspace.statements import Warehouse
from tests.workspace.conftest import Time

PENDING = {"statement_id": "s1", "status": {"state": "PENDING"}}


class Slow:
    """A workspace whose warehouse never starts: each answer takes `seconds`, by the clock, or for ever."""

    host = "http://127.0.0.1:1"

    def __init__(self, time: Time, seconds: float, *, hangs: tuple[str, ...] = ()) -> None:
        self.time, self.seconds, self.hangs = time, seconds, hangs
        self.calls: list[str] = []

    async def _answer(self, what: str) -> dict[str, Any]:
        self.calls.append(what)
        if what in self.hangs:
            await asyncio.sleep(3600)
        self.time.at += self.seconds
        return PENDING

    async def post(self, path: str, body: Any, *, safe: bool) -> dict[str, Any]:
        return await self._answer("cancel" if path.endswith("/cancel") else "post")

    async def get(self, path: str) -> dict[str, Any]:
        return await self._answer("get")

    async def find_warehouse(self, name: str) -> str:
        await self._answer("find")
        return "w1"


def warehouse(slow: Slow, time: Time, budget: float, **named: Any) -> Warehouse:
    named = named or {"warehouse_id": "w1"}
    workspace = cast("Workspace", slow)
    return Warehouse(workspace, budget_seconds=budget, sleep=time.sleep, clock=time.clock, **named)


@pytest.mark.parametrize("seconds", [0.0, 4.0, 25.0])
@pytest.mark.parametrize("budget", [2.0, 30.0])
async def test_slow_answers_count(seconds: float, budget: float) -> None:
    time = Time()
    slow, began = Slow(time, seconds), time.at
    with pytest.raises(Unavailable, match=rf"did not end in {budget:.0f} s \(state PENDING\)|not answered in"):
        await warehouse(slow, time, budget).execute("SELECT 1")
    assert slow.calls[-1] == "cancel"
    assert sum(time.pauses) <= budget, "it never sleeps past its time"
    assert time.at - began <= budget + 2 * seconds, "the last answer, and the one to cancel"


@pytest.mark.parametrize("hangs", ["post", "get", "find"])
async def test_an_answer_that_does_not_come_is_not_waited_for(hangs: str) -> None:
    time = Time()
    slow = Slow(time, 0.0, hangs=(hangs,))
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable, match="was not answered in 0 s"):
            await warehouse(slow, time, 0.02, name="nightly").execute("SELECT 1")
    assert ("cancel" in slow.calls) == (hangs == "get"), "what was begun is taken back"


async def test_a_wait_that_is_given_up_takes_its_statement_back() -> None:
    time = Time()
    slow = Slow(time, 0.0, hangs=("get",))
    wait = asyncio.create_task(warehouse(slow, time, 600).execute("SELECT 1"))
    async with asyncio.timeout(10):
        while "get" not in slow.calls:  # noqa: ASYNC110
            await asyncio.sleep(0)
    wait.cancel()
    await asyncio.wait([wait])
    assert wait.cancelled()
    assert slow.calls == ["post", "get", "cancel"]
