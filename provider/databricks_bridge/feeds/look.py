"""Looking at the sources of a subscription: cheap, no compute, nothing remembered that matters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Self

from databricks_bridge.core.errors import BridgeError, SourceError
from databricks_bridge.core.left_out import LeftOut
from databricks_bridge.core.pending import Finding, RunsFinding, TableFinding
from databricks_bridge.core.policy import Condition
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.sources import DeltaTable, Source, TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.delta.model import Ages, LatestVersion, Readable, VersionSource
from databricks_bridge.feeds.polls import gathered, wakes_a_warehouse
from databricks_bridge.feeds.runs import LiveRuns, look_at_runs
from databricks_bridge.feeds.shares import open_reader, reader_version
from databricks_bridge.feeds.tables import Key, key_of
from databricks_bridge.feeds.versions import data_at, source_of
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

WARN_AT_SHARE = 0.8
"""When so much of the time has passed in which a batch can read what is pending, it is said."""

GAP_KEPT = timedelta(minutes=10)
"""For so long it is believed that a range can be read: what is pending ages, and logs are cleaned."""

OpenWorkspace = Callable[[str], Awaitable[Workspace]]
"""A workspace client from the name of its Airflow connection."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Looker:
    """Keeps one client for each workspace and one version source for each table, as long as it is open.


    :param open_workspace: opens the client of a connection.
    :param now: an aware time.
    """

    patience = 30.0
    """Seconds that sources which answered wait for the others."""

    def __init__(self, open_workspace: OpenWorkspace, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now
        self._readable: dict[tuple[Key, int], Readable | None] = {}
        self.open_workspace = open_workspace
        self._workspaces: dict[str, Workspace] = {}
        self._tables: dict[Key, VersionSource] = {}
        self._gaps: dict[tuple[Key, int, int, bool], tuple[datetime, str | None]] = {}
        self._readers: dict[DeltaTable, VersionSource | None] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._failing: dict[str, datetime] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def workspace(self, databricks_conn_id: str) -> Workspace:
        """The open client of this connection."""
        async with self._turns.setdefault(databricks_conn_id, asyncio.Lock()):
            if databricks_conn_id not in self._workspaces:
                client = await self.open_workspace(databricks_conn_id)
                self._workspaces[databricks_conn_id] = await self._stack.enter_async_context(client)
            return self._workspaces[databricks_conn_id]

    async def look(
        self, spec: SubscriptionSpec, watermarks: Mapping[str, Position], *, thorough: bool = False
    ) -> dict[str, Finding]:
        """The findings of all sources by alias; `thorough` asks too whether what is new can still be read, commit by commit.

        With ANY_UPDATED a source that gives no answer, or none in `patience` seconds after another did, is left out of it. Raises
        what a source raises (NotFound, NotPermitted, Unavailable) with ALL_UPDATED, and where none answers; a SourceError always.
        """
        alone = spec.policy.condition is Condition.ALL_UPDATED or len(spec.sources) == 1
        # Runs before the tables that they write: what a run that is over has written is there when its tables are looked at.
        over = {one.alias: asyncio.Event() for one in spec.sources if isinstance(one, TriggeredRuns)}
        first = sorted(spec.sources, key=lambda one: isinstance(one, DeltaTable))
        polls = {one.alias: self._poll(spec, one, watermarks.get(one.alias), over, thorough=thorough) for one in first}
        wakes = {one.alias for one in spec.sources if isinstance(one, DeltaTable) and wakes_a_warehouse(one)}
        found = await gathered(polls, None if alone else self.patience, never_cut=wakes)
        errors = {one.alias: error for one in spec.sources if isinstance(error := found[one.alias], BridgeError)}
        if errors and (
            alone or len(errors) == len(found) or any(isinstance(one, SourceError) for one in errors.values())
        ):
            raise next((one for one in errors.values() if isinstance(one, SourceError)), next(iter(errors.values())))
        now = self._now()
        self._failing = {alias: self._failing.get(alias, now) for alias in errors}
        return {
            alias: LeftOut(one, self._failing[alias]) if isinstance(one, BridgeError) else one
            for alias, one in found.items()
        }

    async def _poll(
        self,
        spec: SubscriptionSpec,
        source: Source,
        mark: Position | None,
        over: Mapping[str, asyncio.Event],
        *,
        thorough: bool,
    ) -> Finding:
        if isinstance(source, TriggeredRuns):
            try:
                return await self._look_at_runs(source, mark)
            finally:
                over[source.alias].set()
        for one in spec.sources:
            if isinstance(one, TriggeredRuns) and source in one.writes:
                await over[one.alias].wait()
        return await self._look_at_table(source, mark, thorough, spec.max_commits_per_run)

    async def _look_at_runs(self, source: TriggeredRuns, mark: Position | None) -> RunsFinding:
        return await look_at_runs(LiveRuns(await self.workspace(source.databricks_conn_id)), source, mark)

    async def _look_at_table(
        self, source: DeltaTable, mark: Position | None, thorough: bool, most: int | None = None
    ) -> TableFinding:
        known = mark.at if isinstance(mark, TablePosition) and mark.version >= 0 else None
        latest = await (await self.table(source)).latest(known)
        if known is not None and (latest is None or latest.version < known):
            # The name may belong to another table by now, in another place and with another id.
            self._tables.pop(key_of(source), None)
            latest = await (await self.table(source)).latest(known)
        if latest is None:
            return TableFinding(None, None, None)
        position = TablePosition(latest.version, latest.table_id, latest.metadata_id, latest.fingerprint)
        gap = ageing = None
        if thorough and known is not None and latest.data_version is not None:
            # no further than the next range: a long backlog would be read through again for each of its ranges
            to = latest.version if most is None else min(latest.version, known + most)
            gap = await self._gap(source, known, to)
            ageing = await self._ageing(source, known) if gap is None else None
        there = await self._reader_version(source, latest) if latest.data_version is not None else None
        changed_at = latest.committed_at if latest.data_version is None else data_at(latest)
        return TableFinding(position, latest.data_version, changed_at, latest.known_fingerprint, gap, there, ageing)

    async def _reader_version(self, source: DeltaTable, latest: LatestVersion) -> int | None:
        if source not in self._readers:
            self._readers[source] = await open_reader(self.workspace, source)
        reader = self._readers[source]
        return None if reader is None else await reader_version(reader, latest)

    async def _gap(self, source: DeltaTable, known: int, to: int) -> str | None:
        stream = source.reads == "stream"
        key = (key_of(source), known, to, stream)
        kept = self._gaps.get(key)
        if kept is None or self._now() - kept[0] >= GAP_KEPT:
            table = await self.table(source)
            gap = await (table.gap(known, to, stream=True) if stream else table.gap(known, to))
            kept = self._gaps[key] = (self._now(), gap)
        return kept[1]

    async def _ageing(self, source: DeltaTable, known: int) -> str | None:
        """Says, in the log too, that what is new cannot be read for much longer."""
        table = await self.table(source)
        if source.reads == "stream" or not isinstance(table, Ages):
            return None
        key = (key_of(source), known)
        if key not in self._readable:
            self._readable[key] = await table.readable_until(known)
        readable = self._readable[key]
        if readable is None or readable.share(self._now()) < WARN_AT_SHARE:
            return None
        words = f"version {readable.version} can be read by a batch until {readable.until.isoformat()} only"
        log.warning(
            "%s: %s; it is pending since %s. After that it is a history gap: let its run start, or set "
            "delta.deletedFileRetentionDuration of the table higher",
            source.table,
            words,
            readable.since.isoformat(),
        )
        return words

    def keep(self, source: DeltaTable, table: VersionSource) -> None:
        """Ask this one for the versions of a table, instead of opening it."""
        self._tables[key_of(source)] = table

    async def table(self, source: DeltaTable) -> VersionSource:
        """Who is asked for the versions of this table."""
        key = key_of(source)
        if key not in self._tables:
            self._tables[key] = await source_of(await self.workspace(source.databricks_conn_id), source)
        return self._tables[key]
