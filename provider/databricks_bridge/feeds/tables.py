"""The one feed of versions on an event loop: each table is polled once an interval, however many wait for it.

Looks are spread over the interval, and bounded in number for each workspace and store: one that hangs holds up its own
tables alone. A look that finds something rings for all who wait for that table; they then ask, and are answered from memory.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass, fields
from functools import partial
from itertools import count
from typing import Any, TypeAlias

from databricks_bridge.core.errors import BridgeError, Unavailable
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.delta.model import CommitSummary, LatestVersion, VersionSource
from databricks_bridge.delta.turn import Turn
from databricks_bridge.feeds.lanes import Lane, Lanes
from databricks_bridge.feeds.rounds import Bell, Timing, again, in_background

log = logging.getLogger(__name__)

LOOKS_AT_ONCE = 32
"""Of one workspace, and of one store by the credentials of one workspace."""

_ANSWERS_MAX = 64

OpenSource = Callable[[], Awaitable[VersionSource]]
Key: TypeAlias = tuple[Any, ...]

_NOT_ASKED = frozenset({"alias", "start", "read_as", "reader_profile", "reader_conn_id", "reader_warehouse"})
"""What a subscription makes of the answer. A field that is new to us decides the answer until it is named here."""
_ASKED = tuple(one.name for one in fields(DeltaTable) if one.name not in _NOT_ASKED)


def key_of(table: DeltaTable) -> Key:
    """What makes two tables one poll: who is asked for what, and how; not under which alias.

    :param table: the source as its author wrote it.
    """
    return tuple(getattr(table, name) for name in _ASKED)


def place_of(table: DeltaTable) -> Hashable:
    """Who answers a poll of this table first: its workspace, its warehouse there, or the server of its profile.

    :param table: the source as its author wrote it.
    """
    return table.profile or (table.databricks_conn_id, table.warehouse)


@dataclass(eq=False, slots=True)
class Watched:
    """One table under watch. `answers` are what `known` was answered with since the newest version was found."""

    open_source: OpenSource
    lane: Lane
    bells: tuple[Bell, ...] = ()
    source: VersionSource | None = None
    last: LatestVersion | None = None
    answers: tuple[tuple[int | None, LatestVersion | None], ...] = ()
    error: BridgeError | None = None
    looks: int = 0
    due: float = 0.0
    reopen_at: float = 0.0
    first_known: int | None = None
    first: asyncio.Event | None = None
    over: asyncio.Future[None] | None = None
    look: asyncio.Task[None] | None = None

    @property
    def interval(self) -> float:
        """Seconds between two looks: as often as the most eager wants it."""
        return min(bell.interval for bell in self.bells)

    async def opened(self) -> VersionSource:
        if self.source is None:
            self.source = await self.open_source()
        return self.source

    def take(self, known: int | None, found: LatestVersion | None) -> bool:
        """Remembers what was found above `known`; whether it is another position than before."""
        moved = _position(found) != _position(self.last)
        if moved:
            self.answers = ()
        self.keep(known, found)
        self.last, self.error = found, None
        return moved

    def keep(self, known: int | None, found: LatestVersion | None) -> None:
        """Remembers an answer: nearly always there is one, for all have seen the same."""
        others = tuple(one for one in self.answers if one[0] != known)
        self.answers = (*others[-_ANSWERS_MAX:], (known, found))

    def answer(self, known: int | None) -> tuple[LatestVersion | None] | None:
        """What was answered to this question, in a tuple; None where it was not asked yet."""
        return next(((found,) for asked, found in self.answers if asked == known), None)


class TableFeed:
    """All tables under watch on one event loop. Sources are opened in it and forgotten with the last who waits."""

    def __init__(self, timing: Timing | None = None, *, at_once: int = LOOKS_AT_ONCE) -> None:
        self._timing = timing or Timing()
        self._tables: dict[Key, Watched] = {}
        self._due: list[tuple[float, int, Watched]] = []
        self._order = count()
        self._lanes = Lanes(at_once)
        self._news = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._looks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tables)

    def join(self, key: Key, open_source: OpenSource, bell: Bell, *, place: Hashable = "") -> FeedTable:
        """Watches a table for one more; its first look is due at once. May be called again by the same.

        :param key: what makes two tables one poll, see `key_of`.
        :param open_source: opens who is asked for the versions; called at the first look.
        :param bell: who waits.
        :param place: who is asked, see `place_of`; its store is learnt when the source is open.
        """
        watched = self._tables.get(key)
        if watched is None:
            watched = self._tables[key] = Watched(open_source, self._lanes.to(place))
            self._plan(watched, self._timing.clock())
        if bell not in watched.bells:
            watched.bells = (*watched.bells, bell)
        if (soon := self._timing.clock() + bell.interval) < watched.due:
            self._plan(watched, soon)
        if self._runner is None or self._runner.done():
            self._runner = in_background(self._run(), "databricks-bridge version feed")
        return FeedTable(self, watched)

    def leave(self, key: Key, bell: Bell) -> asyncio.Task[None] | None:
        """One less who waits for this table. After the last one nothing of it is polled, or kept.

        Returns the look that was under way for the last one, which is cancelled: wait for it before its client is closed.

        :param key: as it was joined.
        :param bell: who waited.
        """
        watched = self._tables.get(key)
        if watched is None:
            return None
        if bell in watched.bells:
            watched.bells = tuple(one for one in watched.bells if one is not bell)
        if not watched.bells:
            del self._tables[key]
        if not self._tables:
            self._stop()
        if watched.bells or watched.look is None:
            return None
        watched.look.cancel()
        return watched.look

    async def latest(self, watched: Watched, known: int | None) -> LatestVersion | None:
        """The answer of `VersionSource.latest`, from memory where it is there. Raises what the last look raised."""
        if not watched.looks:
            watched.first_known = known
            watched.first = watched.first or asyncio.Event()
            await watched.first.wait()
        if watched.error is not None:
            raise again(watched.error)
        if known is not None and (watched.last is None or watched.last.version < known):
            await self._reopen(watched)
        if (found := watched.answer(known)) is not None:
            return found[0]
        async with watched.lane, Turn(watched):
            # with the turn held no look changes what these answers are of
            if (found := watched.answer(known)) is None:
                found = (await (await watched.opened()).latest(known),)
                watched.keep(known, found[0])
        return found[0]

    async def _reopen(self, watched: Watched) -> None:
        """Opens the source anew, once an interval: the name may belong to another table by now, in another place."""
        now = self._timing.clock()
        if now < watched.reopen_at or not watched.bells:
            return
        watched.reopen_at = now + watched.interval
        async with watched.lane, Turn(watched):
            watched.source = None
            source = await watched.opened()
            watched.lane = self._lane_of(watched)
            watched.take(None, await source.latest(None))

    def _plan(self, watched: Watched, due: float) -> None:
        watched.due = due
        heapq.heappush(self._due, (due, next(self._order), watched))
        self._news.set()

    async def _run(self) -> None:
        while self._tables:
            self._news.clear()
            left = self._due[0][0] - self._timing.clock() if self._due else None
            if left is None or left > 0:
                await self._nap(left)
                continue
            due, _, watched = heapq.heappop(self._due)
            if due != watched.due or not watched.bells:
                continue  # planned otherwise since, or left
            self._begin(watched)

    def _begin(self, watched: Watched) -> None:
        watched.lane.begin(partial(self._start, watched, watched.lane))

    def _start(self, watched: Watched, lane: Lane) -> bool:
        if not watched.bells:
            return False  # the last one left while the look waited for its slot
        look = in_background(self._look(watched, lane), "databricks-bridge look")
        watched.look = look
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)
        return True

    def _lane_of(self, watched: Watched) -> Lane:
        """Of the store, once the source is open and says which it is."""
        return self._lanes.to(watched.lane.place, getattr(watched.source, "store", ""))

    async def _nap(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _look(self, watched: Watched, lane: Lane) -> None:
        """One look, in a slot of `lane` that is taken. Nothing that a source does ends the feed."""
        moved = False
        try:
            async with Turn(watched):
                source = await watched.opened()
                watched.lane = self._lane_of(watched)
                if watched.lane is not lane:
                    return self._begin(watched)  # the store has slots of its own
                known = watched.first_known if watched.last is None else watched.last.version
                moved = watched.take(known, await source.latest(known))
        except BridgeError as error:
            watched.error = error
        except Exception as error:
            log.exception("a look failed in a way new to us; looking again")
            watched.error = Unavailable(f"a look failed with {type(error).__name__}; looking again")
        finally:
            lane.done()
        watched.look = None
        watched.looks += 1
        if watched.first is not None:
            watched.first.set()
            watched.first = None
        if moved and watched.looks > 1:
            for bell in watched.bells:
                bell.ring()
        if watched.bells:
            # the second look comes at a random moment, and the rest keep that distance from one another
            interval, now = watched.interval, self._timing.clock()
            step = interval * self._timing.random() if watched.looks == 1 else interval
            self._plan(watched, max(now, watched.due + step) if watched.looks > 1 else now + step)

    def _stop(self) -> None:
        for task in (self._runner, *self._looks):
            if task is not None:
                task.cancel()
        self._runner = None
        self._due.clear()


class FeedTable:
    """A table as one who waits sees it; a VersionSource."""

    __slots__ = ("_feed", "_watched")

    def __init__(self, feed: TableFeed, watched: Watched) -> None:
        self._feed, self._watched = feed, watched

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """See `VersionSource.latest`: at most one interval old."""
        return await self._feed.latest(self._watched, known)

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """See `VersionSource.commits`."""
        async for commit in (await self._watched.opened()).commits(from_exclusive, to_inclusive):
            yield commit

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        """See `VersionSource.gap`."""
        return await (await self._watched.opened()).gap(
            from_exclusive, to_inclusive, **({"stream": True} if stream else {})
        )


def _position(found: LatestVersion | None) -> tuple[object, ...] | None:
    return None if found is None else (found.version, found.table_id, found.metadata_id, found.fingerprint)
