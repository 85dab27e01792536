"""Looking at the sources of a subscription: cheap, no compute, nothing remembered that matters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Self

from databricks_bridge.core.pending import Finding, TableFinding
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.delta.model import VersionSource
from databricks_bridge.feeds.runs import look_at_runs
from databricks_bridge.feeds.versions import source_of
from databricks_bridge.workspace.client import Workspace

OpenWorkspace = Callable[[str], Awaitable[Workspace]]
"""A workspace client from the name of its Airflow connection."""


class Looker:
    """Keeps one client for each workspace and one version source for each table, as long as it is open."""

    def __init__(self, open_workspace: OpenWorkspace) -> None:
        self._open_workspace = open_workspace
        self._workspaces: dict[str, Workspace] = {}
        self._tables: dict[tuple[str, str], VersionSource] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def workspace(self, databricks_conn_id: str) -> Workspace:
        """The open client of this connection."""
        if databricks_conn_id not in self._workspaces:
            client = await self._open_workspace(databricks_conn_id)
            self._workspaces[databricks_conn_id] = await self._stack.enter_async_context(client)
        return self._workspaces[databricks_conn_id]

    async def look(self, spec: SubscriptionSpec, watermarks: Mapping[str, Position]) -> dict[str, Finding]:
        """The findings of all sources by alias. Raises what a source raises: NotFound, NotPermitted, Unavailable."""
        findings: dict[str, Finding] = {}
        for source in spec.sources:
            mark = watermarks.get(source.alias)
            if isinstance(source, DeltaTable):
                findings[source.alias] = await self._look_at_table(source, mark)
            else:
                findings[source.alias] = await look_at_runs(
                    await self.workspace(source.databricks_conn_id), source, mark
                )
        return findings

    async def _look_at_table(self, source: DeltaTable, mark: Position | None) -> TableFinding:
        known = mark.version if isinstance(mark, TablePosition) and mark.version >= 0 else None
        latest = await (await self._table(source)).latest(known)
        if known is not None and (latest is None or latest.version < known):
            # The name may belong to another table by now, in another place and with another id.
            del self._tables[source.databricks_conn_id, source.table]
            latest = await (await self._table(source)).latest(known)
        if latest is None:
            return TableFinding(None, None, None)
        position = TablePosition(latest.version, latest.table_id, latest.metadata_id, latest.fingerprint)
        return TableFinding(position, latest.data_version, latest.committed_at, latest.known_fingerprint)

    async def _table(self, source: DeltaTable) -> VersionSource:
        key = (source.databricks_conn_id, source.table)
        if key not in self._tables:
            self._tables[key] = await source_of(await self.workspace(source.databricks_conn_id), source)
        return self._tables[key]
