"""The loop that evaluates every trigger of a deployment, about once a minute each, as Databricks does.

A look and its result are one transaction: the state moves on exactly when the run is created. That holds for a run
that is created as SKIPPED too: its files or commits do not fire again, so the next run's notebook must take what is
pending and not what fired it (nothing official says that Databricks repeats a skipped run; treat it as lost).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.ports import Clock, JobsPort, RunFinished, TriggeredJob
from databricks_bridge.local.triggers.evaluation import Evaluator, api_state, kind_name, watches
from databricks_bridge.local.triggers.outcome import Fire, Outcome, to_ms
from databricks_bridge.local.triggers.settings import Kind, parse_trigger

log = logging.getLogger(__name__)

EVALUATION_INTERVAL_SECONDS = 60.0
"""Best effort of Databricks for file arrival and table update triggers; scaled like every duration."""
LONGEST_TICK_SECONDS = 0.1
"""How soon a new or changed trigger gets its first look, which is its baseline. Not scaled: it is ours."""


@dataclass
class _Watched:
    """What the loop knows of one job between ticks; all that must outlive a restart is with the JobsPort."""

    definition: Mapping[str, Any]
    due_at: float = 0.0
    ended: list[RunFinished] = field(default_factory=list)


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
        every_commit: bool = False,
    ) -> None:
        self._jobs = jobs
        self._now = now
        self._sleep = sleep
        self._interval = EVALUATION_INTERVAL_SECONDS * time_scale
        self._evaluator = Evaluator(layout, jobs, time_scale, every_commit)
        self._watched: dict[int, _Watched] = {}
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
        for job in jobs:
            watched = self._watched[job.job_id]
            if self._now() >= watched.due_at:
                watched.due_at = await self._evaluate(job, watched)

    def _watch(self, job: TriggeredJob) -> _Watched:
        definition = _definition(job)
        known = self._watched.get(job.job_id)
        return known if known is not None and known.definition == definition else _Watched(definition)

    async def _evaluate(self, job: TriggeredJob, watched: _Watched) -> float:
        """Evaluate one job's trigger, keep the result, and say when to look again."""
        now = self._now()
        saved = self._jobs.trigger_state(job.job_id) or {}
        ended, watched.ended = watched.ended, []
        try:
            kind = parse_trigger(job.settings)
            if kind is None:
                return now + self._interval
            if job.paused:
                self._forget(job, kind, saved)
                return now + self._interval
            state = saved.get("state") if saved.get("kind") == kind_name(kind) else None
            outcome = await self._evaluator.evaluate(job, kind, state, ended, datetime.fromtimestamp(now, UTC))
            if not self._is_as_listed(job):
                return 0.0
            until = self._keep(job, kind, saved, outcome, now)
        except Exception as error:
            log.exception("the trigger of job %s (%d) cannot be evaluated", job.name, job.job_id)
            watched.ended = ended + watched.ended
            history = {**saved.get("history", {}), "last_failed": _entry(now, f"{type(error).__name__}: {error}")}
            self._jobs.save_trigger_state(job.job_id, {**saved, "history": history})
            return now + self._interval
        return now + self._interval if until is None else min(now + self._interval, until)

    def _is_as_listed(self, job: TriggeredJob) -> bool:
        """False when the job was deleted or its trigger changed while it was looked at: what was seen is of no use."""
        return any(
            other.job_id == job.job_id and _definition(other) == _definition(job)
            for other in self._jobs.triggered_jobs()
        )

    def _keep(
        self, job: TriggeredJob, kind: Kind, saved: Mapping[str, Any], outcome: Outcome, now: float
    ) -> float | None:
        history = dict(saved.get("history", {}))
        kept = {
            "kind": kind_name(kind),
            "state": outcome.state,
            "api": api_state(kind, outcome.state),
            "history": history,
        }
        if not isinstance(outcome, Fire):
            history["last_not_triggered"] = _entry(now, outcome.reason)
            self._jobs.save_trigger_state(job.job_id, kept)
            return None if outcome.until is None else outcome.until.timestamp()
        history["last_triggered"] = _entry(now, outcome.reason)
        run_id = self._jobs.fire(
            job.job_id,
            trigger=outcome.run_trigger,
            context={**outcome.context, **_time_values(outcome.times)},
            state=kept,
            trigger_info=outcome.info or None,
        )
        if run_id is None:
            return None
        log.info("job %s (%d) was started by its trigger as run %d: %s", job.name, job.job_id, run_id, outcome.reason)
        history["last_triggered"]["run_id"] = run_id
        self._jobs.save_trigger_state(job.job_id, kept)
        return None

    def _forget(self, job: TriggeredJob, kind: Kind, saved: Mapping[str, Any]) -> None:
        """A paused trigger collects nothing that it would replay: its look after the pause is a first look."""
        if not saved.get("forgotten"):
            kept = {"forgotten": True, "api": api_state(kind, None), "history": saved.get("history", {})}
            self._jobs.save_trigger_state(job.job_id, kept)

    def _run_finished(self, run: RunFinished) -> None:
        for job in self._jobs.triggered_jobs():
            watched = self._watched.get(job.job_id)
            try:
                kind = parse_trigger(job.settings)
            except InvalidArgument:
                continue  # The evaluation of that job reports it.
            if watched is not None and kind is not None and watches(job, kind, run):
                watched.ended.append(run)
                watched.due_at = 0.0


def _definition(job: TriggeredJob) -> dict[str, Any]:
    return {key: job.settings.get(key) for key in ("trigger", "continuous", "schedule")}


def _entry(now: float, description: str) -> dict[str, Any]:
    """One line of `trigger_details.history`."""
    return {"timestamp": to_ms(datetime.fromtimestamp(now, UTC)), "description": description}


def _time_values(times: Mapping[str, int]) -> dict[str, str]:
    from databricks_bridge.local.runs.references import time_values

    values: dict[str, str] = {}
    for prefix, at in times.items():
        values.update(time_values(prefix, at))
    return values
