"""The deferred wait of `DeltaVersionSensor`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.feeds.versions import Wanted, moved
from databricks_bridge.triggers.polling import PollingTrigger


class DeltaVersionTrigger(PollingTrigger):
    """Looks at a table until it has data above `newer_than`, or in a commit at or after `since` (ISO time with zone).

    `table` holds the arguments of `DeltaTable`.
    """

    def __init__(
        self, *, table: Mapping[str, Any], newer_than: int | None, since: str, poll_interval: float, deadline: str
    ) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.table = table
        self.newer_than = newer_than
        self.since = since

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "databricks_bridge.triggers.delta_version.DeltaVersionTrigger",
            {
                "table": self.table,
                "newer_than": self.newer_than,
                "since": self.since,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
            },
        )

    async def _poll(self) -> dict[str, Any] | None:
        table = DeltaTable(**self.table)
        source = await self._seat.table(table)
        return await moved(source, table, Wanted(self.newer_than, datetime.fromisoformat(self.since)))
