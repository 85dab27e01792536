"""What the tasks of a job may look like, each kind for itself: checked and completed here. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from databricks_bridge.local.refusals import Area, names, words
from databricks_bridge.local.runs.for_each import parsed_inputs
from databricks_bridge.local.runs.plan import RUN_IF
from databricks_bridge.local.runs.references import UnknownReference, check
from databricks_bridge.local.runs.work import KINDS, OPERATORS
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue
from databricks_bridge.local.server.followed_settings import refuse_of_task

_TASK_KEY = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MOST_CONCURRENCY = 100
MOST_TASKS = 1000
"""Of a job, or of a run that is submitted without one (SDK, JobSettings.tasks)."""
LARGEST_NUMBER = 2**31 - 1
"""Of durations and counts: they are 32-bit numbers in the SDK."""

Settings = dict[str, Any]
Check = Callable[[str], None]
"""Refuses text with a reference that can never resolve."""


def checked_tasks(tasks: Any, job_parameters: frozenset[str] = frozenset()) -> list[Settings]:
    """The tasks, each with its defaults. Raises InvalidParameterValue, or FeatureDisabled for other task kinds."""
    if not is_objects(tasks):
        raise InvalidParameterValue("tasks must be a list of objects")
    if len(tasks) > MOST_TASKS:
        raise InvalidParameterValue(f"tasks may have at most {MOST_TASKS} elements, not {len(tasks)}")
    nested = [loop["task"] for task in tasks if is_objects([loop := task.get("for_each_task")]) and "task" in loop]
    keys = [task.get("task_key") for task in [*tasks, *(item for item in nested if isinstance(item, dict))]]
    seen: set[str] = set()
    for key in keys:
        if not isinstance(key, str) or not _TASK_KEY.fullmatch(key):
            raise InvalidParameterValue(f"task_key {key!r} must be 1 to 100 letters, digits, underscores or hyphens")
        if key in seen:
            raise InvalidParameterValue(f"task_key {key!r} is used by more than one task")
        seen.add(key)
    own = frozenset(str(task["task_key"]) for task in tasks)
    completed_tasks = [_checked_task(task, own, job_parameters) for task in tasks]
    _refuse_cycle(completed_tasks)
    return completed_tasks


def check_references(
    text: str, job_parameters: frozenset[str], task_keys: frozenset[str], *, iterates: bool = False
) -> None:
    """Raises InvalidParameterValue for a reference that can never resolve."""
    try:
        check(text, job_parameters=job_parameters, task_keys=task_keys, iterates=iterates)
    except UnknownReference as error:
        raise InvalidParameterValue(str(error)) from None


def _checked_task(
    task: Settings, keys: frozenset[str], job_parameters: frozenset[str], *, iterates: bool = False
) -> Settings:
    key = task["task_key"]
    kinds = [name for name in task if name.endswith(("_task", "_task_v2"))]
    served = [name for name in KINDS if not (iterates and name == "for_each_task")]
    for kind in kinds:
        if kind in names(Area.TASK):
            raise FeatureDisabled(f"Task {key}: {words(Area.TASK, kind)}; it runs {', '.join(served)}")
        if kind not in served:
            raise InvalidParameterValue(f"Task {key}: a task here is one of {', '.join(served)}, not {kind}")
    if not kinds:
        raise InvalidParameterValue(f"Task {key} has no task of its own; give a notebook_task")
    if len(kinds) > 1:
        raise InvalidParameterValue(f"Task {key} must be of one kind, not {' and '.join(kinds)}")
    run_if = task.get("run_if", "ALL_SUCCESS")
    if run_if not in RUN_IF:
        raise InvalidParameterValue(f"Task {key}: run_if {run_if!r} is not one of {', '.join(RUN_IF)}")
    for name in ("timeout_seconds", "min_retry_interval_millis"):
        whole_number(task.get(name, 0), f"Task {key}: {name}", 0, LARGEST_NUMBER)
    whole_number(task.get("max_retries", 0), f"Task {key}: max_retries", -1, LARGEST_NUMBER)
    _check_upstream(task, keys)
    kind = kinds[0]
    given = task[kind]
    if not isinstance(given, dict):
        raise InvalidParameterValue(f"Task {key}: {kind} must be an object")

    def check_text(text: str) -> None:
        check_references(text, job_parameters, keys, iterates=iterates)

    if kind == "for_each_task":
        checked = _for_each(key, given, keys, job_parameters, check_text)
    else:
        checked = _BODIES[kind](key, given, check_text)
    refuse_of_task(task)
    defaults = {"timeout_seconds": 0, "email_notifications": {}}
    return {**defaults, **task, "run_if": run_if, kind: checked}


def _check_upstream(task: Settings, keys: frozenset[str]) -> None:
    key = task["task_key"]
    if not is_objects(task.get("depends_on", [])):
        raise InvalidParameterValue(f"Task {key}: depends_on must be a list of objects")
    for item in task.get("depends_on", []):
        if item.get("task_key") not in keys or item.get("task_key") == key:
            raise InvalidParameterValue(f"Task {key} depends on {item!r}, which is not another task of this job")
        if item.get("outcome", "true") not in ("true", "false"):
            raise InvalidParameterValue(f"Task {key}: depends_on.outcome is {item['outcome']!r}; use true or false")


def _notebook(key: str, notebook: Settings, check_text: Check) -> Settings:
    path = notebook.get("notebook_path")
    if not isinstance(path, str) or not path:
        raise InvalidParameterValue(f"Task {key}: notebook_task.notebook_path is missing")
    _refuse_git(key, notebook)
    if not path.startswith("/"):
        raise InvalidParameterValue(f"Task {key}: notebook_path {path!r} must be absolute, such as /Shared/notebook")
    _texts_by_name(key, "base_parameters", notebook.get("base_parameters", {}), check_text)
    return {**notebook, "source": "WORKSPACE"}


def _python(key: str, python: Settings, check_text: Check) -> Settings:
    path = python.get("python_file")
    if not isinstance(path, str) or not path:
        raise InvalidParameterValue(f"Task {key}: spark_python_task.python_file is missing")
    _refuse_git(key, python)
    if not path.removeprefix("dbfs:").startswith("/"):
        raise InvalidParameterValue(
            f"Task {key}: python_file {path!r} must be absolute: /Workspace/... or /Volumes/..."
        )
    parameters = python.get("parameters", [])
    if not isinstance(parameters, list) or not all(isinstance(item, str) for item in parameters):
        raise InvalidParameterValue(f"Task {key}: spark_python_task.parameters must be a list of strings")
    for item in parameters:
        check_text(item)
    return python


def _sql(key: str, settings: Settings, check_text: Check) -> Settings:
    for other in ("query", "dashboard", "alert"):
        if other in settings:
            raise FeatureDisabled(f"Task {key}: {words(Area.SETTING, f'sql_task.{other}')}")
    file = settings.get("file")
    path = file.get("path") if isinstance(file, dict) else None
    if isinstance(file, dict):
        _refuse_git(key, file)
    if not isinstance(path, str) or not path.startswith("/"):
        raise InvalidParameterValue(f"Task {key}: sql_task.file.path must be the absolute path of a workspace file")
    if not isinstance(settings.get("warehouse_id"), str):
        raise InvalidParameterValue(f"Task {key}: sql_task.warehouse_id is missing")
    _texts_by_name(key, "sql_task.parameters", settings.get("parameters", {}), check_text)
    return settings


def _condition(key: str, condition: Settings, check_text: Check) -> Settings:
    if condition.get("op") not in OPERATORS:
        raise InvalidParameterValue(f"Task {key}: condition_task.op must be one of {', '.join(OPERATORS)}")
    for side in ("left", "right"):
        if not isinstance(condition.get(side), str):
            raise InvalidParameterValue(f"Task {key}: condition_task.{side} must be text")
        check_text(condition[side])
    return condition


def _run_job(key: str, settings: Settings, check_text: Check) -> Settings:
    whole_number(settings.get("job_id"), f"Task {key}: run_job_task.job_id", 1, 2**63 - 1)
    _texts_by_name(key, "run_job_task.job_parameters", settings.get("job_parameters", {}), check_text)
    return settings


def _for_each(
    key: str, loop: Settings, keys: frozenset[str], job_parameters: frozenset[str], check_text: Check
) -> Settings:
    inputs, nested = loop.get("inputs"), loop.get("task")
    if not isinstance(inputs, str):
        raise InvalidParameterValue(f"Task {key}: for_each_task.inputs must be text: a JSON list or a reference")
    check_text(inputs)
    if "{{" not in inputs:
        try:
            parsed_inputs(inputs)
        except ValueError as error:
            raise InvalidParameterValue(f"Task {key}: {error}") from None
    whole_number(loop.get("concurrency", 1), f"Task {key}: for_each_task.concurrency", 1, _MOST_CONCURRENCY)
    if not isinstance(nested, dict):
        raise InvalidParameterValue(f"Task {key}: for_each_task.task is missing")
    for name in ("depends_on", "disabled"):
        if nested.get(name):
            raise InvalidParameterValue(f"Task {key}: the nested task of a for_each_task has no {name}")
    return {**loop, "task": _checked_task(nested, keys, job_parameters, iterates=True)}


_BODIES: Mapping[str, Callable[[str, Settings, Check], Settings]] = {
    "notebook_task": _notebook,
    "spark_python_task": _python,
    "sql_task": _sql,
    "condition_task": _condition,
    "run_job_task": _run_job,
}


def _refuse_git(key: str, settings: Settings) -> None:
    if settings.get("source", "WORKSPACE") != "WORKSPACE":
        raise FeatureDisabled(f"Task {key}: {words(Area.SETTING, 'source: GIT')}; give source WORKSPACE")


def _texts_by_name(key: str, name: str, given: Any, check_text: Check) -> None:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidParameterValue(f"Task {key}: {name} must map strings to strings")
    for value in given.values():
        check_text(value)


def _refuse_cycle(tasks: list[Settings]) -> None:
    waiting = {task["task_key"]: {item["task_key"] for item in task.get("depends_on", [])} for task in tasks}
    while free := [key for key, upstream in waiting.items() if not upstream & waiting.keys()]:
        for key in free:
            del waiting[key]
    if waiting:
        raise InvalidParameterValue(f"depends_on has a cycle among the tasks {', '.join(sorted(waiting))}")


def is_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def whole_number(value: Any, name: str, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidParameterValue(f"{name} must be a whole number, from {least} to {most}; it is {value!r}")
