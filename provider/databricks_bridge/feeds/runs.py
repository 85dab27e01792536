"""The finished runs of a job, as a source and as a plain wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.pending import RunsFinding
from databricks_bridge.core.positions import Position, RunsPosition
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.workspace.client import Workspace

OVERLAP = timedelta(hours=1)
"""How far behind the newest start finished runs are remembered by id: runs end in another order than they start."""

LONGEST_RUN = timedelta(days=2)
"""A plain wait finds a run that ends after `since` when it started at most this long before it."""


@dataclass(frozen=True)
class TriggeredRun:
    """A finished run that a plain wait was waiting for. Times are epoch milliseconds, as the API has them."""

    run_id: int
    job_id: int
    trigger: str
    result_state: str
    start_time: int
    end_time: int
    run_page_url: str
    job_parameters: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "job_parameters": dict(self.job_parameters)}


class Runs(Protocol):
    """Who is asked for runs: a workspace, or the feed of one."""

    async def job_of(self, job_id: int | None, job_name: str | None) -> int:
        """The job's id. Raises NotFound, InvalidArgument."""
        ...

    def list_runs(
        self, *, job_id: int, start_time_from_ms: int, completed_only: bool = False
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Runs of the job, newest start first."""
        ...


@dataclass(frozen=True)
class LiveRuns:
    """The runs of a workspace, asked for anew each time."""

    workspace: Workspace

    async def job_of(self, job_id: int | None, job_name: str | None) -> int:
        return await job_of(self.workspace, job_id, job_name)

    def list_runs(
        self, *, job_id: int, start_time_from_ms: int, completed_only: bool = False
    ) -> AsyncIterator[Mapping[str, Any]]:
        return self.workspace.list_runs(
            job_id=job_id, start_time_from_ms=start_time_from_ms, completed_only=completed_only
        )


async def job_of(workspace: Workspace, job_id: int | None, job_name: str | None) -> int:
    """The job's id, looked up by its exact name where only that is given. Raises NotFound, InvalidArgument."""
    if job_id is not None:
        return job_id
    return await workspace.find_job(str(job_name))


async def look_at_runs(runs: Runs, source: TriggeredRuns, mark: Position | None) -> RunsFinding:
    """All finished runs above the mark: those of the wanted trigger and result count, those of another trigger are only done.

    One of the wanted trigger with another result is neither: a person may repair it, and then it counts. It holds nothing
    either; once the mark has passed its start it is not looked at any more.
    """
    job_id = await runs.job_of(source.job_id, source.job_name)
    known = mark if isinstance(mark, RunsPosition) else RunsPosition(0)
    finished: list[Mapping[str, Any]] = []
    open_starts: list[int] = []
    async for run in runs.list_runs(job_id=job_id, start_time_from_ms=known.low_water_ms):
        if outcome_of(run).ending is Ending.ACTIVE:
            open_starts.append(run["start_time"])
        else:
            finished.append(run)
    new = [run for run in finished if run["run_id"] not in known.done]
    counted = sorted((run for run in new if matches(run, source)), key=lambda run: (run["end_time"], run["run_id"]))
    newest = max((run["start_time"] for run in finished), default=known.low_water_ms)
    low_water = max(known.low_water_ms, min([newest - int(OVERLAP.total_seconds() * 1000), *open_starts]))
    settled = [run for run in finished if matches(run, source) or run.get("trigger") not in source.triggers]
    done = frozenset(run["run_id"] for run in settled if run["start_time"] >= low_water)
    changed_at = _time(counted[-1]["end_time"]) if counted else None
    return RunsFinding(RunsPosition(low_water, done), tuple(run["run_id"] for run in counted), changed_at)


async def next_run(runs: Runs, wanted: TriggeredRuns, since: datetime) -> TriggeredRun | None:
    """The first run that matches and ended at or after `since`; None while there is none."""
    job_id = await runs.job_of(wanted.job_id, wanted.job_name)
    since_ms = int(since.timestamp() * 1000)
    from_ms = since_ms - int(LONGEST_RUN.total_seconds() * 1000)
    found: Mapping[str, Any] | None = None
    async for run in runs.list_runs(job_id=job_id, completed_only=True, start_time_from_ms=max(0, from_ms)):
        ended_in_time = run.get("end_time", 0) >= since_ms
        if ended_in_time and matches(run, wanted) and (found is None or run["end_time"] <= found["end_time"]):
            found = run
    return None if found is None else _triggered(found)


def matches(run: Mapping[str, Any], wanted: TriggeredRuns) -> bool:
    """Whether a finished run is of a wanted trigger kind and ended in a wanted result."""
    outcome = outcome_of(run)
    return (
        outcome.ending is not Ending.ACTIVE
        and run.get("trigger") in wanted.triggers
        and outcome.result_state in wanted.run_state
    )


def _triggered(run: Mapping[str, Any]) -> TriggeredRun:
    return TriggeredRun(
        run_id=run["run_id"],
        job_id=run["job_id"],
        trigger=run["trigger"],
        result_state=outcome_of(run).result_state,
        start_time=run["start_time"],
        end_time=run["end_time"],
        run_page_url=run.get("run_page_url", ""),
        job_parameters=of_run(run),
    )


def _time(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
