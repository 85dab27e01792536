"""From a table's name, or its storage location, to something that can be asked for its versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.errors import InvalidArgument, NotAuthenticated, NotFound, NotPermitted
from databricks_bridge.delta import credentials
from databricks_bridge.delta.locations import Kind, Location, is_location, open_folder, parse_location
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.model import CommitSummary, LatestVersion, VersionSource

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from databricks_bridge.workspace.client import Workspace

_RECHECK = timedelta(minutes=5)
_AHEAD = timedelta(minutes=5)
_DELTA_FORMATS = ("DELTA", "DELTA_UNIFORM_ICEBERG", "DELTA_UNIFORM_HUDI")
_CATALOG_MANAGED = ("delta.feature.catalogManaged", "delta.feature.catalogOwned-preview")
_NO_LOG = {
    "VIEW": "a view has no versions of its own; name the tables that it reads: {dependencies}",
    "METRIC_VIEW": "a metric view has no versions of its own; name the tables that it reads: {dependencies}",
    "MATERIALIZED_VIEW": "a materialized view's log cannot be read from outside; name its source tables: {dependencies}",
    "STREAMING_TABLE": "a streaming table's log cannot be read from outside; name its source tables, or wait for the "
    "pipeline's runs with TriggeredRuns",
    "FOREIGN": "a foreign table lives in another system and has no Delta log here",
}


def _now() -> datetime:
    return datetime.now(UTC)


async def open_table(
    workspace: Workspace | None,
    full_name: str,
    *,
    now: Callable[[], datetime] = _now,
    region_of: Callable[[str], Awaitable[str | None]] = credentials.bucket_region,
) -> VersionSource:
    """The versions of `catalog.schema.table`; an absolute path or a file: URL is opened without a workspace.

    The entry in the catalog is looked up now and again every five minutes, so that another table under the name
    shows as another `table_id`; storage credentials are renewed five minutes before they expire. Raises
    InvalidArgument for what has no Delta log that can be read (views, foreign, shared, catalog-managed tables),
    and NotFound, NotPermitted, NotAuthenticated, Unavailable. `now` (aware) and `region_of` (bucket to AWS region)
    are injected for tests.
    """
    if is_location(full_name):
        return _open_location(full_name)
    if workspace is None:
        raise InvalidArgument(f"{full_name!r} is a name in a catalog, and no workspace was given to look it up in")
    table = CatalogTable(workspace, full_name, now=now, region_of=region_of)
    await table.resolve()
    return table


def _open_location(text: str) -> DeltaLog:
    location = parse_location(text)
    if location.kind is not Kind.FILE:
        raise InvalidArgument(
            f"{text!r} cannot be opened by its location: give the table's name in Unity Catalog, which has the "
            "credentials for it; only folders of this machine are opened by path"
        )
    open_folder(location.path)

    async def folder() -> ObjectStore:
        return open_folder(location.path)

    return DeltaLog(folder, location.path)


class CatalogTable:
    """A table that Unity Catalog knows by name; a VersionSource."""

    def __init__(
        self,
        workspace: Workspace,
        full_name: str,
        *,
        now: Callable[[], datetime],
        region_of: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self._workspace, self._name, self._now, self._region_of = workspace, full_name, now, region_of
        self._turn = asyncio.Lock()
        self._checked: datetime | None = None
        self._table_id = ""
        self._location = Location(Kind.FILE, "", "", "")
        self._log: DeltaLog | None = None
        self._store: ObjectStore | None = None
        self._until: datetime | None = None
        self._region: str | None = None

    def __repr__(self) -> str:
        return f"CatalogTable({self._name!r}, {self._workspace!r})"

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

    async def resolve(self) -> DeltaLog:
        """Looks the name up in the catalog, now, and asks for new credentials at the next look."""
        async with self._turn:
            self._store = None
            return await self._resolve()

    async def _current(self) -> tuple[DeltaLog, bool]:
        async with self._turn:
            if self._log is None or self._checked is None or self._now() - self._checked >= _RECHECK:
                return await self._resolve(), True
            return self._log, False

    async def _resolve(self) -> DeltaLog:
        entry = await self._workspace.get_table(self._name)
        location = readable_location(self._name, entry)
        table_id = str(entry.get("table_id") or "")
        if self._log is None or (table_id, location) != (self._table_id, self._location):
            self._table_id, self._location, self._region, self._store = table_id, location, None, None
            self._log = DeltaLog(self._open_store, self._name, table_id=table_id or None)
        self._checked = self._now()
        return self._log

    async def _open_store(self) -> ObjectStore:
        if self._location.kind is Kind.FILE:
            return open_folder(self._location.path)
        now = self._now()
        if self._store is None or self._until is None or now >= self._until - _AHEAD:
            answer = await self._workspace.temporary_table_credentials(self._table_id)
            if self._location.kind is Kind.S3 and self._region is None:
                self._region = await self._find_region()
            self._until = credentials.expires(answer, now)
            self._store = credentials.open_store(self._location, answer, until=self._until, region=self._region)
        return self._store

    async def _find_region(self) -> str | None:
        """The bucket's region; where S3 does not tell, the metastore's, which is nearly always the same."""
        found = await self._region_of(self._location.bucket)
        if found is None:
            summary = await self._workspace.get("/api/2.1/unity-catalog/metastore_summary")
            found = str(summary["region"]) if summary.get("region") else None
        return found


def readable_location(name: str, entry: dict[str, Any]) -> Location:
    """Where the log of this catalog entry is. Raises InvalidArgument when there is none that we may read."""
    kind, form = str(entry.get("table_type")), str(entry.get("data_source_format"))
    if form in ("DELTASHARING", "DELTA_SHARING"):
        raise _refused(
            name,
            "it is shared with this metastore, and its log stays with its provider; name the provider's "
            "table and connection, and this name as read_as",
        )
    if kind in _NO_LOG:
        raise _refused(name, _NO_LOG[kind].format(dependencies=_dependencies(entry)))
    if form not in _DELTA_FORMATS:
        raise _refused(name, f"its format is {form}, not DELTA, and only Delta tables have a Delta log")
    properties = entry.get("properties") or {}
    if any(properties.get(key) == "supported" for key in _CATALOG_MANAGED):
        raise _refused(
            name,
            "it is catalog-managed (table feature catalogManaged): its newest commits are known to "
            "Unity Catalog alone, and its log in storage may lag behind; read its version by SQL",
        )
    if not entry.get("storage_location"):
        raise _refused(name, f"the catalog gives no storage_location for this {kind} table")
    location = parse_location(str(entry["storage_location"]))
    if location.kind is not Kind.FILE and (
        entry.get("row_filter") or any(column.get("mask") for column in entry.get("columns") or [])
    ):
        raise _refused(
            name,
            "it has a row filter or a column mask, and Unity Catalog gives no storage credentials for "
            "such tables; read its version by SQL",
        )
    return location


def _refused(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"the version of {name} cannot be read from its log: {why}")


def _dependencies(entry: dict[str, Any]) -> str:
    found = (entry.get("view_dependencies") or {}).get("dependencies") or []
    names = [str(item["table"]["table_full_name"]) for item in found if item.get("table", {}).get("table_full_name")]
    return ", ".join(names) or "the catalog does not list them"
