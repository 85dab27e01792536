"""The object store of one table, with credentials that Unity Catalog gives and that are renewed in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from databricks_bridge.delta import credentials
from databricks_bridge.delta.locations import Kind, Location, open_folder
from databricks_bridge.delta.small_reads import SmallReads, usable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from databricks_bridge.workspace.client import Workspace


def _utc_now() -> datetime:
    return datetime.now(UTC)


_AHEAD = timedelta(minutes=5)


class TableStore:
    """Opens the store of a table's folder, rooted there, when called; credentials are renewed five minutes before they expire."""

    # a triggerer may hold many thousands
    __slots__ = ("_now", "_region", "_region_of", "_store", "_until", "_workspace", "location", "table_id")

    def __init__(
        self,
        workspace: Workspace,
        table_id: str,
        location: Location,
        *,
        now: Callable[[], datetime],
        region_of: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self._workspace, self.table_id, self.location = workspace, table_id, location
        self._now, self._region_of = now, region_of
        self._store: ObjectStore | None = None
        self._until: datetime | None = None
        self._region: str | None = None

    def forget(self) -> None:
        """Asks for new credentials at the next opening."""
        self._store = None

    async def __call__(self) -> ObjectStore:
        """The store as it may be used now. Raises what the catalog's refusals are called."""
        if self.location.kind is Kind.FILE:
            return open_folder(self.location.path, self._workspace.host)
        now = self._now()
        if self._store is None or self._until is None or now >= self._until - _AHEAD:
            answer = await self._workspace.temporary_table_credentials(self.table_id)
            if self.location.kind is Kind.S3 and self._region is None:
                self._region = await self._find_region()
            self._until = credentials.expires(answer, now)
            self._store = self._opened(answer, self._until)
        return self._store

    def _opened(self, answer: dict[str, Any], until: datetime) -> ObjectStore:
        location, region = self.location, self._region
        make = partial(credentials.open_store, location, answer, until=until, region=region)
        keys = answer.get("aws_temp_credentials")
        if location.kind is not Kind.S3 or region is None or not isinstance(keys, dict) or not usable(region):
            return make()
        place = f"{location.bucket}/{location.path}".rstrip("/")
        # what our log reader asks of a store, it has
        return cast("ObjectStore", SmallReads(self._workspace, place, keys, region, make, _utc_now))

    async def _find_region(self) -> str | None:
        """The bucket's region; where S3 does not tell, the metastore's, which is nearly always the same."""
        found = await self._region_of(self.location.bucket)
        if found is None:
            summary = await self._workspace.get("/api/2.1/unity-catalog/metastore_summary")
            found = str(summary["region"]) if summary.get("region") else None
        return found
