"""The runs that a run feed remembers, and who waits for which of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from databricks_bridge.core.errors import BridgeError, NotFound
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.feeds.rounds import Bell

Run = Mapping[str, Any]

_KEPT = (
    "run_id",
    "job_id",
    "run_name",
    "trigger",
    "start_time",
    "end_time",
    "state",
    "status",
    "run_page_url",
    "job_parameters",
    "attempt_number",
    "original_attempt_run_id",
)
"""Fields of a run that are remembered: its raw JSON without tasks, clusters and schedules."""

OVERLAP_MS = 10 * 60 * 1000
"""How far behind the newest start a listing reaches back: starts are not shown in the order in which they happen."""


def is_active(run: Run) -> bool:
    """Whether the run may still change by itself."""
    return outcome_of(run).ending is Ending.ACTIVE


@dataclass(eq=False)
class Job:
    """A job whose runs are waited for: all that started at or after `from_ms` are in `runs`."""

    job_id: int
    from_ms: int
    bells: dict[Bell, int] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    error: BridgeError | None = None
    checked_at: float = 0.0

    @property
    def list_from_ms(self) -> int:
        """Where a listing must begin to see what is new and what is open. Nothing is older than its first listing."""
        newest = max((run["start_time"] for run in self.runs.values()), default=self.from_ms)
        opened = min((run["start_time"] for run in self.runs.values() if is_active(run)), default=newest)
        return max(self.from_ms, min(opened, newest - OVERLAP_MS))


class Book:
    """Awaited runs by id, and awaited jobs with their runs."""

    def __init__(self) -> None:
        self.ids: dict[int, dict[Bell, None]] = {}
        self.seen: dict[int, Run] = {}
        self.refused: dict[int, BridgeError] = {}
        self.jobs: dict[int, Job] = {}

    def await_run(self, run_id: int, bell: Bell) -> None:
        """From now on the run is followed, and what was known of it before is not believed: it may have been repaired."""
        bells = self.ids.setdefault(run_id, {})
        if bell not in bells:
            bells[bell] = None
            self.seen.pop(run_id, None)
            self.refused.pop(run_id, None)

    def await_job(self, job_id: int, bell: Bell, from_ms: int) -> Job:
        """The job, with `bell` waiting for its runs from a start time on. `from_ms` of the job is not moved back here."""
        job = self.jobs.setdefault(job_id, Job(job_id, from_ms))
        job.bells[bell] = from_ms
        return job

    def forget(self, bell: Bell) -> None:
        """Drops all that only this one waited for."""
        for run_id in [run_id for run_id, bells in self.ids.items() if bell in bells]:
            del self.ids[run_id][bell]
            if not self.ids[run_id]:
                del self.ids[run_id]
                self.seen.pop(run_id, None)
                self.refused.pop(run_id, None)
        for job_id in [job_id for job_id, job in self.jobs.items() if bell in job.bells]:
            del self.jobs[job_id].bells[bell]
            if not self.jobs[job_id].bells:
                del self.jobs[job_id]

    @property
    def open_ids(self) -> list[int]:
        """Awaited runs that are not known to be over, or gone."""
        return [
            run_id
            for run_id in self.ids
            if not isinstance(self.refused.get(run_id), NotFound)
            and (run_id not in self.seen or is_active(self.seen[run_id]))
        ]

    def open_runs(self) -> Iterator[Run]:
        """Runs of awaited jobs that were open when they were last seen."""
        for job in self.jobs.values():
            yield from (run for run in job.runs.values() if is_active(run))

    def take(self, runs: Iterable[Run]) -> None:
        """Remembers these runs where somebody waits for them, and rings where an ending is new."""
        for run in runs:
            run_id, job = run["run_id"], self.jobs.get(run.get("job_id", 0))
            awaited = self.ids.get(run_id)
            if awaited is None and (job is None or run["start_time"] < job.from_ms):
                continue
            kept = {name: run[name] for name in _KEPT if name in run}
            over = not is_active(kept)
            if awaited is not None:
                if over:
                    _ring(awaited)
                self.seen[run_id] = kept
                self.refused.pop(run_id, None)
            if job is not None and run["start_time"] >= job.from_ms:
                if over and job.runs.get(run_id) != kept:
                    _ring(job.bells)
                job.runs[run_id] = kept

    def refuse(self, run_id: int, error: BridgeError) -> None:
        """The workspace does not show this run: it is gone, or we may not see it."""
        if run_id in self.ids:
            self.refused[run_id] = error
            _ring(self.ids[run_id])
        if isinstance(error, NotFound):
            for job in self.jobs.values():
                job.runs.pop(run_id, None)

    def prune(self) -> None:
        """Forgets runs that nobody asks for any more."""
        for job in self.jobs.values():
            from_ms = min(job.bells.values())
            if from_ms > job.from_ms:
                job.from_ms = from_ms
                job.runs = {run_id: run for run_id, run in job.runs.items() if run["start_time"] >= from_ms}


def _ring(bells: Iterable[Bell]) -> None:
    for bell in bells:
        bell.ring()
