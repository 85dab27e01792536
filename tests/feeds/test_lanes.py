"""A workspace or a store that accepts and never answers holds up its own tables, and no others (T30, T46)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.delta.locations import parse_location
from databricks_bridge.delta.model import VersionSource
from databricks_bridge.feeds.lanes import Lane
from databricks_bridge.feeds.rounds import Bell, Timing
from databricks_bridge.feeds.tables import LOOKS_AT_ONCE, TableFeed, key_of, place_of
from tests.feeds.test_tables import INTERVAL, Log, eventually

HANG = 60.0
MANY = LOOKS_AT_ONCE + 8


@dataclass
class Stored(Log):
    """A table of which the store is known once it is open; `slow_to_open` hangs before."""

    store: str = ""
    slow_to_open: float = 0.0

    async def open(self) -> VersionSource:
        await asyncio.sleep(self.slow_to_open)
        return await super().open()


class Waits:
    """Who waits for tables of one feed, and leaves them all."""

    def __init__(self, feed: TableFeed) -> None:
        self.feed, self.bell = feed, Bell(INTERVAL)
        self.tables: list[DeltaTable] = []

    def join(self, log: Log, conn_id: str, count: int = 1) -> None:
        for _ in range(count):
            table = DeltaTable(f"main.silver.t{len(self.tables)}", conn_id)
            self.tables.append(table)
            self.feed.join(key_of(table), log.open, self.bell, place=place_of(table))

    def leave(self) -> list[asyncio.Task[None]]:
        ended = [self.feed.leave(key_of(table), self.bell) for table in self.tables]
        self.tables = []
        return [look for look in ended if look is not None]


@pytest.fixture
async def waits() -> AsyncIterator[Waits]:
    made = Waits(TableFeed(Timing(random=lambda: 0.5)))
    yield made
    if looks := made.leave():
        await asyncio.wait(looks)


async def test_a_workspace_that_hangs_holds_up_no_other(waits: Waits) -> None:
    down, up = Stored(slow_to_open=HANG), Stored()
    waits.join(down, "down", MANY)
    waits.join(up, "up")
    await eventually(lambda: len(up.looks) > 3)
    assert down.looks == []


async def test_a_store_that_hangs_holds_up_no_other_of_the_same_workspace(waits: Waits) -> None:
    down, up = Stored(store="s3:///down", seconds=HANG), Stored(store="s3:///up")
    waits.join(down, "ops", MANY)
    await eventually(lambda: down.busy == LOOKS_AT_ONCE)
    waits.join(up, "ops")
    await eventually(lambda: len(up.looks) > 3)
    assert len(down.looks) == LOOKS_AT_ONCE, "its own bound holds"


async def test_the_same_store_by_two_workspaces_has_slots_for_each(waits: Waits) -> None:
    down, up = Stored(store="s3:///lake", seconds=HANG), Stored(store="s3:///lake")
    waits.join(down, "one", MANY)
    await eventually(lambda: down.busy == LOOKS_AT_ONCE)
    waits.join(up, "two")
    await eventually(lambda: len(up.looks) > 3)


async def test_a_poll_that_waits_for_its_slot_does_not_run_after_the_last_one_left(waits: Waits) -> None:
    down, queued, other = Stored(slow_to_open=HANG), Stored(), Stored()
    waits.join(other, "up")
    stuck = Waits(waits.feed)
    stuck.join(down, "down", LOOKS_AT_ONCE)
    await eventually(lambda: other.looks)
    late = Waits(waits.feed)
    late.tables = [DeltaTable("main.silver.padding", "down")] * (LOOKS_AT_ONCE + 1)  # its table has a name of its own
    late.join(queued, "down")
    await eventually(lambda: len(other.looks) > 2)
    assert late.leave() == [], "nothing of it is under way"
    looks = stuck.leave()
    assert len(looks) == LOOKS_AT_ONCE
    await asyncio.wait(looks)
    assert all(look.cancelled() for look in looks)
    seen = len(other.looks)
    await eventually(lambda: len(other.looks) > seen + 2)
    assert queued.opened == 0


async def test_a_slot_that_comes_as_its_wait_is_cancelled_goes_to_the_next() -> None:
    lane = Lane(1)
    await lane.__aenter__()
    entered: list[int] = []

    async def enter(number: int) -> None:
        async with lane:
            entered.append(number)

    first, second, third = (asyncio.create_task(enter(n)) for n in range(3))
    await asyncio.sleep(0)
    second.cancel()  # in the queue
    await asyncio.sleep(0)
    lane.done()  # to the first
    first.cancel()  # which has it, and has not run yet
    async with asyncio.timeout(5):
        await third
    assert entered == [2]


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (DeltaTable("a.b.c", "ops"), ("ops", None)),
        (DeltaTable("a.b.c", "ops", via="catalog"), ("ops", None)),
        (DeltaTable("a.b.c", "ops", via="sql", warehouse="nightly"), ("ops", "nightly")),
        (DeltaTable("a.b.c", "ops", via="sharing", profile="/srv/p"), "/srv/p"),
    ],
)
def test_the_place_is_who_answers(table: DeltaTable, place: object) -> None:
    assert place_of(table) == place


def test_a_store_is_its_bucket_and_account() -> None:
    assert (
        parse_location("s3a://lake/a/b").store
        == parse_location("s3://lake/c").store
        != parse_location("gs://lake").store
    )
    assert (
        parse_location("abfss://c@one.dfs.core.windows.net/a").store
        != parse_location("abfss://c@two.dfs.core.windows.net/a").store
    )
