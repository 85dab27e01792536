"""Routes that start and change runs: run-now, submit, cancel, cancel-all, delete, repair."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.refusals import Area, names, words
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.means import latest_attempts
from databricks_bridge.local.runs.model import Outcome, Phase, Run
from databricks_bridge.local.runs.plan import downstream_keys, only_tasks
from databricks_bridge.local.runs.records import (
    ACTIVE,
    RunFilter,
    get_attempt,
    get_run,
    keep_token,
    list_runs,
    remove_run,
    run_of_token,
)
from databricks_bridge.local.runs.starts import is_running_by_itself
from databricks_bridge.local.runs.work import KINDS
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue, InvalidState
from databricks_bridge.local.server.job_names import refuse_names_of_nothing
from databricks_bridge.local.server.job_settings import completed
from databricks_bridge.local.server.jobs import existing_job
from databricks_bridge.local.server.permissions import given_access
from databricks_bridge.local.server.requests import JOBS_VERSIONS, Arguments, api_router
from databricks_bridge.local.server.task_settings import check_references
from databricks_bridge.local.store import Job

TOKEN_LIMIT = 64
NOTEBOOK_PARAMS_LIMIT = 10_000
OTHER_PARAMS = (
    "jar_params",
    "python_named_params",
    "spark_submit_params",
    "sql_params",
    "dbt_commands",
    "pipeline_params",
)

OF_SUBMIT = (
    "budget_policy_id",
    "duration_target",
    "email_notifications",
    "environment_variables",
    "environments",
    "git_source",
    "health",
    "notification_settings",
    "performance_target",
    "queue",
    "run_as",
    "usage_policy_id",
    "webhook_notifications",
)
"""Settings of runs/submit that are those of a job."""
_TASK_KEY = re.compile(r"[A-Za-z0-9_-]{1,100}")


def router(workspace: Workspace) -> APIRouter:
    """What starts and changes the runs of one workspace."""
    routes = {
        ("POST", "jobs/run-now"): _run_now,
        ("POST", "jobs/runs/submit"): _submit,
        ("POST", "jobs/runs/cancel"): _cancel,
        ("POST", "jobs/runs/cancel-all"): _cancel_all,
        ("POST", "jobs/runs/delete"): _delete,
        ("POST", "jobs/runs/repair"): _repair,
    }
    return api_router(workspace, routes, JOBS_VERSIONS)


def existing_run(workspace: Workspace, run_id: int) -> Run:
    """The job run of this workspace. Raises InvalidParameterValue in the words that the official SDK looks for."""
    run = get_run(workspace.store, run_id, workspace.name)
    if run is None:
        raise InvalidParameterValue(f"Run {run_id} does not exist.")
    return run


def _run_now(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    job = existing_job(workspace, given.integer("job_id"))
    _refuse_other_params(given)
    if given.text("duration_target"):
        raise FeatureDisabled(words(Area.SETTING, "duration_target"))
    job_parameters = _job_parameters(given)
    notebook_params = given.text_map("notebook_params")
    if len(json.dumps({"notebook_params": notebook_params})) > NOTEBOOK_PARAMS_LIMIT:
        raise InvalidParameterValue(f"notebook_params may not be longer than {NOTEBOOK_PARAMS_LIMIT} bytes")
    if notebook_params and (job_parameters or job.settings.get("parameters")):
        raise InvalidParameterValue("The job uses job parameters; give job_parameters, not notebook_params")
    if not job.settings["tasks"]:
        raise InvalidParameterValue(f"Job {job.job_id} has no tasks to run")
    order = Order(
        job_id=job.job_id,
        settings=_only(job, given),
        job_parameters=job_parameters,
        notebook_params=notebook_params,
        python_params=_python_params(job, given),
        queue=_queue(given),
    )
    if is_running_by_itself(job.settings):
        _restart(workspace, job, given.text("idempotency_token"), order)
        return {}
    run_id = _create_once(workspace, given.text("idempotency_token"), order)
    return {"run_id": run_id, "number_in_job": run_id}


def _restart(workspace: Workspace, job: Job, token: str | None, order: Order) -> None:
    """Run-now of a continuous job that is not paused: its active run is cancelled, and the new one follows it."""
    if token is not None and run_of_token(workspace.store, workspace.name, token) is not None:
        return  # the same request again
    active = list_runs(workspace.store, workspace.name, RunFilter(job_id=job.job_id, active=True), None, -1)
    made = _create_once(workspace, token, replace(order, trigger="CONTINUOUS_RESTART", queue=True))
    # Queued ones first (they are the newest), so that ending the active one does not start them.
    for run in active:
        if run.run_id != made:
            workspace.runs.cancel(run.run_id)


def _only(job: Job, given: Arguments) -> Mapping[str, Any]:
    """The job's settings with the tasks that run-now's `only` names."""
    only = given.texts("only")
    if not only:
        return job.settings
    try:
        return {**job.settings, "tasks": only_tasks(job.settings["tasks"], only)}
    except KeyError as error:
        raise InvalidParameterValue(f"only: job {job.job_id} has no task {error.args[0]}") from None


def _python_params(job: Job, given: Arguments) -> tuple[str, ...]:
    parameters = tuple(given.texts("python_params"))
    if parameters and not any("spark_python_task" in task for task in job.settings["tasks"]):
        raise InvalidParameterValue("python_params cannot be given: the job has no spark_python_task")
    return parameters


def _submit(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    tasks = given.values.get("tasks")
    kinds = (*KINDS, *names(Area.TASK))
    if tasks is None and given.values.keys() & set(kinds):
        # The form of API 2.0: one task, written at the top level; the official operators look for it by the run's name.
        name = given.text("run_name") or ""
        legacy = (*kinds, "timeout_seconds", "new_cluster", "existing_cluster_id", "libraries")
        key = name if _TASK_KEY.fullmatch(name) else "main"
        tasks = [{"task_key": key, **{name: given.values[name] for name in legacy if name in given.values}}]
    if not tasks:
        raise InvalidParameterValue("runs/submit needs tasks")
    limit = given.integer("timeout_seconds", 0)
    more = {name: given.values[name] for name in OF_SUBMIT if name in given.values}
    settings = completed(
        {**more, "name": given.text("run_name") or "Untitled", "tasks": tasks, "timeout_seconds": limit}
    )
    given_access(given.values.get("access_control_list"))
    refuse_names_of_nothing(workspace, settings)
    order = Order(job_id=None, settings=settings)
    return {"run_id": _create_once(workspace, given.text("idempotency_token"), order)}


def _cancel(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    run_id = given.integer("run_id")
    attempt = get_attempt(workspace.store, run_id)
    if attempt is None:
        workspace.runs.cancel(existing_run(workspace, run_id).run_id)
    else:
        existing_run(workspace, attempt.job_run_id)
        workspace.runs.cancel_task(attempt)
    return {}


def _cancel_all(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    job_id = given.optional_integer("job_id")
    queued_only = given.boolean("all_queued_runs")
    if job_id is None and not queued_only:
        raise InvalidParameterValue("cancel-all needs a job_id, or all_queued_runs")
    if job_id is not None:
        existing_job(workspace, job_id)
    runs = list_runs(workspace.store, workspace.name, RunFilter(job_id=job_id, active=True), None, -1)
    # Queued ones first (they are the newest), so that ending an active one does not start them.
    for run in runs:
        if run.phase is Phase.QUEUED or not queued_only:
            workspace.runs.cancel(run.run_id)
    return {}


def _delete(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    run = existing_run(workspace, given.integer("run_id"))
    if run.phase in ACTIVE:
        raise InvalidState(f"Run {run.run_id} is active and cannot be deleted; cancel it first")
    remove_run(workspace.store, run.run_id)
    return {}


def _repair(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    run = existing_run(workspace, given.integer("run_id"))
    _refuse_other_params(given)
    if given.text_map("notebook_params"):
        raise FeatureDisabled(
            "runs/repair: notebook_params is not supported by the local workspace; use job_parameters"
        )
    if given.texts("python_params"):
        raise FeatureDisabled("runs/repair: python_params is not supported by the local workspace")
    if run.phase in ACTIVE:
        raise InvalidState(f"Run {run.run_id} is in progress; only a run that has ended can be repaired")
    if run.outcome is Outcome.NO_SLOT:
        raise InvalidState(f"Run {run.run_id} was skipped; there is nothing to repair")
    last = run.repairs[-1].repair_id if run.repairs else None
    if given.optional_integer("latest_repair_id") != last and (last is not None or "latest_repair_id" in given.values):
        raise InvalidParameterValue(f"latest_repair_id must be the id of the latest repair of run {run.run_id}: {last}")
    keys = _keys_to_repair(workspace, given, run)
    return {"repair_id": workspace.runs.repair(run, keys, _job_parameters(given))}


def _keys_to_repair(workspace: Workspace, given: Arguments, run: Run) -> set[str]:
    named, all_failed = given.texts("rerun_tasks"), given.boolean("rerun_all_failed_tasks")
    if bool(named) == all_failed:
        raise InvalidParameterValue("runs/repair needs either rerun_tasks or rerun_all_failed_tasks")
    latest = latest_attempts(workspace.store, run)
    if twice := sorted({key for key in named if named.count(key) > 1}):
        raise InvalidParameterValue(f"rerun_tasks names {', '.join(twice)} more than once")
    if unknown := set(named) - latest.keys():
        raise InvalidParameterValue(f"Run {run.run_id} has no task {', '.join(sorted(unknown))}")
    keys = set(named)
    if all_failed:
        keys = {key for key, attempt in latest.items() if attempt.outcome is not Outcome.SUCCESS}
    if given.boolean("rerun_dependent_tasks"):
        keys = downstream_keys(run.settings["tasks"], keys)
    if not keys:
        raise InvalidParameterValue(f"Run {run.run_id} has no failed tasks to rerun")
    return keys


def _create_once(workspace: Workspace, token: str | None, order: Order) -> int:
    """Create the run, or find the one that the token stands for; both in one transaction."""
    if token is None:
        return workspace.runs.create(workspace, order).run_id
    if len(token) > TOKEN_LIMIT:
        raise InvalidParameterValue(f"idempotency_token may have at most {TOKEN_LIMIT} characters, not {len(token)}")
    with workspace.store.transaction():
        known = run_of_token(workspace.store, workspace.name, token)
        if known is not None:
            if get_run(workspace.store, known) is None:
                raise InvalidParameterValue(f"The run {known} of this idempotency_token was deleted")
            return known
        run = workspace.runs.create(workspace, order)
        keep_token(workspace.store, workspace.name, token, run.run_id)
        return run.run_id


def _job_parameters(given: Arguments) -> dict[str, str]:
    parameters = given.text_map("job_parameters")
    for value in parameters.values():
        check_references(value, frozenset(), frozenset())
    return parameters


def _queue(given: Arguments) -> bool | None:
    queue = given.mapping("queue")
    return Arguments(queue).boolean("enabled") if queue else None


def _refuse_other_params(given: Arguments) -> None:
    for name in OTHER_PARAMS:
        if given.values.get(name):
            raise InvalidParameterValue(f"{name} cannot be given: the job has no task that takes it")
