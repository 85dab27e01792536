"""The deferred wait of `DatabricksTriggeredRunSensor`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.feeds.runs import next_run
from databricks_bridge.triggers.polling import PollingTrigger


class TriggeredRunTrigger(PollingTrigger):
    """Looks for a finished run of a job that Databricks fired, ended at or after `since` (ISO time with zone)."""

    def __init__(
        self,
        *,
        databricks_conn_id: str,
        job_id: int | None,
        job_name: str | None,
        triggers: Sequence[str],
        run_state: Sequence[str],
        since: str,
        poll_interval: float,
        deadline: str,
    ) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.databricks_conn_id = databricks_conn_id
        self.job_id = job_id
        self.job_name = job_name
        self.triggers = triggers
        self.run_state = run_state
        self.since = since

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "databricks_bridge.triggers.triggered_run.TriggeredRunTrigger",
            {
                "databricks_conn_id": self.databricks_conn_id,
                "job_id": self.job_id,
                "job_name": self.job_name,
                "triggers": sorted(self.triggers),
                "run_state": sorted(self.run_state),
                "since": self.since,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
            },
        )

    async def _poll(self) -> dict[str, Any] | None:
        wanted = TriggeredRuns(
            databricks_conn_id=self.databricks_conn_id,
            job_id=self.job_id,
            job_name=self.job_name,
            triggers=frozenset(self.triggers),
            run_state=frozenset(self.run_state),
        )
        runs = await self._seat.runs(self.databricks_conn_id)
        run = await next_run(runs, wanted, datetime.fromisoformat(self.since))
        return None if run is None else {"run": run.to_json()}
