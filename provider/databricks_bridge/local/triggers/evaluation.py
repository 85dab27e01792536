"""One evaluation of one job's trigger: look at what it watches, then decide. The looking is done in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from databricks_bridge.core.policy import Policy
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.ports import JobsPort, RunFinished, TriggeredJob
from databricks_bridge.local.triggers import job_completion, table_update
from databricks_bridge.local.triggers.continuous import Ended, decide_continuous
from databricks_bridge.local.triggers.file_arrival import FILE_LIMIT, decide_file_arrival, list_files
from databricks_bridge.local.triggers.job_completion import SUCCESSES, Completion, decide_job_completion
from databricks_bridge.local.triggers.kept_times import pulled_back
from databricks_bridge.local.triggers.model import decide_model, read_events
from databricks_bridge.local.triggers.outcome import CannotEvaluate, Outcome, State, to_ms
from databricks_bridge.local.triggers.periodic import decide_periodic
from databricks_bridge.local.triggers.schedule import decide_schedule
from databricks_bridge.local.triggers.settings import (
    Continuous,
    FileArrival,
    JobCompletion,
    Kind,
    Model,
    Periodic,
    Schedule,
    TableUpdate,
)
from databricks_bridge.local.triggers.switches import Switches
from databricks_bridge.local.triggers.table_update import decide_table_update, look_at_table
from databricks_bridge.local.triggers.views import behind

TABLES, TABLES_WITH_FILE_EVENTS = 10, 25
"""Tables of a table update trigger. The 25 are of one tutorial alone, not of the reference."""
FILE_TIME_LAG = timedelta(milliseconds=4)
"""How far the modification time of a file may be behind the clock: the kernel stamps files by its tick (250 Hz). What
came so shortly before the trigger was set counts as news: a run too many is harmless, a lost file is not."""

_ENDS = "ends_heard"
"""Where the state says up to which end of a run the cooldown has counted."""

Missing = Callable[[TriggeredJob, str, str], str | None]
"""What the job's run-as identity lacks to read the ``table`` or ``volume`` of this full name, such as
``SELECT on Table 'main.s.t'``; None: nothing."""


def nothing_missing(job: TriggeredJob, kind: str, name: str) -> None:
    """A `Missing` that grants everything."""


@dataclass(frozen=True)
class Evaluator:
    """Evaluates triggers against the folders of a deployment.

    `time_scale` multiplies every duration of the settings, and no schedule: those go by the clock. `switches` are asked
    at every evaluation.
    """

    layout: Layout
    jobs: JobsPort
    time_scale: float
    switches: Callable[[], Switches] = Switches
    missing_privilege: Missing = nothing_missing

    async def evaluate(
        self, job: TriggeredJob, kind: Kind, state: State | None, ended: Sequence[RunFinished], now: datetime
    ) -> Outcome:
        """What the trigger comes to at `now`; `ended` are the runs that it watches which ended since the last time.

        What was kept, or set, at a time later than `now` counts as of now: the clock has gone back since.
        """
        state = pulled_back(state, now)
        switches = self.switches()
        if not isinstance(kind, FileArrival | TableUpdate | Model):
            return self._by_clock_or_runs(job, kind, state, ended, now)
        if not switches.cooldown_after_run or state is None or state["fired_at"] is None:
            return await self._by_changes(job, kind, state, now, switches)
        state, heard = self._cooling_from_the_end(job, state, now)
        outcome = await self._by_changes(job, kind, state, now, switches)
        return replace(outcome, state={**outcome.state, _ENDS: heard})

    def _by_clock_or_runs(
        self,
        job: TriggeredJob,
        kind: Periodic | Schedule | JobCompletion | Continuous,
        state: State | None,
        ended: Sequence[RunFinished],
        now: datetime,
    ) -> Outcome:
        if isinstance(kind, Periodic):
            return decide_periodic(kind.interval * self.time_scale, state, now, _set_at(job, now))
        if isinstance(kind, Schedule):
            return decide_schedule(kind, state, now, _set_at(job, now))
        if isinstance(kind, JobCompletion):
            return decide_job_completion(kind, [_completion(run) for run in ended], state)
        ends = [
            Ended(run.run_id, run.termination_code in SUCCESSES, datetime.fromtimestamp(run.end_time / 1000, UTC))
            for run in ended
        ]
        return decide_continuous(self.jobs.active_runs(job.job_id), ends, state, now, self.time_scale)

    async def _by_changes(
        self,
        job: TriggeredJob,
        kind: FileArrival | TableUpdate | Model,
        state: State | None,
        now: datetime,
        switches: Switches,
    ) -> Outcome:
        since = _set_at(job, now) - FILE_TIME_LAG
        if isinstance(kind, FileArrival):
            self._require(job, "volume", ".".join(kind.url.strip("/").split("/")[1:4]))
            files = await asyncio.to_thread(list_files, self.layout.volume_path(job.metastore, kind.url))
            if len(files) > FILE_LIMIT and not switches.file_events:
                raise CannotEvaluate(
                    f"{kind.url} holds {len(files)} files; without file events a file arrival trigger may watch "
                    f"{FILE_LIMIT}"
                )
            return decide_file_arrival(kind, self._scaled(kind.policy), files, state, now, since)
        if isinstance(kind, TableUpdate):
            kind = await self._on_tables(job, kind, switches)
            seen = {} if state is None else state["tables"]
            looks = {
                name: await asyncio.to_thread(
                    look_at_table, self.layout.table_path(job.metastore, name), seen.get(name), since
                )
                for name in kind.tables
            }
            return decide_table_update(
                kind, self._scaled(kind.policy), looks, state, now, every_commit=switches.every_commit
            )
        events = await asyncio.to_thread(read_events, self.layout, job.metastore)
        return decide_model(kind, self._scaled(kind.policy), events, state, now, since)

    def _require(self, job: TriggeredJob, kind: str, name: str) -> None:
        if missing := self.missing_privilege(job, kind, name):
            raise CannotEvaluate(f"PERMISSION_DENIED: User does not have {missing}.")

    async def _on_tables(self, job: TriggeredJob, kind: TableUpdate, switches: Switches) -> TableUpdate:
        """The trigger with each view replaced by the tables it reads. Each of them must be readable, as each view."""
        for name in kind.tables:
            self._require(job, "table", name)
        tables, views = await asyncio.to_thread(behind, self.layout, job.metastore, kind.tables)
        for name in (*views, *tables):
            if name not in kind.tables:
                self._require(job, "table", name)
        most = TABLES_WITH_FILE_EVENTS if switches.file_events else TABLES
        if len(tables) > most:
            raise CannotEvaluate(f"with the tables of its views the trigger has {len(tables)} tables; at most {most}")
        return replace(kind, tables=tables)

    def _cooling_from_the_end(self, job: TriggeredJob, state: State, now: datetime) -> tuple[State, int]:
        """The state as if the trigger had fired when its last run ended, `now` while one is active.

        With the number of the last end that counted: an end in the future counts once, as of now.
        """
        fired, heard = datetime.fromisoformat(state["fired_at"]), int(state.get(_ENDS, 0))
        ends = self.jobs.ended_runs({job.job_id}, after=heard, since=to_ms(fired))
        times = [min(datetime.fromtimestamp(run.end_time / 1000, UTC), now) for _, run in ends]
        cooling = now if self.jobs.active_runs(job.job_id) else max([fired, *times])
        return {**state, "fired_at": cooling.isoformat()}, max([heard, *(number for number, _ in ends)])

    def _scaled(self, policy: Policy) -> Policy:
        return replace(
            policy,
            min_time_between_triggers=self._scale(policy.min_time_between_triggers),
            wait_after_last_change=self._scale(policy.wait_after_last_change),
        )

    def _scale(self, duration: timedelta) -> timedelta:
        return duration * self.time_scale


def _set_at(job: TriggeredJob, now: datetime) -> datetime:
    return min(datetime.fromtimestamp(job.trigger_set_at / 1000, UTC), now)


def kind_name(kind: Kind) -> str:
    """Under which name the state of this kind is kept; a state of another kind is not looked at."""
    return type(kind).__name__


def api_state(kind: Kind, state: State | None, switches: Switches) -> dict[str, Any]:
    """`trigger_state` of jobs/get?include_trigger_state=true, without its pause_status."""
    if isinstance(kind, FileArrival):
        return {"file_arrival": {"using_file_events": switches.file_events}}
    if isinstance(kind, TableUpdate):
        return table_update.api_state(kind, state, scalable=switches.file_events)
    if isinstance(kind, JobCompletion):
        return job_completion.api_state(kind, state)
    return {"model": {}} if isinstance(kind, Model) else {}


def upstream_jobs(job: TriggeredJob, kind: Kind) -> set[int]:
    """The jobs whose runs may be news for the trigger of `job` when they end."""
    if isinstance(kind, Continuous):
        return {job.job_id}
    return {int(upstream) for _, upstream in kind.jobs} if isinstance(kind, JobCompletion) else set()


def watches(job: TriggeredJob, kind: Kind, run: RunFinished) -> bool:
    """Whether the end of `run` is news for the trigger of `job`. Completions count within one metastore only."""
    if isinstance(kind, Continuous):
        return run.job_id == job.job_id
    return (
        isinstance(kind, JobCompletion)
        and run.metastore == job.metastore
        and (run.workspace_id, str(run.job_id)) in kind.jobs
    )


def _completion(run: RunFinished) -> Completion:
    return Completion(run.workspace_id, str(run.job_id), run.run_id, run.termination_code, run.end_time)
