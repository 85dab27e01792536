"""A plain sensor for the next finished run of a job that Databricks fired by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.sources import check_job, check_text, normalised_run_state, normalised_triggers
from databricks_bridge.operators.arguments import is_late, job_of_arguments
from databricks_bridge.sensors.since import check_since, since_of
from databricks_bridge.sensors.waiting import DEFAULT_DEFERRABLE, DEFAULT_TIMEOUT, POKE_SECONDS, Answer, WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.core.sources import TriggeredRuns
    from databricks_bridge.feeds.trigger_watch import TriggerWatch
    from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger

ON_PAUSED = ("warn", "fail")


class DatabricksTriggeredRunSensor(WaitingSensor):
    """Waits for a run that it did not start: the first of the job that matches and ended at or after `since`.

    Plain and stateless: what ends between two DAG runs is not remembered; for that, subscribe to `TriggeredRuns`.
    `triggers` are values of `run.trigger` (`TABLE_UPDATE` is accepted for `TABLE`), `run_state` the result states that
    count, `since` an aware datetime or ISO text, by default the DAG run's `run_after`. It only reads: a run is never
    cancelled. Returns `{"run_id", "job_id", "trigger", "result_state", "start_time", "end_time", "run_page_url",
    "job_parameters", "trigger_values"}`, times in epoch milliseconds; `trigger_values` is what the trigger gave, as far as
    the job maps it: see `docs/reference.md`. A trigger that cannot fire is warned of; with `on_paused="fail"` one that is
    paused is TriggerPaused. Raises NotFound, NotPermitted, NotAuthenticated, InvalidArgument too.
    """

    ui_color = "#dfe3f4"
    template_fields: Sequence[str] = ("databricks_conn_id", "job_id", "job_name", "since")
    _watch: TriggerWatch | None = None

    def __init__(
        self,
        *,
        databricks_conn_id: str = "databricks_default",
        job_id: int | str | None = None,
        job_name: str | None = None,
        triggers: Iterable[str] = frozenset({"FILE_ARRIVAL", "TABLE"}),
        run_state: Iterable[str] = frozenset({"SUCCESS"}),
        since: datetime | str | None = None,
        on_paused: Literal["warn", "fail"] = "warn",
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
        if on_paused not in ON_PAUSED:
            raise InvalidArgument(f'on_paused is {on_paused!r}; use "warn" or "fail"')
        self.databricks_conn_id = databricks_conn_id
        self.job_id = job_id
        self.job_name = job_name
        self.triggers = normalised_triggers(triggers)
        self.run_state = normalised_run_state(run_state)
        self.since = since
        self.on_paused = on_paused

    def execute(self, context: Context) -> Any:
        self._watch = None  # of another try in this process
        return super().execute(context)

    async def _look_once(self, context: Context) -> Answer | None:
        from databricks_bridge.feeds.next_run import look_for_run, whole_answer
        from databricks_bridge.feeds.runs import LiveRuns
        from databricks_bridge.hooks.databricks import open_workspace

        wanted, since = self._wanted(), since_of(self.since, context)
        async with await open_workspace(self.databricks_conn_id, budget_seconds=self._budget) as workspace:
            look = await look_for_run(LiveRuns(workspace), wanted, since)
            if look.run is not None:
                self.log.info("found run %s", look.run.run_id)
                return await whole_answer(workspace, look.run.to_json())
            self.log.info("no run of %r since %s", wanted.job, since.isoformat())
            await self._watched().look(workspace, look.job_id, look.under_way, datetime.now(UTC))
        return None

    def _watched(self) -> TriggerWatch:
        from databricks_bridge.feeds.trigger_watch import TriggerWatch

        if self._watch is None:
            self._watch = TriggerWatch(self._wanted(), self.on_paused)
        return self._watch

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
            on_paused=self.on_paused,
            told=sorted(self._watched().told),
            poll_interval=poll_interval,
            deadline=deadline,
        )

    def _answer(self, event: dict[str, Any]) -> Answer:
        return asyncio.run(self._with_values(event["run"]))

    async def _with_values(self, run: Answer) -> Answer:
        from databricks_bridge.feeds.next_run import whole_answer, without_values
        from databricks_bridge.hooks.databricks import open_workspace

        try:
            workspace = await open_workspace(self.databricks_conn_id, budget_seconds=self._budget)
        except Exception as error:  # noqa: BLE001  # the wait is over, and nothing here may lose what it found
            return without_values(run, error)
        async with workspace:
            return await whole_answer(workspace, run)

    def _last_words(self) -> str:
        try:
            return asyncio.run(self._ask_last_words())
        except Exception as error:  # noqa: BLE001  # the time-out is what the author must see
            self.log.info("what the trigger last did cannot be read: %s", error)
            return self._watched().known_words()

    async def _ask_last_words(self) -> str:
        from databricks_bridge.feeds.runs import job_of
        from databricks_bridge.feeds.trigger_watch import READ_SECONDS
        from databricks_bridge.hooks.databricks import open_workspace

        wanted = self._wanted()
        budget = min(self._budget, READ_SECONDS)
        async with await open_workspace(self.databricks_conn_id, budget_seconds=budget) as workspace:
            job_id = await job_of(workspace, wanted.job_id, wanted.job_name)
            return await self._watched().last_words(workspace, job_id)

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
