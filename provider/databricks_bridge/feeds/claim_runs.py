"""The run of a claim in its workspace: found, cancelled, and what its failed tasks say. One way for all who ask."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from databricks_bridge.core.errors import NotFound, Unavailable, WorkspaceError
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.parameter_names import TOKEN
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.record import Claim
from databricks_bridge.core.run_errors import failed_tasks, is_reader_behind, told
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

CLOCKS_APART = timedelta(days=1)
"""How much earlier than our claim, by the workspace's clock, its run is searched for."""


async def find_run(workspace: Workspace, claim: Claim, run_id: int | None = None) -> int | None:
    """The run that carries the claim's token, or has this id, in the listing of the claim's job; None where none does.

    :param workspace: the client of the claim's workspace.
    :param claim: the claim; its job's runs are listed from `CLOCKS_APART` before it was written.
    :param run_id: a run that counts whatever it carries.
    """
    from_ms = int((claim.created_at - CLOCKS_APART).timestamp() * 1000)
    try:
        async for run in workspace.list_runs(job_id=claim.target.job_id, start_time_from_ms=from_ms):
            if of_run(run).get(TOKEN) == claim.token or run["run_id"] == run_id:
                return int(run["run_id"])
    except NotFound:
        if await _is_there(workspace, claim.target.job_id):
            raise
        log.warning("%s is deleted: none of its runs is listed", claim.target)
    return None


async def _is_there(workspace: Workspace, job_id: int) -> bool:
    try:
        await workspace.get_job(job_id)
    except NotFound:
        return False
    return True


async def cancel_unless_over(workspace: Workspace, run_id: int) -> bool:
    """Ask for the run to be cancelled; False, and nothing done, where it is over.

    A run that is not shown is asked for too: it may be too young for that, and asking does no harm.
    """
    if not await may_be_active(workspace, run_id):
        return False
    try:
        await workspace.cancel_run(run_id)
    except NotFound:
        return False
    return True


async def may_be_active(workspace: Workspace, run_id: int) -> bool:
    """Whether the run is not known to be over."""
    try:
        return outcome_of(await workspace.get_run(run_id)).ending is Ending.ACTIVE
    except NotFound:
        return True


async def errors_of(workspace: Workspace, run: Mapping[str, Any]) -> tuple[str, bool]:
    """What the failed tasks of a failed run say, and whether all of them failed for a reader that is behind.

    Of each task the newest attempt counts. An answer that cannot be had is not worth failing for.
    """
    errors = [(str(task.get("task_key") or ""), await _error_of(workspace, task)) for task in failed_tasks(run)]
    return told(errors), is_reader_behind([error for _, error in errors])


async def _error_of(workspace: Workspace, task: Mapping[str, Any]) -> str:
    try:
        return str((await workspace.get_run_output(task["run_id"])).get("error") or "")
    except (WorkspaceError, Unavailable) as error:
        log.warning("the output of task run %s cannot be read: %s", task["run_id"], error)
        return ""
