"""A plain sensor for a Delta table that moves past a version."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSensorTimeout

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.sensors.since import since_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.feeds.versions import Wanted


class DeltaVersionSensor(BaseSensorOperator):
    """Waits until a Delta table has new data. Plain: no subscription, nothing is remembered.

    `table` is a `DeltaTable`, or a name with `databricks_conn_id`. `newer_than` is a version: data in any version above it
    counts; without it, data in a commit at or after `since` (an aware datetime or ISO text, by default the DAG run's
    `run_after`). Commits without data (OPTIMIZE, VACUUM, properties) do not count. Poke, reschedule and `deferrable=True`
    behave alike. Returns `{"table", "table_id", "version", "data_version", "committed_at"}`.
    Raises NotFound, NotPermitted, NotAuthenticated, InvalidArgument.
    """

    ui_color = "#d7ebe6"
    template_fields: Sequence[str] = ("newer_than", "since")

    def __init__(
        self,
        *,
        table: DeltaTable | str,
        databricks_conn_id: str = "databricks_default",
        newer_than: int | str | None = None,
        since: datetime | str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poke_interval: timedelta | float = 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        if newer_than is not None and since is not None:
            raise InvalidArgument("DeltaVersionSensor takes newer_than or since, not both")
        self.table = table if isinstance(table, DeltaTable) else DeltaTable(table, databricks_conn_id)
        self.newer_than = newer_than
        self.since = since
        self.deferrable = deferrable

    def poke(self, context: Context) -> PokeReturnValue:
        found = asyncio.run(self._look_once(self._wanted(context)))
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        wanted = self._wanted(context)
        found = asyncio.run(self._look_once(wanted))
        if found is not None:
            return found
        from databricks_bridge.triggers.delta_version import DeltaVersionTrigger

        timeout = timedelta(seconds=self.timeout)
        self.defer(
            trigger=DeltaVersionTrigger(
                table=dict(vars(self.table)),
                newer_than=wanted.newer_than,
                since=wanted.since.isoformat(),
                poll_interval=float(self.poke_interval),
                deadline=(datetime.now(UTC) + timeout).isoformat(),
            ),
            method_name="execute_complete",
            timeout=timeout + timedelta(minutes=1),
        )
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Take the trigger's event. Raises the error that it carries, or AirflowSensorTimeout at the deadline."""
        from databricks_bridge.triggers.polling import raise_for

        raise_for(event)
        if event["status"] == "deadline":
            raise AirflowSensorTimeout(f"{self.table.table} had no new data until {event['deadline']}")
        return {name: event[name] for name in ("table", "table_id", "version", "data_version", "committed_at")}

    async def _look_once(self, wanted: Wanted) -> dict[str, Any] | None:
        from databricks_bridge.feeds.versions import moved, source_of
        from databricks_bridge.hooks.databricks import open_workspace

        async with await open_workspace(self.table.databricks_conn_id) as workspace:
            found = await moved(await source_of(workspace, self.table), self.table, wanted)
        self.log.info("%s: %s", self.table.table, f"version {found['version']}" if found else "nothing new")
        return found

    def _wanted(self, context: Context) -> Wanted:
        from databricks_bridge.feeds.versions import Wanted

        newer_than = None if self.newer_than is None else int(self.newer_than)
        return Wanted(newer_than, since_of(self.since, context))
