"""The loop that evaluates every trigger of a deployment, about once a minute each, as Databricks does.

A look and its result are one transaction: the state moves on exactly when the run is created, and only while the
trigger is the one that was looked at. That holds for a run that is created as SKIPPED too: its files or commits do not
fire again, so the next run's notebook must take what is pending and not what fired it (nothing official says that
Databricks repeats a skipped run; treat it as lost).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.layout import Layout, LeadsOutside
from databricks_bridge.local.ports import Clock, JobsPort, RunFinished, TriggeredJob
from databricks_bridge.local.runs.starts import is_paused, starts
from databricks_bridge.local.triggers.evaluation import (
    Evaluator,
    Missing,
    api_state,
    kind_name,
    nothing_missing,
    upstream_jobs,
    watches,
)
from databricks_bridge.local.triggers.outcome import CannotEvaluate, Fire, Outcome, to_ms
from databricks_bridge.local.triggers.settings import Kind, Periodic, Schedule, parse_start
from databricks_bridge.local.triggers.switches import Switches

Entry = dict[str, Any]
"""What is kept of one trigger: `kind`, its private `state`, `api` and `history` for jobs/get, up to which end of a run it
has `heard`, and whether it `listens`: whether from now on every later end is news for it, whatever its time."""

log = logging.getLogger(__name__)

EVALUATION_INTERVAL_SECONDS = 60.0
"""Best effort of Databricks for file arrival and table update triggers; scaled like every duration."""
LONGEST_TICK_SECONDS = 0.1
"""How soon a new or changed trigger gets its first look. Not scaled: it is ours."""


@dataclass
class _Watched:
    """What the loop knows of one job between ticks; all that must outlive a restart is with the JobsPort."""

    revision: int
    due_at: list[float] = field(default_factory=list)
    """When each of its triggers is to be looked at."""


class TriggerScheduler:
    """Evaluates the triggers of all jobs and starts their runs. One for each deployment.

    `now` and `sleep` are the deployment's clock. An evaluation that fails is kept as `last_failed` and logged; the
    loop goes on.
    """

    def __init__(
        self,
        layout: Layout,
        jobs: JobsPort,
        *,
        now: Clock,
        sleep: Callable[[float], Awaitable[None]],
        time_scale: float = 1.0,
        switches: Callable[[], Switches] = Switches,
        missing_privilege: Missing = nothing_missing,
    ) -> None:
        self._jobs = jobs
        self._now = now
        self._sleep = sleep
        self._interval = EVALUATION_INTERVAL_SECONDS * time_scale
        self._evaluator = Evaluator(layout, jobs, time_scale, switches, missing_privilege)
        self._watched: dict[int, _Watched] = {}
        self._latest = 0.0
        jobs.on_run_finished(self._run_finished)

    async def run_forever(self) -> None:
        """Evaluate until cancelled."""
        tick = min(LONGEST_TICK_SECONDS, self._interval / 4)
        while True:
            try:
                await self.tick()
            except Exception:
                log.exception("the triggers could not be listed; trying again in %g s", tick)
            await self._sleep(tick)

    async def tick(self) -> None:
        """Evaluate each trigger whose time has come."""
        jobs = self._jobs.triggered_jobs()
        self._watched = {job.job_id: self._watch(job) for job in jobs}
        if self._moment() < self._latest:
            # The clock has gone back: what was due by the clock of before may be far away now, so all are looked at.
            self._latest = self._now()
            for watched in self._watched.values():
                watched.due_at = [0.0] * len(watched.due_at)
        for job in jobs:
            due_at = self._watched[job.job_id].due_at
            for index in range(len(due_at)):
                if self._now() >= due_at[index]:
                    due_at[index] = await self._evaluate(job, index)

    def _moment(self) -> float:
        """The time now; the latest that there was is kept."""
        now = self._now()
        self._latest = max(self._latest, now)
        return now

    def _watch(self, job: TriggeredJob) -> _Watched:
        known = self._watched.get(job.job_id)
        if known is not None and known.revision == job.trigger_revision:
            return known
        return _Watched(job.trigger_revision, [0.0] * len(starts(job.settings)))

    async def _evaluate(self, job: TriggeredJob, index: int) -> float:
        """Evaluate one trigger of a job, keep the result, and say when to look again."""
        now = self._moment()
        start = starts(job.settings)[index]
        entries = kept_entries(self._jobs.trigger_state(job.job_id), len(starts(job.settings)))
        entry = entries[index] = _with_history_before(entries[index], now)
        try:
            kind = parse_start(start)
            if is_paused(start):
                self._forget(job, kind, entries, index)
                return now + self._interval
            state = entry.get("state") if entry.get("kind") == kind_name(kind) else None
            listens, heard = bool(entry.get("listens")), int(entry.get("heard", 0))
            heard, ended = ends_not_heard(self._jobs, job, kind, heard, listens=listens, now=now)
            outcome = await self._evaluator.evaluate(job, kind, state, ended, datetime.fromtimestamp(now, UTC))
            entries[index] = {**entry, "heard": heard}
            until = self._keep(job, kind, entries, index, outcome, now)
        except (CannotEvaluate, LeadsOutside) as error:
            self._failed(job, entries, index, now, str(error))
            return now + self._interval
        except Exception as error:
            log.exception("the trigger of job %s (%d) cannot be evaluated", job.name, job.job_id)
            self._failed(job, entries, index, now, f"{type(error).__name__}: {error}")
            return now + self._interval
        return now + self._interval if until is None else min(now + self._interval, until)

    def _save(self, job: TriggeredJob, entries: Sequence[Entry]) -> None:
        # Not kept when the trigger was changed meanwhile: the next tick looks at the new one, from its own baseline.
        self._jobs.save_trigger_state(job.job_id, job.trigger_revision, {"triggers": list(entries)})

    def _failed(self, job: TriggeredJob, entries: list[Entry], index: int, now: float, why: str) -> None:
        history = {**entries[index].get("history", {}), "last_failed": _line(now, why)}
        entries[index] = {**entries[index], "history": history}
        self._save(job, entries)

    def _keep(
        self, job: TriggeredJob, kind: Kind, entries: list[Entry], index: int, outcome: Outcome, now: float
    ) -> float | None:
        history = dict(entries[index].get("history", {}))
        entries[index] = {
            "kind": kind_name(kind),
            "state": outcome.state,
            "api": api_state(kind, outcome.state, self._evaluator.switches()),
            "history": history,
            "heard": entries[index]["heard"],
            "listens": True,
        }
        if not isinstance(outcome, Fire):
            history["last_not_triggered"] = _line(now, outcome.reason)
            self._save(job, entries)
            return None if outcome.until is None else outcome.until.timestamp()
        history["last_triggered"] = _line(now, outcome.reason)
        run_id = self._jobs.fire(
            job.job_id,
            job.trigger_revision,
            trigger=outcome.run_trigger,
            context={**outcome.context, **_time_values(outcome.times)},
            state={"triggers": entries},
            trigger_info=outcome.info or None,
        )
        if run_id is None:
            return None
        log.info("job %s (%d) was started by its trigger as run %d: %s", job.name, job.job_id, run_id, outcome.reason)
        history["last_triggered"]["run_id"] = run_id
        self._save(job, entries)
        # What goes by the clock says at the next look when it is due again.
        return now if isinstance(kind, Periodic | Schedule) else None

    def _forget(self, job: TriggeredJob, kind: Kind, entries: list[Entry], index: int) -> None:
        """A paused trigger collects nothing that it would replay: its look after the pause is a first look."""
        if not entries[index].get("forgotten"):
            shown = api_state(kind, None, self._evaluator.switches())
            entries[index] = {"forgotten": True, "api": shown, "history": entries[index].get("history", {})}
            self._save(job, entries)

    def _run_finished(self, run: RunFinished) -> None:
        for job in self._jobs.triggered_jobs():
            watched = self._watched.get(job.job_id)
            for index, start in enumerate(starts(job.settings) if watched is not None else ()):
                try:
                    kind = parse_start(start)
                except InvalidArgument:
                    continue  # The evaluation of that trigger reports it.
                if watched is not None and index < len(watched.due_at) and watches(job, kind, run):
                    watched.due_at[index] = 0.0


def ends_not_heard(
    jobs: JobsPort, job: TriggeredJob, kind: Kind, heard: int, *, listens: bool = False, now: float | None = None
) -> tuple[int, list[RunFinished]]:
    """The ends that the trigger has not heard of yet, and the number up to which it has heard with them.

    For one that `listens` the number alone counts. Before that it is its first look, where those are news that came
    since it was set; one that is later than `now` is older, the clock has gone back since.
    """
    upstream = upstream_jobs(job, kind)
    ends = jobs.ended_runs(upstream, after=heard, since=0) if upstream else []
    heard = max([heard, *(number for number, _ in ends)])
    news = [run for _, run in ends if watches(job, kind, run)]
    if not listens:
        until = math.inf if now is None else int(now * 1000)
        news = [run for run in news if min(job.trigger_set_at, until) <= run.end_time <= until]
    return heard, news


def kept_entries(saved: Mapping[str, Any] | None, count: int) -> list[Entry]:
    """What is kept of each of `count` triggers; empty for one that was never looked at.

    Stores of before a job could have several triggers hold the one entry itself.
    """
    entries = list(saved["triggers"]) if saved and "triggers" in saved else [dict(saved)] if saved else []
    return [dict(entries[index]) if index < len(entries) else {} for index in range(count)]


def _with_history_before(entry: Entry, now: float) -> Entry:
    """The entry without a future in its history, which there is when the clock has gone back."""
    last = to_ms(datetime.fromtimestamp(now, UTC)) - 1
    lines = entry.get("history", {})
    if all(line["timestamp"] <= last for line in lines.values()):
        return entry
    return {
        **entry,
        "history": {name: {**line, "timestamp": min(line["timestamp"], last)} for name, line in lines.items()},
    }


def _line(now: float, description: str) -> dict[str, Any]:
    """One line of `trigger_details.history`."""
    return {"timestamp": to_ms(datetime.fromtimestamp(now, UTC)), "description": description}


def _time_values(times: Mapping[str, int]) -> dict[str, str]:
    from databricks_bridge.local.runs.references import time_values

    values: dict[str, str] = {}
    for prefix, at in times.items():
        values.update(time_values(prefix, at))
    return values
