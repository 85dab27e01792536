"""A plain sensor for the next finished run of a job that Databricks fired by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.sources import check_job, check_text, normalised_run_state, normalised_triggers
from databricks_bridge.operators.arguments import is_late, job_of_arguments
from databricks_bridge.sensors.since import check_since, since_of
from databricks_bridge.sensors.waiting import DEFAULT_DEFERRABLE, DEFAULT_TIMEOUT, POKE_SECONDS, Answer, WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.core.sources import TriggeredRuns
    from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger


class DatabricksTriggeredRunSensor(WaitingSensor):
    """Waits for a run that it did not start: the first of the job that matches and ended at or after `since`.

    Plain and stateless: what ends between two DAG runs is not remembered; for that, subscribe to `TriggeredRuns`.
    `triggers` are values of `run.trigger` (`TABLE_UPDATE` is accepted for `TABLE`), `run_state` the result states that
    count, `since` an aware datetime or ISO text, by default the DAG run's `run_after`. It only reads: a run is never
    cancelled. Returns `{"run_id", "job_id", "trigger", "result_state", "start_time", "end_time", "run_page_url",
    "job_parameters"}`, times in epoch milliseconds. Raises NotFound, NotPermitted, NotAuthenticated, InvalidArgument.
    """

    ui_color = "#dfe3f4"
    template_fields: Sequence[str] = ("databricks_conn_id", "job_id", "job_name", "since")

    def __init__(
        self,
        *,
        databricks_conn_id: str = "databricks_default",
        job_id: int | str | None = None,
        job_name: str | None = None,
        triggers: Iterable[str] = frozenset({"FILE_ARRIVAL", "TABLE"}),
        run_state: Iterable[str] = frozenset({"SUCCESS"}),
        since: datetime | str | None = None,
        deferrable: bool = DEFAULT_DEFERRABLE,
        poke_interval: timedelta | float = POKE_SECONDS,
        timeout: timedelta | float | None = DEFAULT_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.deferrable = deferrable
        if is_late(job_id) or is_late(job_name):
            check_job(job_id, None if job_name is None else "known later", type(self).__name__)
        else:
            job_of_arguments(job_id, job_name, type(self).__name__)
        check_since(since)
        check_text(databricks_conn_id, "databricks_conn_id")
        self.databricks_conn_id = databricks_conn_id
        self.job_id = job_id
        self.job_name = job_name
        self.triggers = normalised_triggers(triggers)
        self.run_state = normalised_run_state(run_state)
        self.since = since

    async def _look_once(self, context: Context) -> Answer | None:
        from databricks_bridge.feeds.runs import LiveRuns, next_run
        from databricks_bridge.hooks.databricks import open_workspace

        wanted, since = self._wanted(), since_of(self.since, context)
        async with await open_workspace(self.databricks_conn_id, budget_seconds=self._budget) as workspace:
            run = await next_run(LiveRuns(workspace), wanted, since)
        self.log.info("%s", f"found run {run.run_id}" if run else f"no run of {wanted.job!r} since {since.isoformat()}")
        return None if run is None else run.to_json()

    def _trigger(self, context: Context, poll_interval: float, deadline: str) -> TriggeredRunTrigger:
        from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger

        job_id, job_name = job_of_arguments(self.job_id, self.job_name, type(self).__name__)
        return TriggeredRunTrigger(
            databricks_conn_id=self.databricks_conn_id,
            job_id=job_id,
            job_name=job_name,
            triggers=sorted(self.triggers),
            run_state=sorted(self.run_state),
            since=since_of(self.since, context).isoformat(),
            poll_interval=poll_interval,
            deadline=deadline,
        )

    def _answer(self, event: dict[str, Any]) -> Answer:
        run: Answer = event["run"]
        return run

    @property
    def _awaited(self) -> str:
        return f"a run of {self._wanted().job!r}"

    def _wanted(self) -> TriggeredRuns:
        from databricks_bridge.core.sources import TriggeredRuns

        job_id, job_name = job_of_arguments(self.job_id, self.job_name, type(self).__name__)
        return TriggeredRuns(
            databricks_conn_id=self.databricks_conn_id,
            job_id=job_id,
            job_name=job_name,
            triggers=self.triggers,
            run_state=self.run_state,
        )
