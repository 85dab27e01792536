"""A plain wait for the next finished run of a job that Databricks fired by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.core.outcomes import Ending, ended_at, outcome_of
from databricks_bridge.core.trigger_values import given_to, mapping_to_add
from databricks_bridge.feeds.new_states import warn_once
from databricks_bridge.feeds.runs import matches

if TYPE_CHECKING:
    from databricks_bridge.core.sources import TriggeredRuns
    from databricks_bridge.feeds.runs import Runs
    from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

LONGEST_RUN = timedelta(days=2)
"""A plain wait finds a run that ends after `since` when it started at most this long before it."""

VALUES_SECONDS = 30.0
"""What the request for the trigger's values may take: the wait is over, and they are not worth more of the author's time."""


@dataclass(frozen=True)
class TriggeredRun:
    """A finished run that a plain wait was waiting for. Times are epoch milliseconds, as the API has them. A job parameter
    whose reference is not resolved is None.
    """

    run_id: int
    job_id: int
    trigger: str
    result_state: str
    start_time: int
    end_time: int
    run_page_url: str
    job_parameters: Mapping[str, str | None]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "job_parameters": dict(self.job_parameters)}


@dataclass(frozen=True)
class Look:
    """What one look found: the run, or none yet. `under_way` are the active runs of the wanted kinds."""

    job_id: int
    run: TriggeredRun | None
    under_way: tuple[int, ...] = ()


async def next_run(runs: Runs, wanted: TriggeredRuns, since: datetime) -> TriggeredRun | None:
    """The first run that matches and ended at or after `since`; None while there is none."""
    return (await look_for_run(runs, wanted, since)).run


async def look_for_run(runs: Runs, wanted: TriggeredRuns, since: datetime) -> Look:
    """Look for the first run that matches and ended at or after `since`. One in a state new to us is warned of, once."""
    job_id = await runs.job_of(wanted.job_id, wanted.job_name)
    since_ms = int(since.timestamp() * 1000)
    from_ms = max(0, since_ms - int(LONGEST_RUN.total_seconds() * 1000))
    found: Mapping[str, Any] | None = None
    under_way: list[int] = []
    async for run in runs.list_runs(job_id=job_id, start_time_from_ms=from_ms, end_time_from_ms=since_ms):
        if run.get("trigger") not in wanted.triggers:
            continue
        if outcome_of(run).ending is Ending.ACTIVE:
            warn_once(run)
            under_way.append(run["run_id"])
        elif matches(run, wanted) and (found is None or ended_at(run) <= ended_at(found)):
            found = run
    return Look(job_id, None if found is None else _triggered(found), tuple(under_way))


async def whole_answer(workspace: Workspace, run: Mapping[str, Any]) -> dict[str, Any]:
    """`TriggeredRun.to_json()` with its parameters resolved and `trigger_values`, for one request more.

    Says in the log what the job does not map. Never raises: `trigger_values` is None where they cannot be read.
    """
    try:
        async with asyncio.timeout(VALUES_SECONDS):
            given = given_to(await workspace.get_run(run["run_id"], include_resolved_values=True))
    except (BridgeError, TimeoutError) as error:
        return without_values(run, error)
    except Exception as error:  # the run is found, and whatever its JSON holds must not lose it
        log.exception("run %s: its values cannot be read", run["run_id"])
        return without_values(run, error)
    if not given.mapped:
        log.info(
            "run %s: job %s maps nothing that its trigger gives to a parameter of its own; to have it here, add to the job's "
            "parameters: %s",
            run["run_id"],
            run["job_id"],
            mapping_to_add(str(run["trigger"])),
        )
    return {**run, "job_parameters": given.job_parameters, "trigger_values": given.values}


def without_values(run: Mapping[str, Any], error: BaseException) -> dict[str, Any]:
    """The answer where the values cannot be read; says so."""
    why = str(error) or type(error).__name__
    log.warning("run %s is found, but what its trigger gave to it cannot be read: %s", run["run_id"], why)
    return {**run, "trigger_values": None}


def _triggered(run: Mapping[str, Any]) -> TriggeredRun:
    return TriggeredRun(
        run_id=run["run_id"],
        job_id=run["job_id"],
        trigger=run["trigger"],
        result_state=outcome_of(run).result_state,
        start_time=run["start_time"],
        end_time=ended_at(run),
        run_page_url=run.get("run_page_url", ""),
        job_parameters=given_to(run).job_parameters,
    )
