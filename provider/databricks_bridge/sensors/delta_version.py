"""A plain sensor for a Delta table that moves past a version."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.positions import BEFORE_FIRST
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.operators.arguments import is_late
from databricks_bridge.sensors.since import check_since, since_of
from databricks_bridge.sensors.waiting import DEFAULT_DEFERRABLE, DEFAULT_TIMEOUT, POKE_SECONDS, Answer, WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.feeds.versions import Wanted
    from databricks_bridge.triggers.delta_version import DeltaVersionTrigger


class DeltaVersionSensor(WaitingSensor):
    """Waits until a Delta table has new data. Plain: no subscription, nothing is remembered.

    `table` is a `DeltaTable`, or a name with `databricks_conn_id`. `newer_than` is a version: data in any version above it
    counts; without it, data in a commit at or after `since` (an aware datetime or ISO text, by default the DAG run's
    `run_after`). Commits without data (OPTIMIZE, VACUUM, properties) do not count. Returns `{"table", "table_id", "version", "data_version", "committed_at"}`, the last of these the time of the data.
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
        deferrable: bool = DEFAULT_DEFERRABLE,
        poke_interval: timedelta | float = POKE_SECONDS,
        timeout: timedelta | float | None = DEFAULT_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.deferrable = deferrable
        if newer_than is not None and since is not None:
            raise InvalidArgument("DeltaVersionSensor takes newer_than or since, not both")
        check_since(since)
        if newer_than is not None and not is_late(newer_than):
            _version(newer_than)
        self.table = table if isinstance(table, DeltaTable) else DeltaTable(table, databricks_conn_id)
        self.newer_than = newer_than
        self.since = since

    async def _look_once(self, context: Context) -> Answer | None:
        from databricks_bridge.feeds.versions import moved, source_of
        from databricks_bridge.hooks.databricks import open_workspace

        async with await open_workspace(self.table.databricks_conn_id, budget_seconds=self._budget) as workspace:
            found = await moved(await source_of(workspace, self.table), self.table, self._wanted(context))
        self.log.info("%s: %s", self.table.table, f"version {found['version']}" if found else "nothing new")
        return found

    def _trigger(self, context: Context, poll_interval: float, deadline: str) -> DeltaVersionTrigger:
        from databricks_bridge.triggers.delta_version import DeltaVersionTrigger

        wanted = self._wanted(context)
        return DeltaVersionTrigger(
            table=dict(vars(self.table)),
            newer_than=wanted.newer_than,
            since=wanted.since.isoformat(),
            poll_interval=poll_interval,
            deadline=deadline,
        )

    def _answer(self, event: dict[str, Any]) -> Answer:
        return {name: event[name] for name in ("table", "table_id", "version", "data_version", "committed_at")}

    @property
    def _awaited(self) -> str:
        return f"new data in {self.table.table}"

    def _wanted(self, context: Context) -> Wanted:
        from databricks_bridge.feeds.versions import Wanted

        newer_than = None if self.newer_than is None else _version(self.newer_than)
        return Wanted(newer_than, since_of(self.since, context))


def _version(value: object) -> int:
    """A version as a number or digits; -1 is before the first commit. Raises InvalidArgument."""
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text == str(BEFORE_FIRST) or text.isdecimal():
        return int(text)
    raise InvalidArgument(f"newer_than is {value!r}; give a version, from {BEFORE_FIRST} on")
