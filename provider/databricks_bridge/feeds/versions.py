"""A plain wait for a table to move, without a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.delta.model import LatestVersion, VersionSource
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.workspace.client import Workspace


@dataclass(frozen=True)
class Wanted:
    """Data in a version above `newer_than`; or, where that is None, in a commit at or after `since`."""

    newer_than: int | None
    since: datetime


async def source_of(workspace: Workspace, table: DeltaTable) -> VersionSource:
    """Who is asked for the versions of the table. Raises what `open_table` raises."""
    return await open_table(
        workspace, table.table, via=table.via, profile=table.profile, warehouse=table.warehouse, identify=False
    )


async def moved(source: VersionSource, table: DeltaTable, wanted: Wanted) -> dict[str, Any] | None:
    """What the table came to, or None while it has not moved. Commits without data do not count."""
    latest = await source.latest(wanted.newer_than)
    if latest is None or latest.data_version is None or not _counts(latest, wanted):
        return None
    return {
        "table": table.table,
        "table_id": latest.table_id,
        "version": latest.version,
        "data_version": latest.data_version,
        "committed_at": at.isoformat() if (at := data_at(latest)) else None,
    }


def data_at(latest: LatestVersion) -> datetime | None:
    """When the newest data was committed: not when the newest commit was, which may be an OPTIMIZE. None where nobody tells."""
    if latest.data_committed_at is not None:
        return latest.data_committed_at
    return latest.committed_at if latest.data_version == latest.version else None


def _counts(latest: LatestVersion, wanted: Wanted) -> bool:
    if wanted.newer_than is not None:
        return True
    at = data_at(latest)
    return at is not None and at >= wanted.since
