"""The finished runs of a job, as a source."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from databricks_bridge.core.errors import BridgeError, Unavailable
from databricks_bridge.core.outcomes import Ending, ended_at, outcome_of
from databricks_bridge.core.pending import RunsFinding
from databricks_bridge.core.positions import Position, RunsPosition
from databricks_bridge.core.record import Claim
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.feeds.new_states import warn_once
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

OVERLAP = timedelta(hours=1)
OVERLAP_RUNS = 24
"""How far behind the newest start finished runs are remembered by id, and at least how many of them: runs end in another
order than they start, and one that failed may be repaired long after. So many are one page of a listing."""


MOST_RUNS = 100
"""In one range: what a claim on so many runs writes into its record fits the smallest ledger. The others wait for the next."""


class Runs(Protocol):
    """Who is asked for runs: a workspace, or the feed of one."""

    async def job_of(self, job_id: int | None, job_name: str | None, max_age: float | None = None) -> int:
        """The job's id, its name looked up at most `max_age` seconds ago. Raises NotFound, InvalidArgument."""
        ...

    def list_runs(
        self,
        *,
        job_id: int,
        start_time_from_ms: int,
        end_time_from_ms: int | None = None,
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Runs of the job, newest start first; with `end_time_from_ms` without those that were over before, in any order."""
        ...


@dataclass(frozen=True)
class LiveRuns:
    """The runs of a workspace, asked for anew each time."""

    workspace: Workspace

    async def job_of(self, job_id: int | None, job_name: str | None, max_age: float | None = None) -> int:
        return await job_of(self.workspace, job_id, job_name)

    async def list_runs(
        self,
        *,
        job_id: int,
        start_time_from_ms: int,
        end_time_from_ms: int | None = None,
    ) -> AsyncIterator[Mapping[str, Any]]:
        listing = self.workspace.list_runs(job_id=job_id, start_time_from_ms=start_time_from_ms)
        async for run in listing:
            over = outcome_of(run).ending is not Ending.ACTIVE
            if end_time_from_ms is None or not over or ended_at(run) >= end_time_from_ms:
                yield run


async def job_of(workspace: Workspace, job_id: int | None, job_name: str | None) -> int:
    """The job's id, looked up by its exact name where only that is given. Raises NotFound, InvalidArgument."""
    if job_id is not None:
        return job_id
    return await workspace.find_job(str(job_name))


async def is_active(open_workspace: Callable[[str], Awaitable[Workspace]], claim: Claim) -> bool:
    """Whether the claim's run is under way, for one request. Raises what `ending_of` raises."""
    return await ending_of(open_workspace, claim) is Ending.ACTIVE


async def ending_of(open_workspace: Callable[[str], Awaitable[Workspace]], claim: Claim) -> Ending:
    """How the claim's run stands, for one request.

    Raises what a workspace raises: NotFound for a run that is gone; Unavailable where the record does not say by which
    connection to ask, or that connection leads to another workspace by now.

    :param open_workspace: the open client of a connection
    """
    if claim.run_id is None or not claim.conn_id:
        raise Unavailable(
            f"the record does not say by which connection to ask about run {claim.run_id} of {claim.target}"
        )
    workspace = await open_workspace(claim.conn_id)
    if workspace.host != claim.target.host:
        raise Unavailable(
            f"connection {claim.conn_id!r} leads to {workspace.host}, and the run is one of {claim.target}"
        )
    return outcome_of(await workspace.get_run(claim.run_id)).ending


async def ending_or_none(open_workspace: Callable[[str], Awaitable[Workspace]], claim: Claim) -> Ending | None:
    """The same; None where it cannot be told: then the consumer looks itself, and fails where an author sees it."""
    try:
        return await ending_of(open_workspace, claim)
    except BridgeError as error:
        log.info("run %s cannot be looked at from here: %s", claim.run_id, error)
        return None


async def look_at_runs(runs: Runs, source: TriggeredRuns, mark: Position | None) -> RunsFinding:
    """All finished runs above the mark: those of the wanted trigger and result count, those of another trigger are only done.

    One of the wanted trigger with another result is neither: a person may repair it, and then it counts. It holds nothing
    either; once the mark has passed its start it is not looked at any more. One that is still open when the mark passes
    its start is kept in the mark by its id. Of a long backlog the oldest `MOST_RUNS` are in one finding.
    """
    job_id = await runs.job_of(source.job_id, source.job_name)
    known = mark if isinstance(mark, RunsPosition) else RunsPosition(0)
    listed = [run async for run in runs.list_runs(job_id=job_id, start_time_from_ms=known.oldest_ms)]
    finished = [run for run in listed if outcome_of(run).ending is not Ending.ACTIVE]
    still_open = [run for run in listed if outcome_of(run).ending is Ending.ACTIVE]
    new = [run for run in finished if not known.has(*_place(run))]
    awaited = [run for run in still_open if run.get("trigger") in source.triggers and not known.has(*_place(run))]
    for run in awaited:
        warn_once(run)
    counted = sorted((run for run in new if matches(run, source)), key=lambda run: (ended_at(run), run["run_id"]))
    changed_at = _time(ended_at(counted[-1])) if counted else None
    waiting = sorted(counted, key=_place)[MOST_RUNS:]
    if waiting:
        # As if nothing had started from the first of these on.
        cut = _place(waiting[0])
        finished, new = ([run for run in some if _place(run) < cut] for some in (finished, new))
        counted = [run for run in counted if _place(run) < cut]
    settled = {run["run_id"] for run in new if matches(run, source) or run.get("trigger") not in source.triggers}
    low_water = max(known.low_water_ms, _passed(sorted(run["start_time"] for run in finished)))
    # what was done stays so: a repair of it is no other run
    done = {run["run_id"] for run in listed if run["start_time"] >= low_water} & (known.done | settled)
    late = {_place(run) for run in (*awaited, *waiting) if run["start_time"] < low_water}
    position = RunsPosition(low_water, frozenset(done), late=frozenset(late))
    return RunsFinding(position, tuple(run["run_id"] for run in counted), changed_at)


def _place(run: Mapping[str, Any]) -> tuple[int, int]:
    return run["start_time"], run["run_id"]


def _passed(starts: list[int]) -> int:
    """The start before which no finished run is kept by its id, of these starts, oldest first; 0 for too few."""
    if len(starts) < OVERLAP_RUNS:
        return 0
    return min(starts[-OVERLAP_RUNS], starts[-1] - int(OVERLAP.total_seconds() * 1000))


def matches(run: Mapping[str, Any], wanted: TriggeredRuns) -> bool:
    """Whether a finished run is of a wanted trigger kind and ended in a wanted result."""
    outcome = outcome_of(run)
    return (
        outcome.ending is not Ending.ACTIVE
        and run.get("trigger") in wanted.triggers
        and outcome.result_state in wanted.run_state
    )


def _time(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
