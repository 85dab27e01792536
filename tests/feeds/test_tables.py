"""The feed of versions: one look for all who wait, spread and bounded, and nothing ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest

from databricks_bridge.core.errors import BridgeError, NotFound, Unavailable
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.delta.model import CommitSummary, LatestVersion, VersionSource
from databricks_bridge.feeds.rounds import Bell, Timing
from databricks_bridge.feeds.tables import FeedTable, TableFeed, key_of

INTERVAL = 0.05


@dataclass
class Log:
    """A table whose every version has data. `trouble` is raised in turn; looks and what is under way are counted."""

    version: int = 3
    table_id: str = "one"
    seconds: float = 0.0
    trouble: list[Exception] = field(default_factory=list)
    looks: list[int | None] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    opened: int = 0
    busy: int = 0
    busiest: int = 0

    async def open(self) -> VersionSource:
        self.opened += 1
        return self

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        self.looks.append(known)
        self.at.append(monotonic())
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        await asyncio.sleep(self.seconds)
        self.busy -= 1
        if self.trouble:
            raise self.trouble.pop(0)
        new = self.version > (-1 if known is None else known)
        return LatestVersion(
            version=self.version, table_id=self.table_id, data_version=self.version if new else None, fingerprint="f"
        )

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        for version in range(from_exclusive + 1, to_inclusive + 1):
            yield CommitSummary(version=version, operation="WRITE", carries_data=True)

    async def gap(self, from_exclusive: int, to_inclusive: int) -> str | None:
        return f"{from_exclusive} {to_inclusive}"


@dataclass
class Waiter:
    feed: TableFeed
    name: str
    log: Log
    interval: float = INTERVAL

    def __post_init__(self) -> None:
        self.bell = Bell(self.interval)
        self.table: FeedTable = self.feed.join(key_of(DeltaTable(self.name)), self.log.open, self.bell)

    def leave(self) -> None:
        self.feed.leave(key_of(DeltaTable(self.name)), self.bell)

    async def until(self, version: int, known: int | None = None) -> LatestVersion:
        """As a trigger waits: look, rest, look."""
        async with asyncio.timeout(10):
            while True:
                found = await self.table.latest(known)
                if found is not None and found.version >= version:
                    return found
                await self.bell.rest(60)


@pytest.fixture
async def feed() -> AsyncIterator[TableFeed]:
    made = TableFeed(Timing(random=lambda: 0.5))
    yield made
    assert len(made) == 0, "a test leaves what it joined"
    await asyncio.sleep(0)
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("databricks")] == []


async def eventually(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_hundred_who_wait_are_one_poll(feed: TableFeed) -> None:
    log = Log()
    waiters = [Waiter(feed, "main.silver.flights", log) for _ in range(100)]
    assert {found.version for found in await asyncio.gather(*(one.until(3, known=3) for one in waiters))} == {3}
    assert log.looks == [3]
    await eventually(lambda: len(log.looks) >= 5)
    # A poll that a busy machine delayed may be followed sooner; as many polls as intervals have passed, and no more.
    assert len(log.at) - 1 <= (log.at[-1] - log.at[0]) / INTERVAL + 1
    for one in waiters:
        one.leave()
    assert log.opened == 1


async def test_all_who_wait_are_rung_when_the_table_moves(feed: TableFeed) -> None:
    log, other = Log(), Log()
    waiters = [Waiter(feed, "main.silver.flights", log) for _ in range(20)]
    bystander = Waiter(feed, "main.silver.weather", other)
    waits = [asyncio.create_task(one.until(4, known=3)) for one in waiters]
    still = asyncio.create_task(bystander.until(4, known=3))
    await eventually(lambda: log.looks and other.looks)
    log.version = 4
    assert [found.data_version for found in await asyncio.gather(*waits)] == [4] * 20
    assert not still.done()
    still.cancel()
    for one in [*waiters, bystander]:
        one.leave()


async def test_who_knows_less_is_answered_about_more(feed: TableFeed) -> None:
    log = Log(version=5)
    first, second = Waiter(feed, "main.silver.flights", log), Waiter(feed, "main.silver.flights", log)
    assert (await first.until(5, known=5)).data_version is None
    assert (await second.until(5, known=2)).data_version == 5
    asked = len(log.looks)
    for _ in range(20):
        await first.until(5, known=5)
        await second.until(5, known=2)
    assert len(log.looks) <= asked + 1, "answers about one version are kept"
    first.leave()
    second.leave()


async def test_trouble_is_told_and_ends_nothing(feed: TableFeed) -> None:
    log = Log(trouble=[NotFound("gone"), Unavailable("502"), RuntimeError("new to us")])
    one = Waiter(feed, "main.silver.flights", log)
    seen: list[BridgeError] = []
    async with asyncio.timeout(10):
        while True:
            try:
                found = await one.table.latest(None)
                break
            except BridgeError as error:
                if not seen or str(error) != str(seen[-1]):
                    seen.append(error)
                await one.bell.rest(INTERVAL / 5)
    assert found is not None
    assert found.version == 3
    assert [type(error) for error in seen] == [NotFound, Unavailable, Unavailable]
    assert "RuntimeError" in str(seen[-1])
    one.leave()


async def test_one_table_that_hangs_holds_up_no_other(feed: TableFeed) -> None:
    stuck, good = Log(seconds=60), Log()
    one, other = Waiter(feed, "main.silver.stuck", stuck), Waiter(feed, "main.silver.good", good)
    await other.until(3)
    await eventually(lambda: len(good.looks) > 3)
    one.leave()
    other.leave()


async def test_looks_are_bounded_in_number_and_spread(feed: TableFeed) -> None:
    feed = TableFeed(at_once=4)
    log = Log(seconds=0.002)
    waiters = [Waiter(feed, f"main.silver.t{n}", log, interval=0.5) for n in range(60)]
    await asyncio.gather(*(one.until(3, known=3) for one in waiters))
    assert log.busiest <= 4
    await eventually(lambda: len(log.looks) >= 60 * 4)
    third = sorted(at - log.at[0] for at in log.at[180:240])
    assert max(later - earlier for earlier, later in pairwise(third)) < 0.3
    assert third[-1] - third[0] > 0.2, "sixty looks do not come in one moment"
    for one in waiters:
        one.leave()


async def test_another_table_under_the_name_is_told_at_once_and_looked_up_anew(feed: TableFeed) -> None:
    log = Log(version=9)
    one = Waiter(feed, "main.silver.flights", log)
    await one.until(9, known=9)
    log.version, log.table_id = 1, "two"
    async with asyncio.timeout(10):
        while (found := await one.table.latest(9)) is None or found.table_id != "two":
            await one.bell.rest(60)
    assert found.version == 1
    assert log.opened == 2
    one.leave()


async def test_the_most_eager_sets_the_pace(feed: TableFeed) -> None:
    log = Log()
    lazy = Waiter(feed, "main.silver.flights", log, interval=600)
    await lazy.until(3)
    eager = Waiter(feed, "main.silver.flights", log)
    await eventually(lambda: len(log.looks) >= 4)
    eager.leave()
    lazy.leave()


async def test_another_way_to_ask_is_another_poll() -> None:
    plain = DeltaTable("main.silver.flights", "ops", alias="a")
    assert key_of(plain) == key_of(DeltaTable("main.silver.flights", "ops", read_as="x.y.z", alias="b"))
    assert key_of(plain) != key_of(DeltaTable("main.silver.flights", "ops", via="catalog"))
    assert key_of(plain) != key_of(DeltaTable("main.silver.flights", "gold"))


async def test_commits_and_gaps_are_asked_of_the_table_itself(feed: TableFeed) -> None:
    one = Waiter(feed, "main.silver.flights", Log())
    assert [commit.version async for commit in one.table.commits(1, 3)] == [2, 3]
    assert await one.table.gap(1, 3) == "1 3"
    one.leave()


async def test_a_look_under_way_ends_with_the_last_who_waits(feed: TableFeed) -> None:
    stuck, other = Log(seconds=60), Log()
    one, stays = Waiter(feed, "main.silver.stuck", stuck), Waiter(feed, "main.silver.good", other)
    await eventually(lambda: stuck.busy)
    one.leave()
    await eventually(lambda: len([t for t in asyncio.all_tasks() if t.get_name() == "databricks-bridge look"]) == 0)
    await stays.until(3)
    stays.leave()
