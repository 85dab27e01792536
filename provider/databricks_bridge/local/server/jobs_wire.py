"""How a job looks on the wire (Jobs API 2.2: Job, BaseJob)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.starts import is_paused, starts
from databricks_bridge.local.server import pages
from databricks_bridge.local.server.job_names import run_as_name
from databricks_bridge.local.store import Job
from databricks_bridge.local.triggers.scheduler import kept_entries

_ARRAYS = ("tasks", "job_clusters", "environments", "parameters")
_DETAIL_NAMES = {"table": "table_update"}
"""Where `trigger_details[].state` says another word than `trigger_state`."""


def job_body(workspace: Workspace, job: Job, start: int) -> dict[str, Any]:
    """jobs/get: the arrays from element `start` on, a page of them, with the token of the next page."""
    arrays = [job.settings.get(name, []) for name in _ARRAYS]
    return {**_base(workspace, job, _settings(workspace, job, start)), **pages.next_token("job", start, *arrays)}


def listed_job(workspace: Workspace, job: Job, expand_tasks: bool) -> dict[str, Any]:
    """One item of jobs/list: without its arrays, or with the first page of each."""
    if not expand_tasks:
        return _base(workspace, job, {n: v for n, v in _settings(workspace, job, 0).items() if n not in _ARRAYS})
    more = any(len(job.settings.get(name, [])) > pages.PAGE for name in _ARRAYS)
    return {**_base(workspace, job, _settings(workspace, job, 0)), "has_more": more}


def trigger_state(job: Job, kept: Mapping[str, Any] | None, workspace: Workspace | None = None) -> dict[str, Any]:
    """`trigger_state` and `trigger_details` of jobs/get; empty for a job without a trigger.

    `kept` is what the scheduler saved. Databricks documents `trigger_details` for `settings.triggers`, with its history
    behind a flag of its own; here the one trigger of other jobs has an entry too, and each always has its history.
    With a `workspace` it says of monitored jobs whether they are deleted, where that is known.
    """
    present = starts(job.settings)
    if not present:
        return {}
    entries = kept_entries(kept, len(present))
    states = [
        {"pause_status": "PAUSED" if is_paused(start) else "UNPAUSED", **entry.get("api", {})}
        for start, entry in zip(present, entries, strict=True)
    ]
    if workspace is not None:
        states = [_with_deletions(workspace, state) for state in states]
    details = [
        {
            "state": {_DETAIL_NAMES.get(name, name): value for name, value in state.items()},
            "history": entry.get("history", {}),
        }
        for state, entry in zip(states, entries, strict=True)
    ]
    several = "triggers" in job.settings
    return {"trigger_details": details} | ({} if several else {"trigger_state": states[0]})


def _with_deletions(workspace: Workspace, state: Mapping[str, Any]) -> dict[str, Any]:
    """`is_deleted`: missing or deleted; left out for a job of a workspace that is not hosted here."""
    if "job_completion" not in state:
        return dict(state)
    hosted = {other.workspace_id: other.name for other in workspace.runs.workspaces.values()}
    monitored = []
    for one in state["job_completion"]["monitored_job_states"]:
        name = hosted.get(one["workspace_id"])
        gone = {} if name is None else {"is_deleted": workspace.store.job(int(one["job_id"]), name) is None}
        monitored.append({**one, **gone})
    return {**state, "job_completion": {"monitored_job_states": monitored}}


def _base(workspace: Workspace, job: Job, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "creator_user_name": workspace.user_name,
        "run_as_user_name": run_as_name(workspace, job.settings),
        "created_time": job.created_time,
        "settings": settings,
    }


def _settings(workspace: Workspace, job: Job, start: int) -> dict[str, Any]:
    """With run_as, also where the job was given none, as the CLI's recordings of a real workspace have it."""
    settings = {**job.settings, "run_as": job.settings.get("run_as") or {"user_name": workspace.user_name}}
    if not settings.get("tasks"):
        settings.pop("tasks", None)
    return {name: pages.page(value, start) if name in _ARRAYS else value for name, value in settings.items()}
