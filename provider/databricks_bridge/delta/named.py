"""A table that Unity Catalog knows by name, read from its log."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.checkpoint import FileCounts
from databricks_bridge.core.errors import InvalidArgument, NotAuthenticated, NotFound, NotPermitted
from databricks_bridge.delta.entries import entry_of
from databricks_bridge.delta.identifiers import plain, split
from databricks_bridge.delta.locations import Kind, Location, parse_location
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.metadata import names_catalog_managed
from databricks_bridge.delta.model import CommitSummary, LatestVersion, Readable
from databricks_bridge.delta.turn import Turn
from databricks_bridge.delta.vending import TableStore

if TYPE_CHECKING:
    from databricks_bridge.workspace.client import Workspace

RECHECK = timedelta(hours=1)
"""How often a name is looked up where nothing calls for it: all tables of a schema at one time, so that it is listed once.

What this loses: a table that was dropped and made anew elsewhere, whose old files can still be read with credentials that
are still good, is told up to an hour late. Nothing runs on it meanwhile: a consumer looks its names up itself.
"""
_DAY_ONE = datetime(2026, 1, 1, tzinfo=UTC)
_DELTA_FORMATS = ("DELTA", "DELTA_UNIFORM_ICEBERG", "DELTA_UNIFORM_HUDI")
_NO_LOG = {
    "VIEW": "a view has no versions of its own; name the tables that it reads",
    "METRIC_VIEW": "a metric view has no versions of its own; name the tables that it reads",
    "MATERIALIZED_VIEW": "a materialized view's log cannot be read from outside; name the tables that it reads, or read "
    "its version by SQL (via='sql')",
    "STREAMING_TABLE": "a streaming table's log cannot be read from outside; name its source tables, wait for the "
    "pipeline's runs with TriggeredRuns, or read its version by SQL (via='sql')",
    "FOREIGN": "a foreign table lives in another system and has no Delta log here",
}


class NamedTable:
    """A table of Unity Catalog, by its log; a VersionSource.

    The name is looked up again each hour, and at once where the log is refused, gone or empty.
    """

    # a triggerer may hold many thousands
    __slots__ = ("_check_at", "_log", "_name", "_now", "_region_of", "_store", "_workspace", "over")

    def __init__(
        self,
        workspace: Workspace,
        full_name: str,
        *,
        now: Callable[[], datetime],
        region_of: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self._workspace, self._name, self._now, self._region_of = workspace, full_name, now, region_of
        self.over: asyncio.Future[None] | None = None
        self._check_at: datetime | None = None
        self._store: TableStore | None = None
        self._log: DeltaLog | None = None

    def __repr__(self) -> str:
        return f"NamedTable({self._name!r}, {self._workspace!r})"

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """See `VersionSource.latest`."""
        log, fresh = await self._current()
        try:
            found = await log.latest(known)
            if found is not None or fresh:
                return found
        except (NotAuthenticated, NotFound, NotPermitted):
            if fresh:
                raise
        # the table may have left this name, or the credentials may have been withdrawn early
        return await (await self.resolve()).latest(known)

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """See `VersionSource.commits`."""
        log, _ = await self._current()
        async for commit in log.commits(from_exclusive, to_inclusive):
            yield commit

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        """See `VersionSource.gap`."""
        log, _ = await self._current()
        return await log.gap(from_exclusive, to_inclusive, stream=stream)

    async def readable_until(self, from_exclusive: int) -> Readable | None:
        """See `Ages.readable_until`."""
        log, _ = await self._current()
        return await log.readable_until(from_exclusive)

    async def commit_files(self, version: int) -> FileCounts | None:
        """See `core.checkpoint.TableFiles`."""
        log, _ = await self._current()
        return await log.commit_files(version)

    async def snapshot_files(self, version: int) -> int | None:
        """See `core.checkpoint.TableFiles`."""
        log, _ = await self._current()
        return await log.snapshot_files(version)

    @property
    def store(self) -> str:
        """Where the log is, as far as a bound for each store asks; empty until the name was looked up."""
        return self._store.location.store if self._store is not None else ""

    async def resolve(self) -> DeltaLog:
        """Looks the name up in the catalog, now, and asks for new credentials at the next look."""
        async with Turn(self):
            if self._store is not None:
                self._store.forget()
            return await self._resolve()

    def adopt(self, entry: dict[str, Any]) -> DeltaLog:
        """Takes an entry of the catalog that was read just now. Raises InvalidArgument when its log cannot be read."""
        location = readable_location(self._name, entry)
        table_id = str(entry.get("table_id") or "")
        store = self._store
        if self._log is None or store is None or (table_id, location) != (store.table_id, store.location):
            self._store = TableStore(self._workspace, table_id, location, now=self._now, region_of=self._region_of)
            self._log = DeltaLog(self._store, self._name, table_id=table_id or None, now=self._now)
        self._check_at = next_check(self._now(), self._name)
        return self._log

    async def _current(self) -> tuple[DeltaLog, bool]:
        async with Turn(self):
            if (
                self._log is None
                or self._check_at is None
                or not timedelta(0) <= self._check_at - self._now() <= RECHECK
            ):
                return self.adopt(await entry_of(self._workspace, self._name)), True
            return self._log, False

    async def _resolve(self) -> DeltaLog:
        return self.adopt(await self._workspace.get_table(plain(self._name)))


def next_check(now: datetime, name: str) -> datetime:
    """When the name is to be looked up again: once in `RECHECK`, at a moment of its schema's own."""
    schema = ".".join(split(name)[:2])
    return _moment(schema, (now - _DAY_ONE - _phase(schema)) // RECHECK + 1)


@lru_cache(maxsize=1024)
def _moment(schema: str, number: int) -> datetime:
    """One object for all tables of a schema."""
    return _DAY_ONE + _phase(schema) + number * RECHECK


@lru_cache(maxsize=1024)
def _phase(schema: str) -> timedelta:
    return RECHECK * (int.from_bytes(hashlib.sha256(schema.encode()).digest()[:4], "big") / 2**32)


def catalog_managed(entry: dict[str, Any]) -> bool:
    """Whether the catalog, not the log, knows this table's newest commits."""
    return names_catalog_managed(entry.get("properties") or {})


def readable_location(name: str, entry: dict[str, Any]) -> Location:
    """Where the log of this catalog entry is. Raises InvalidArgument when there is none that we may read."""
    if catalog_managed(entry):
        raise refused(
            name,
            "it is catalog-managed (table feature catalogManaged): its newest commits are known to "
            "Unity Catalog alone, and its log in storage may lag behind; read its version from the catalog "
            "(via='catalog') or by SQL (via='sql')",
        )
    return storage_of(name, entry)


def storage_of(name: str, entry: dict[str, Any]) -> Location:
    """Where the files of this catalog entry are, whoever knows its commits. Raises InvalidArgument."""
    kind, form = str(entry.get("table_type")), str(entry.get("data_source_format"))
    if form in ("DELTASHARING", "DELTA_SHARING"):
        raise refused(
            name,
            "it is shared with this metastore, and its log stays with its provider; name the provider's "
            "table and connection, and this name as read_as",
        )
    if kind in _NO_LOG:
        raise refused(name, _NO_LOG[kind])
    if form not in _DELTA_FORMATS:
        raise refused(name, f"its format is {form}, not DELTA, and only Delta tables have a Delta log")
    if not entry.get("storage_location"):
        raise refused(name, f"the catalog gives no storage_location for this {kind} table")
    location = parse_location(str(entry["storage_location"]))
    if location.kind is not Kind.FILE and (
        entry.get("row_filter") or any(column.get("mask") for column in entry.get("columns") or [])
    ):
        raise refused(
            name,
            "it has a row filter or a column mask, and Unity Catalog gives no storage credentials for "
            "such tables; read its version by SQL (via='sql')",
        )
    return location


def refused(name: str, why: str) -> InvalidArgument:
    """The error for a table whose log cannot be read."""
    return InvalidArgument(f"the version of {name} cannot be read from its log: {why}")
