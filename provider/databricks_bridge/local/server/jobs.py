"""Routes of jobs: create, get, list, update, reset, delete (Jobs API 2.0, 2.1 and 2.2 alike)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.request_fields.declaration import declaration
from databricks_bridge.local.server import pages
from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.job_names import refuse_names_of_nothing
from databricks_bridge.local.server.job_settings import completed, merged
from databricks_bridge.local.server.jobs_wire import job_body, listed_job, trigger_state
from databricks_bridge.local.server.permissions import given_access, keep_access
from databricks_bridge.local.server.requests import JOBS_VERSIONS, Arguments, api_router
from databricks_bridge.local.server.trigger_limits import refuse_what_cannot_be_watched
from databricks_bridge.local.store import Job

DEFAULT_LIMIT, MAX_LIMIT, LARGEST_OFFSET = 20, 100, 1000


def router(workspace: Workspace) -> APIRouter:
    """The jobs of one workspace."""
    routes = {
        ("POST", "jobs/create"): _create,
        ("GET", "jobs/get"): _get,
        ("GET", "jobs/list"): _list,
        ("POST", "jobs/update"): _update,
        ("POST", "jobs/reset"): _reset,
        ("POST", "jobs/delete"): _delete,
    }
    return api_router(workspace, routes, JOBS_VERSIONS)


def existing_job(workspace: Workspace, job_id: int) -> Job:
    """The job of this workspace. Raises InvalidParameterValue in the words that the official SDK looks for."""
    job = workspace.store.job(job_id, workspace.name)
    if job is None:
        raise InvalidParameterValue(f"Job {job_id} does not exist.")
    return job


def _create(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    _refuse_one_task_at_the_top(given)
    known = declaration().objects["jobs.JobSettings"]
    settings = completed({name: value for name, value in given.values.items() if name in known})
    access = given_access(given.values.get("access_control_list"))
    refuse_names_of_nothing(workspace, settings)
    refuse_what_cannot_be_watched(workspace, settings, None)
    job_id = workspace.store.add_job(workspace.name, settings, _now_ms(workspace)).job_id
    if access:
        keep_access(workspace, str(job_id), {}, access)
    return {"job_id": job_id}


def _refuse_one_task_at_the_top(given: Arguments) -> None:
    if any(name.endswith("_task") for name in given.values):
        raise InvalidParameterValue(words(Area.SETTING, "jobs/create in the form of API 2.0"))


def _get(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    job = existing_job(workspace, given.integer("job_id"))
    body = job_body(workspace, job, pages.start_of(given.text("page_token"), "job"))
    if given.boolean("include_trigger_state") or given.boolean("include_trigger_history"):
        body |= trigger_state(job, workspace.store.trigger_state(job.job_id), workspace)
    return body


def _list(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    limit = given.integer("limit", DEFAULT_LIMIT)
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidParameterValue(f"limit must be from 1 to {MAX_LIMIT}; it is {limit}")
    name = given.text("name")
    jobs = [job for job in workspace.store.jobs(workspace.name) if name is None or job.name.lower() == name.lower()]
    start = pages.offset_of(given, LARGEST_OFFSET)
    if token := given.text("page_token"):
        direction, job_id = pages.decode(token, "jobs", 2)
        if direction == "next":
            start = sum(1 for job in jobs if job.job_id >= job_id)
        else:
            newer = sum(1 for job in jobs if job.job_id > job_id)
            start, limit = max(0, newer - limit), min(limit, newer)
    shown = jobs[start : start + limit]
    more = len(jobs) > start + limit
    body: dict[str, Any] = {"has_more": more}
    if shown:
        body["jobs"] = [listed_job(workspace, job, given.boolean("expand_tasks")) for job in shown]
        if more:
            body["next_page_token"] = pages.encode("jobs", "next", shown[-1].job_id)
        if start > 0:
            body["prev_page_token"] = pages.encode("jobs", "prev", shown[0].job_id)
    return body


def _update(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    job = existing_job(workspace, given.integer("job_id"))
    settings = merged(job.settings, given.mapping("new_settings"), given.texts("fields_to_remove"))
    return _change(workspace, job, completed(settings))


def _reset(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    job = existing_job(workspace, given.integer("job_id"))
    settings = completed(given.mapping("new_settings"))
    # Leaving run_as out of a reset does not clear it.
    kept = {"run_as": job.settings["run_as"]} if "run_as" in job.settings else {}
    return _change(workspace, job, {**kept, **settings})


def _change(workspace: Workspace, job: Job, settings: dict[str, Any]) -> dict[str, Any]:
    refuse_names_of_nothing(workspace, settings)
    refuse_what_cannot_be_watched(workspace, settings, job.job_id)
    workspace.store.change_job(job.job_id, settings, _now_ms(workspace))
    workspace.runs.promote(job.job_id)
    return {}


def _delete(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    workspace.store.remove_job(existing_job(workspace, given.integer("job_id")).job_id, _now_ms(workspace))
    return {}


def _now_ms(workspace: Workspace) -> int:
    return int(workspace.now() * 1000)
