"""The runs that a run feed remembers, and who waits for which of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from databricks_bridge.core.errors import BridgeError, NotFound
from databricks_bridge.core.outcomes import Ending, ended_at, outcome_of
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

GONE_SECONDS = 300.0
"""For so long a run that is not shown any more is still believed to be there: answers may be a little old."""

OVERLAP_MS = 10 * 60 * 1000
"""How far behind the newest start a listing reaches back: starts are not shown in the order in which they happen."""


def is_active(run: Run) -> bool:
    """Whether the run may still change by itself."""
    return outcome_of(run).ending is Ending.ACTIVE


@dataclass(eq=False)
class Job:
    """A job whose runs are waited for: all that started at or after `from_ms` are in `runs`.

    `details` is what `jobs/get` answered at the last check. Views by start and by end are kept until a run changes, for a
    thousand may ask between two rounds.
    """

    job_id: int
    from_ms: int
    bells: dict[Bell, int] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    open: dict[int, Run] = field(default_factory=dict)
    error: BridgeError | None = None
    checked_at: float = 0.0
    details: Mapping[str, Any] | None = None
    _by_start: list[tuple[int, int]] | None = None
    _by_end: list[tuple[int, int]] | None = None

    def ring(self) -> None:
        """Wakes all who wait for this job's runs."""
        _ring(self.bells)

    def put(self, run: Run) -> None:
        """Remembers the run as it is now."""
        run_id = run["run_id"]
        if self.runs.get(run_id) == run:
            return
        self.runs[run_id] = run
        if is_active(run):
            self.open[run_id] = run
        else:
            self.open.pop(run_id, None)
        self._by_start = self._by_end = None

    def drop(self, run_ids: Iterable[int]) -> None:
        """Forgets these runs."""
        for run_id in list(run_ids):
            self.runs.pop(run_id, None)
            self.open.pop(run_id, None)
        self._by_start = self._by_end = None

    def started(self, from_ms: int) -> list[Run]:
        """The runs that started at or after this time, newest first."""
        if self._by_start is None:
            self._by_start = sorted((run["start_time"], run_id) for run_id, run in self.runs.items())
        return [
            self.runs[run_id] for _, run_id in reversed(self._by_start[bisect_left(self._by_start, (from_ms, 0)) :])
        ]

    def ended(self, from_ms: int) -> list[Run]:
        """The runs that are over and ended at or after this time, in the order of their ends."""
        if self._by_end is None:
            over = (run for run_id, run in self.runs.items() if run_id not in self.open)
            self._by_end = sorted((ended_at(run), run["run_id"]) for run in over)
        return [self.runs[run_id] for _, run_id in self._by_end[bisect_left(self._by_end, (from_ms, 0)) :]]

    @property
    def list_from_ms(self) -> int:
        """Where a listing must begin to see what is new and what is open. Nothing is older than its first listing."""
        newest = max((run["start_time"] for run in self.runs.values()), default=self.from_ms)
        opened = min((run["start_time"] for run in self.open.values()), default=newest)
        return max(self.from_ms, min(opened, newest - OVERLAP_MS))


class Book:
    """Awaited runs by id, and awaited jobs with their runs."""

    def __init__(self) -> None:
        self.ids: dict[int, dict[Bell, None]] = {}
        self.seen: dict[int, Run] = {}
        self.refused: dict[int, BridgeError] = {}
        self.jobs: dict[int, Job] = {}
        self.missing: dict[int, float] = {}

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
            yield from job.open.values()

    def take(self, runs: Iterable[Run]) -> None:
        """Remembers these runs where somebody waits for them, and rings where an ending is new."""
        for run in runs:
            run_id, job = run["run_id"], self.jobs.get(run.get("job_id", 0))
            self.missing.pop(run_id, None)
            awaited = self.ids.get(run_id)
            if job is not None and (run.get("start_time") or -1) < job.from_ms:
                job = None
            if awaited is None and job is None:
                continue
            kept = {name: run[name] for name in _KEPT if name in run}
            over = not is_active(kept)
            if awaited is not None:
                if over:
                    _ring(awaited)
                self.seen[run_id] = kept
                self.refused.pop(run_id, None)
            if job is not None:
                if over and job.runs.get(run_id) != kept:
                    job.ring()
                job.put(kept)

    def refuse(self, run_id: int, error: BridgeError, at: float) -> None:
        """The workspace does not show this run: it is gone, or we may not see it.

        Of a job's runs it is dropped only when it has not been shown for `GONE_SECONDS`: a source would pass over it for good.

        :param run_id: the run that was asked for.
        :param error: what the workspace said.
        :param at: when it said so, by the feed's clock, in seconds.
        """
        if run_id in self.ids:
            if run_id not in self.refused or isinstance(error, NotFound):
                _ring(self.ids[run_id])
            self.refused[run_id] = error
        holders = [job for job in self.jobs.values() if run_id in job.runs]
        if not isinstance(error, NotFound) or not holders:
            self.missing.pop(run_id, None)
        elif at - self.missing.setdefault(run_id, at) >= GONE_SECONDS:
            del self.missing[run_id]
            for job in holders:
                job.drop([run_id])

    def prune(self) -> None:
        """Forgets runs that nobody asks for any more."""
        for job in self.jobs.values():
            from_ms = min(job.bells.values())
            if from_ms > job.from_ms:
                job.from_ms = from_ms
                job.drop([run_id for run_id, run in job.runs.items() if run["start_time"] < from_ms])


def _ring(bells: Iterable[Bell]) -> None:
    for bell in bells:
        bell.ring()
