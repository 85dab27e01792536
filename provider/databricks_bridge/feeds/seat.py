"""One waiter's place at the feeds, and a look at a subscription's sources from there."""

from __future__ import annotations

import asyncio
from functools import partial

from databricks_bridge.core.pending import RunsFinding
from databricks_bridge.core.positions import Position
from databricks_bridge.core.sources import DeltaTable, TriggeredRuns
from databricks_bridge.delta.model import VersionSource
from databricks_bridge.feeds.hub import hub_of_this_loop
from databricks_bridge.feeds.look import Looker, OpenWorkspace
from databricks_bridge.feeds.rounds import Bell
from databricks_bridge.feeds.run_feed import FeedRuns, RunFeed
from databricks_bridge.feeds.runs import look_at_runs
from databricks_bridge.feeds.tables import FeedTable, Key, key_of, place_of
from databricks_bridge.feeds.versions import source_of
from databricks_bridge.workspace.client import Workspace

_END_SECONDS = 5.0
"""A look that nobody waits for any more may take so long to end."""


class Seat:
    """One waiter's place at the feeds of the event loop in which it is made. Close it when the wait is over.

    `poll_interval` is in seconds. A connection that is open is shared, whoever opened it.
    """

    def __init__(self, open_workspace: OpenWorkspace, poll_interval: float) -> None:
        self._open = open_workspace
        self._hub = hub_of_this_loop()
        self._bell = Bell(poll_interval)
        self._workspaces: dict[str, Workspace] = {}
        self._tables: dict[Key, FeedTable] = {}
        self._runs: dict[str, FeedRuns] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def rest(self, seconds: float) -> None:
        """Until something that this seat watches has changed, at most so long."""
        await self._bell.rest(seconds)

    async def workspace(self, databricks_conn_id: str) -> Workspace:
        """The shared client of this connection; the seat gives it back."""
        async with self._turn_of(databricks_conn_id):
            if databricks_conn_id not in self._workspaces:
                opened = await self._hub.workspaces.take(databricks_conn_id, partial(self._open, databricks_conn_id))
                self._workspaces[databricks_conn_id] = opened
            return self._workspaces[databricks_conn_id]

    def _turn_of(self, databricks_conn_id: str) -> asyncio.Lock:
        """One at a time for each connection: one that is slow to open holds up no other."""
        return self._turns.setdefault(databricks_conn_id, asyncio.Lock())

    async def table(self, table: DeltaTable) -> VersionSource:
        """The table as the feed knows it: at most one interval old."""
        key = key_of(table)
        if key not in self._tables:
            workspace = await self.workspace(table.databricks_conn_id)
            self._tables[key] = self._hub.tables.join(key, _Opens(workspace, table), self._bell, place=place_of(table))
        return self._tables[key]

    async def runs(self, databricks_conn_id: str) -> FeedRuns:
        """The runs of the workspace as the feed knows them."""
        workspace = await self.workspace(databricks_conn_id)
        async with self._turn_of(databricks_conn_id):
            if databricks_conn_id not in self._runs:

                async def opened() -> RunFeed:
                    return RunFeed(workspace)

                feed = await self._hub.runs.take(databricks_conn_id, opened)
                self._runs[databricks_conn_id] = feed.join(self._bell)
            return self._runs[databricks_conn_id]

    async def close(self) -> None:
        """Leaves everything. What nobody else uses is closed. May be called twice."""
        tables, runs, workspaces = self._tables, self._runs, self._workspaces
        self._tables, self._runs, self._workspaces = {}, {}, {}
        ending = [look for key in tables if (look := self._hub.tables.leave(key, self._bell)) is not None]
        if ending:
            # a look that is given up may have something to take back, a statement on a warehouse say, by the client that is closed next
            await asyncio.wait(ending, timeout=_END_SECONDS)
        for databricks_conn_id, place in runs.items():
            place.leave()
            await self._hub.runs.give_back(databricks_conn_id)
        for databricks_conn_id in workspaces:
            await self._hub.workspaces.give_back(databricks_conn_id)


class _Opens:
    """Opens the source of a table. A triggerer may hold many thousands, and a `partial` takes three times the memory."""

    __slots__ = ("_table", "_workspace")

    def __init__(self, workspace: Workspace, table: DeltaTable) -> None:
        self._workspace, self._table = workspace, table

    async def __call__(self) -> VersionSource:
        return await source_of(self._workspace, self._table)


class FeedLooker(Looker):
    """A looker whose answers come from the feeds of its seat, from memory."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat.workspace)
        self.seat = seat

    async def workspace(self, databricks_conn_id: str) -> Workspace:
        """The shared client of this connection."""
        return await self.seat.workspace(databricks_conn_id)

    async def table(self, source: DeltaTable) -> VersionSource:
        """The table as the feed of this process knows it."""
        return await self.seat.table(source)

    async def _look_at_runs(self, source: TriggeredRuns, mark: Position | None) -> RunsFinding:
        return await look_at_runs(await self.seat.runs(source.databricks_conn_id), source, mark)
