"""Blocking calls of one owner hold up nobody else, and leave no threads behind (T31)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from databricks_bridge.workspace.line import Line
from databricks_bridge.workspace.names import HostResolver
from databricks_bridge.workspace.threads import in_thread_of

MANY = 40
"""More than any shared executor has threads."""


class Stuck:
    """A blocking call that ends when the test lets it. `begun` counts the calls."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.begun = 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.begun += 1
        self.over.wait(60)
        return []


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.over.set()


def threads_of(owner: str) -> int:
    return sum(owner in thread.name for thread in threading.enumerate())


async def eventually(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_calls_that_are_not_answered_cost_others_nothing(stuck: Stuck) -> None:
    waits = [asyncio.create_task(in_thread_of("store one", stuck, seconds=60)) for _ in range(MANY)]
    await eventually(lambda: stuck.begun)
    async with asyncio.timeout(10):
        assert await in_thread_of("store two", lambda: 2, seconds=60) == 2
        assert await asyncio.to_thread(lambda: 3) == 3
        assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
    stuck.over.set()
    assert await asyncio.gather(*waits) == [[]] * MANY


async def test_waits_that_are_cancelled_pile_up_no_threads(stuck: Stuck) -> None:
    for _ in range(3):
        waits = [asyncio.create_task(in_thread_of("store three", stuck, seconds=60, at_once=4)) for _ in range(MANY)]
        await eventually(lambda: stuck.begun == 4)
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
    assert (stuck.begun, threads_of("store three")) == (4, 4)
    stuck.over.set()
    await eventually(lambda: threads_of("store three") == 0)
    assert stuck.begun == 4, "what nobody waits for is not begun"
    assert await in_thread_of("store three", lambda: 1, seconds=60) == 1


async def test_a_wait_ends_with_its_time(stuck: Stuck) -> None:
    with pytest.raises(TimeoutError):
        await in_thread_of("store four", stuck, seconds=0.01, at_once=1)
    with pytest.raises(TimeoutError):  # in the queue, too
        await in_thread_of("store four", lambda: 1, seconds=0.01, at_once=1)


async def test_names_that_are_not_answered_cost_others_nothing(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def look_up(host: str, *more: Any, **named: Any) -> Any:
        return stuck() if host.startswith("stuck") else real("127.0.0.1", *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    lines = [Line() for _ in range(MANY)]
    sessions = [line.session() for line in lines]
    waits = [asyncio.create_task(one.get(f"http://stuck{n}.test/")) for n, one in enumerate(sessions)]
    await eventually(lambda: stuck.begun == MANY)
    async with asyncio.timeout(10):
        (found,) = await HostResolver().resolve("good.test", 443)
        assert (found["hostname"], found["host"], found["port"]) == ("good.test", "127.0.0.1", 443)
        assert await asyncio.to_thread(lambda: 3) == 3
    for wait in waits:
        wait.cancel()
    await asyncio.wait(waits)
    for session in sessions:
        await session.close()


async def test_a_name_that_does_not_exist_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(OSError, match="no such name"):
        await HostResolver().resolve("nowhere.test", 443)


async def test_the_bound_of_one_bucket_is_not_another_s() -> None:
    line = Line()
    async with asyncio.timeout(10):
        for _ in range(20):
            await line.slots_of("stuck").acquire()
        assert line.slots_of("stuck").locked()
        async with line.slots_of("good"), line.slots:
            pass
    assert partial(line.slots_of, "good")() is line.slots_of("good")
