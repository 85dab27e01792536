"""Routes that read runs: get, list, get-output, export."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.means import latest_attempts
from databricks_bridge.local.runs.model import Attempt, Run
from databricks_bridge.local.runs.records import (
    Cursor,
    RunFilter,
    attempts_of,
    get_attempt,
    get_run,
    iterations_of,
    list_runs,
)
from databricks_bridge.local.server import pages
from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.requests import JOBS_VERSIONS, Arguments, api_router
from databricks_bridge.local.server.run_export import exported_views
from databricks_bridge.local.server.runs import existing_run
from databricks_bridge.local.server.runs_wire import (
    full_run,
    full_task_run,
    output_body,
    run_body,
    task_body,
)

DEFAULT_LIMIT, MAX_LIMIT, LARGEST_OFFSET = 20, 24, 10_000
"""Of runs/list: "greater than 0 and less than 25"; 0 means the maximum."""
RUN_TYPES = ("JOB_RUN", "WORKFLOW_RUN", "SUBMIT_RUN")


def router(workspace: Workspace) -> APIRouter:
    """What shows the runs of one workspace."""
    routes = {
        ("GET", "jobs/runs/get"): _get,
        ("GET", "jobs/runs/list"): _list,
        ("GET", "jobs/runs/get-output"): _get_output,
        ("GET", "jobs/runs/export"): _export,
    }
    return api_router(workspace, routes, JOBS_VERSIONS)


def _get(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    run_id = given.integer("run_id")
    run = get_run(workspace.store, run_id, workspace.name)
    start = pages.start_of(given.text("page_token"), "run")
    if run is None:
        return _task_run_alone(workspace, run_id, start, given.boolean("include_resolved_values"))
    return full_run(
        workspace,
        run,
        attempts_of(workspace.store, run.run_id),
        start=start,
        history=given.boolean("include_history"),
        resolved=given.boolean("include_resolved_values"),
    )


def _task_run_alone(workspace: Workspace, run_id: int, start: int, resolved: bool) -> dict[str, Any]:
    """runs/get for the id of a task run. Job runs and task runs have no id in common."""
    attempt = get_attempt(workspace.store, run_id)
    parent = existing_run(workspace, run_id if attempt is None else attempt.job_run_id)
    assert attempt is not None, f"run {run_id} has come to be meanwhile"
    iterations = iterations_of(workspace.store, attempt, start=start, limit=pages.PAGE + 1)
    return full_task_run(workspace, parent, attempt, iterations, start=start, resolved=resolved)


def _list(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    limit = given.integer("limit", DEFAULT_LIMIT) or MAX_LIMIT
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidParameterValue(f"limit must be greater than 0 and less than {MAX_LIMIT + 1}; it is {limit}")
    wanted, cursor = _filter(given), _cursor(given)
    offset = pages.offset_of(given, LARGEST_OFFSET)
    found = list_runs(workspace.store, workspace.name, wanted, cursor, offset + limit + 1)
    backwards = cursor is not None and cursor.newer
    beyond = len(found) > offset + limit
    shown = found[-limit:] if backwards else found[offset : offset + limit]
    more = backwards or beyond
    body: dict[str, Any] = {"has_more": more}
    if not shown:
        return body
    body["runs"] = [_listed(workspace, run, given.boolean("expand_tasks")) for run in shown]
    if more:
        body["next_page_token"] = _token("older", shown[-1])
    if beyond if backwards else cursor is not None or offset > 0:
        body["prev_page_token"] = _token("newer", shown[0])
    return body


def _get_output(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    run_id = given.integer("run_id")
    run, attempt = _task_run(workspace, run_id)
    return output_body(workspace, run, attempt)


def _export(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    run, attempt = _task_run(workspace, given.integer("run_id"))
    return exported_views(workspace, run, attempt, given.text("views_to_export") or "CODE")


def _task_run(workspace: Workspace, run_id: int) -> tuple[Run, Attempt]:
    attempt = get_attempt(workspace.store, run_id)
    if attempt is not None:
        return existing_run(workspace, attempt.job_run_id), attempt
    run = existing_run(workspace, run_id)
    latest = list(latest_attempts(workspace.store, run).values())
    if len(latest) == 1:
        return run, latest[0]
    if not latest:
        raise InvalidParameterValue(f"Run {run_id} was skipped and has no output")
    raise InvalidParameterValue(
        "Retrieving the output of runs with multiple tasks is not supported; give the run_id of one of its tasks: "
        + ", ".join(f"{attempt.task_key} {attempt.run_id}" for attempt in latest)
    )


def _listed(workspace: Workspace, run: Run, expand_tasks: bool) -> dict[str, Any]:
    body = run_body(workspace, run)
    if expand_tasks:
        attempts = attempts_of(workspace.store, run.run_id, limit=pages.PAGE + 1)
        body["tasks"] = [task_body(workspace, run, attempt) for attempt in attempts[: pages.PAGE]]
        body["has_more"] = len(attempts) > pages.PAGE
    return body


def _filter(given: Arguments) -> RunFilter:
    active_only, completed_only = given.boolean("active_only"), given.boolean("completed_only")
    if active_only and completed_only:
        raise InvalidParameterValue("active_only and completed_only cannot both be true")
    run_type = given.text("run_type")
    if run_type is not None and run_type not in RUN_TYPES:
        raise InvalidParameterValue(f"run_type is {run_type!r}; use one of {', '.join(RUN_TYPES)}")
    return RunFilter(
        job_id=given.optional_integer("job_id"),
        active=True if active_only else False if completed_only else None,
        run_type=run_type,
        start_time_from=given.optional_integer("start_time_from"),
        start_time_to=given.optional_integer("start_time_to"),
    )


def _token(side: str, run: Run) -> str:
    return pages.encode("runs", side, run.start_time, run.run_id)


def _cursor(given: Arguments) -> Cursor | None:
    token = given.text("page_token")
    if token is None:
        return None
    side, start_time, run_id = pages.decode(token, "runs", 3)
    return Cursor(int(start_time), int(run_id), newer=side == "newer")
