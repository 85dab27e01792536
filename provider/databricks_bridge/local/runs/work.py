"""What the tasks of each kind do: notebooks, Python files, conditions, and runs of other jobs."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.refusals.model import HERE
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.endings import JOB_ENDINGS
from databricks_bridge.local.runs.means import Ended, Means
from databricks_bridge.local.runs.model import Attempt, Outcome, Run
from databricks_bridge.local.runs.notebooks import (
    find_notebook,
    find_python_file,
    notebook_run,
    reference_values_of,
    run_context,
)
from databricks_bridge.local.runs.plan import FAILED_MESSAGE, Task
from databricks_bridge.local.runs.progress import Progress
from databricks_bridge.local.runs.records import get_attempt, get_run, put_attempt
from databricks_bridge.local.runs.references import resolve, resolve_all, tasks_named
from databricks_bridge.local.runs.sql_task import run_sql_file
from databricks_bridge.local.sql.model import Publishes
from databricks_bridge.local.sql.system_schema import SYSTEM_CATALOG

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "GREATER_THAN": operator.gt,
    "GREATER_THAN_OR_EQUAL": operator.ge,
    "LESS_THAN": operator.lt,
    "LESS_THAN_OR_EQUAL": operator.le,
}
OPERATORS = ("EQUAL_TO", "NOT_EQUAL", *_COMPARE)
"""Jobs API, ConditionTaskOp: the first two compare text, the others numbers."""
KINDS = ("notebook_task", "spark_python_task", "sql_task", "condition_task", "run_job_task", "for_each_task")


def kind_of(task: Task) -> str:
    """The name of the field that says what the task does."""
    return next(kind for kind in KINDS if kind in task)


def is_serverless(settings: Mapping[str, Any], task: Task) -> bool:
    """Whether the task names no cluster, or one that is serverless: it is run on serverless compute then."""
    clusters = {item.get("job_cluster_key"): item for item in settings.get("job_clusters", ())}
    if "job_cluster_key" in task:
        return any(name.startswith("serverless") for name in clusters.get(task["job_cluster_key"], {}))
    return not {"new_cluster", "existing_cluster_id"} & task.keys()


def resolved_attempt(
    run: Run, task: Task, attempt: Attempt, progress: Progress, workspace: Workspace
) -> dict[str, Any]:
    """The fields of the attempt that its references give: what it is run with.

    A job parameter wins over a task parameter of the same name; notebook_params of run-now win over base_parameters.
    """
    kind = kind_of(task)
    given = task[kind]
    named = tasks_named(_texts([given, *run.notebook_params.values(), *run.python_params]))
    values = reference_values_of(run, task, attempt, progress.of(named), workspace)
    if kind == "notebook_task":
        base = {**given.get("base_parameters", {}), **run.notebook_params}
        resolved = resolve_all(base, values)
        job_parameters = {item["name"]: item["value"] for item in run.parameters}
        return {
            "parameters": {**resolved, **job_parameters},
            "base_parameters": resolved,
            "resolved": {kind: {"base_parameters": resolved}},
        }
    if kind == "spark_python_task":
        parameters = run.python_params or tuple(given.get("parameters", ()))
        return {"resolved": {kind: {"parameters": [resolve(text, values) for text in parameters]}}}
    if kind == "sql_task":
        job_parameters = {item["name"]: item["value"] for item in run.parameters}
        return {
            "resolved": {kind: {"parameters": {**resolve_all(given.get("parameters", {}), values), **job_parameters}}}
        }
    if kind == "condition_task":
        return {"resolved": {kind: {side: resolve(given[side], values) for side in ("left", "right")}}}
    if kind == "run_job_task":
        return {"resolved": {kind: {"job_parameters": resolve_all(given.get("job_parameters", {}), values)}}}
    return {"resolved": {kind: {"inputs": resolve(given["inputs"], values)}}}


def _texts(value: Any) -> Iterator[str]:
    """All text within settings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


async def work_of(
    means: Means, workspace: Workspace, run: Run, progress: Progress, task: Task, attempt: Attempt
) -> Ended:
    """Do the work of an attempt whose references are resolved. Cancelling the call stops it before it returns."""
    kind = kind_of(task)
    if kind == "condition_task":
        return _condition(task[kind], attempt)
    if kind == "sql_task":
        references = reference_values_of(run, task, attempt, [], workspace)
        return await run_sql_file(means, workspace, task[kind], attempt, references)
    if kind == "run_job_task":
        return await _run_job(means, workspace, run, task[kind], attempt)
    return await _run_code(means, workspace, run, progress, task, attempt)


_OTHER_LANGUAGES = {".sql": "a SQL", ".scala": "a Scala", ".r": "an R", ".R": "an R"}
"""Of notebooks that are kept and not run, by their extension on this disk."""


async def _run_code(
    means: Means, workspace: Workspace, run: Run, progress: Progress, task: Task, attempt: Attempt
) -> Ended:
    files = workspace.layout.workspace_files(workspace.name)
    if "notebook_task" in task:
        path, what = str(task["notebook_task"]["notebook_path"]), "notebook"
        found = find_notebook(files, path)
    else:
        path, what = str(task["spark_python_task"]["python_file"]), "file"
        found = find_python_file(workspace, path)
    if found is None:
        message = (
            f"Unable to access the {what} {path!r} in the workspace. Either it does not exist, or the "
            "identity used to run this job lacks the required permissions."
        )
        for suffix, language in _OTHER_LANGUAGES.items():
            if find_notebook(files, f"{path}{suffix}") is not None:
                message = f"The notebook {path!r} is {language} notebook; {HERE} runs Python notebooks, and SQL files as sql_task."
        return Ended(Outcome.NO_NOTEBOOK, message, {"error": message})
    await means.before_run(workspace.name)
    request = replace(
        notebook_run(run, attempt, found, workspace),
        arguments=tuple(attempt.resolved.get("spark_python_task", {}).get("parameters", ())),
        task_values=progress.task_values(),
        context=run_context(run, attempt, workspace, task),
        serverless=is_serverless(run.settings, task),
    )
    if isinstance(workspace.sql.runner, Publishes) and SYSTEM_CATALOG in found.read_text(errors="replace"):
        # The system tables are as of the start of the run.
        await asyncio.to_thread(workspace.sql.runner.publish, workspace.metastore)
    result = await means.engine.run(request)
    await means.holds.stop(run.run_id, "after_notebook")
    changes: dict[str, Any] = {"task_values": dict(result.task_values), "cells": tuple(result.cells)}
    if result.succeeded:
        return Ended(Outcome.SUCCESS, "", {**changes, "exit_value": result.exit_value})
    return Ended(Outcome.FAILED, FAILED_MESSAGE, {**changes, "error": result.error, "error_trace": result.error_trace})


def _condition(condition: Mapping[str, Any], attempt: Attempt) -> Ended:
    sides = attempt.resolved["condition_task"]
    left, right, op = sides["left"], sides["right"], condition["op"]
    if op in _COMPARE:
        try:
            holds = _COMPARE[op](float(left), float(right))
        except ValueError:
            message = f"The condition {left!r} {op} {right!r} needs numbers on both sides."
            return Ended(Outcome.FAILED, message, {"error": message})
    else:
        holds = (left == right) == (op == "EQUAL_TO")
    return Ended(Outcome.SUCCESS, "", {"condition": str(holds).lower()})


async def _run_job(
    means: Means, workspace: Workspace, run: Run, settings: Mapping[str, Any], attempt: Attempt
) -> Ended:
    child_id = attempt.child_run_id or _start_child(means, workspace, run, settings, attempt)
    if isinstance(child_id, Ended):
        return child_id
    try:
        child = await means.children.until_ended(child_id)
    except asyncio.CancelledError:
        # Stopped by a cancel or a time limit: so is the run that it started. At a shutdown both go on after the restart.
        means.children.cancel(child_id)
        raise
    assert child.outcome is not None, f"run {child_id} has not ended"
    if child.outcome in (Outcome.SUCCESS, Outcome.SUCCESS_WITH_FAILURES):
        return Ended(Outcome.SUCCESS)
    word = JOB_ENDINGS[child.outcome].result_state
    message = f"The run {child_id} of job {settings['job_id']} ended as {word}: {child.message}"
    outcome = Outcome.CANCELED if child.outcome is Outcome.CANCELED else Outcome.FAILED
    return Ended(outcome, message, {"error": message})


def _start_child(
    means: Means, workspace: Workspace, run: Run, settings: Mapping[str, Any], attempt: Attempt
) -> int | Ended:
    job = means.store.job(int(settings["job_id"]), workspace.name)
    if job is None:
        message = f"Job {settings['job_id']} does not exist."
        return Ended(Outcome.NO_NOTEBOOK, message, {"error": message})
    if job.job_id in _jobs_above(means, run):
        message = f"Job {job.job_id} would run itself: a run of it started this one."
        return Ended(Outcome.FAILED, message, {"error": message})
    order = Order(
        job_id=job.job_id,
        settings=job.settings,
        trigger="RUN_JOB_TASK",
        trigger_info={"run_id": attempt.run_id},
        job_parameters=attempt.resolved["run_job_task"]["job_parameters"],
    )
    with means.store.transaction():
        child = means.children.create(workspace, order)
        current = get_attempt(means.store, attempt.run_id)
        assert current is not None, f"task run {attempt.run_id} has no record"
        put_attempt(means.store, replace(current, child_run_id=child.run_id))
    return child.run_id


def _jobs_above(means: Means, run: Run) -> set[int | None]:
    """The jobs of this run and of those that started it, one from within the other."""
    found = {run.job_id}
    above: Run | None = run
    while above is not None and above.trigger == "RUN_JOB_TASK":
        task_run = get_attempt(means.store, int(above.trigger_info["run_id"]))
        above = None if task_run is None else get_run(means.store, task_run.job_run_id)
        found.add(None if above is None else above.job_id)
    return found
