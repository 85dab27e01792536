"""The deferred wait of `DatabricksTriggeredRunSensor`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.feeds.next_run import look_for_run
from databricks_bridge.feeds.run_feed import FeedRuns
from databricks_bridge.feeds.trigger_watch import TriggerWatch
from databricks_bridge.triggers.polling import PollingTrigger


class TriggeredRunTrigger(PollingTrigger):
    """Looks for a finished run of a job that Databricks fired, ended at or after `since` (ISO time with zone).

    `told` names what the worker has warned of. The job itself is read by the feed, about every ten minutes for all.
    """

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
        on_paused: str = "warn",
        told: Sequence[str] = (),
    ) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.databricks_conn_id = databricks_conn_id
        self.job_id = job_id
        self.job_name = job_name
        self.triggers = triggers
        self.run_state = run_state
        self.since = since
        self.on_paused = on_paused
        self.told = told
        self._watch: TriggerWatch | None = None

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
                "on_paused": self.on_paused,
                "told": list(self.told),
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
        if self._watch is None:
            self._watch = TriggerWatch(wanted, self.on_paused, self.told)
        runs, since = await self._seat.runs(self.databricks_conn_id), datetime.fromisoformat(self.since)
        look = await look_for_run(runs, wanted, since)
        if look.run is not None:
            return {"run": look.run.to_json()} if await self._is_named_so(runs, look.job_id) else None
        if (job := await runs.details_of(look.job_id)) is not None:
            workspace = await self._seat.workspace(self.databricks_conn_id)
            await self._watch.confirm(workspace, look.job_id, job, look.under_way)
        return None

    async def _is_named_so(self, runs: FeedRuns, job_id: int) -> bool:
        """Whether this job still has the name that is waited for: a run of another one must not end the wait."""
        return await runs.job_of(self.job_id, self.job_name, self._interval()) == job_id
