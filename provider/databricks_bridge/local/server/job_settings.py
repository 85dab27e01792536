"""What a job may look like: settings are checked, completed and merged here. Pure.

Fields that this workspace does nothing with (notifications, tags, clusters, health) are kept and shown as given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from databricks_bridge.local.runs.plan import RUN_IF
from databricks_bridge.local.runs.references import UnknownReference, check
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue
from databricks_bridge.local.server.trigger_settings import check_starts

_TASK_KEY = re.compile(r"[A-Za-z0-9_-]{1,100}")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+")
_KEYED_ARRAYS = {"tasks": "task_key", "job_clusters": "job_cluster_key"}
_NOT_SETTINGS = ("access_control_list", "job_id")

Settings = dict[str, Any]


def completed(given: Mapping[str, Any]) -> Settings:
    """`given` with the values that jobs/get shows for what was left out. Raises InvalidParameterValue, FeatureDisabled."""
    settings: Settings = {
        "name": "Untitled",
        "email_notifications": {},
        "webhook_notifications": {},
        "timeout_seconds": 0,
        "max_concurrent_runs": 1,
        **{name: value for name, value in given.items() if name not in _NOT_SETTINGS},
        "format": "MULTI_TASK",
    }
    if not isinstance(settings["name"], str) or len(settings["name"]) > 4096:
        raise InvalidParameterValue("name must be text of at most 4096 characters")
    _whole_number(settings["timeout_seconds"], "timeout_seconds", 0, None)
    _whole_number(settings["max_concurrent_runs"], "max_concurrent_runs", 0, 1000)
    if not isinstance(settings.get("queue", {}), dict):
        raise InvalidParameterValue("queue must be an object, such as {'enabled': true}")
    names = _parameter_names(settings.get("parameters", []))
    settings["tasks"] = checked_tasks(settings.get("tasks", []), names)
    check_starts(settings)
    for item in settings.get("parameters", []):
        check_references(item["default"], frozenset(), frozenset())
    return settings


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any], remove: Iterable[str]) -> Settings:
    """jobs/update: top-level fields replaced, tasks and clusters merged by their key, `remove` taken away.

    `remove` may name an element: `tasks/<task_key>`. Raises InvalidParameterValue for `format` or `name`.
    """
    result: Settings = {**settings}
    for name, value in changes.items():
        if name in _KEYED_ARRAYS and _is_objects(value) and isinstance(settings.get(name), list):
            key = _KEYED_ARRAYS[name]
            changed = {item.get(key): item for item in value}
            kept = [changed.pop(item[key], item) for item in settings[name]]
            result[name] = [*kept, *changed.values()]
        else:
            result[name] = value
    for path in remove:
        name, _, element = path.partition("/")
        if name in ("name", "format"):
            raise InvalidParameterValue(f"fields_to_remove: {name} cannot be removed")
        if element and name in _KEYED_ARRAYS:
            key = _KEYED_ARRAYS[name]
            result[name] = [item for item in result.get(name, []) if item.get(key) != element]
        else:
            result.pop(name, None)
    return result


def checked_tasks(tasks: Any, job_parameters: frozenset[str] = frozenset()) -> list[Settings]:
    """The tasks, each with its defaults. Raises InvalidParameterValue, or FeatureDisabled for other task kinds."""
    if not _is_objects(tasks):
        raise InvalidParameterValue("tasks must be a list of objects")
    keys = [task.get("task_key") for task in tasks]
    for key in keys:
        if not isinstance(key, str) or not _TASK_KEY.fullmatch(key):
            raise InvalidParameterValue(f"task_key {key!r} must be 1 to 100 letters, digits, underscores or hyphens")
        if keys.count(key) > 1:
            raise InvalidParameterValue(f"task_key {key!r} is used by more than one task")
    completed_tasks = [_checked_task(task, frozenset(map(str, keys)), job_parameters) for task in tasks]
    _refuse_cycle(completed_tasks)
    return completed_tasks


def check_references(text: str, job_parameters: frozenset[str], task_keys: frozenset[str]) -> None:
    try:
        check(text, job_parameters=job_parameters, task_keys=task_keys)
    except UnknownReference as error:
        raise InvalidParameterValue(str(error)) from None


def _checked_task(task: Settings, keys: frozenset[str], job_parameters: frozenset[str]) -> Settings:
    key = task["task_key"]
    kinds = [name for name in task if name.endswith("_task")]
    for kind in kinds:
        if kind != "notebook_task":
            raise FeatureDisabled(f"Task {key}: the local workspace runs notebook_task only, not {kind}")
    if not kinds:
        raise InvalidParameterValue(f"Task {key} has no task of its own; give a notebook_task")
    run_if = task.get("run_if", "ALL_SUCCESS")
    if run_if not in RUN_IF:
        raise InvalidParameterValue(f"Task {key}: run_if {run_if!r} is not one of {', '.join(RUN_IF)}")
    for name in ("timeout_seconds", "min_retry_interval_millis"):
        _whole_number(task.get(name, 0), f"Task {key}: {name}", 0, None)
    _whole_number(task.get("max_retries", 0), f"Task {key}: max_retries", -1, None)
    if not _is_objects(task.get("depends_on", [])):
        raise InvalidParameterValue(f"Task {key}: depends_on must be a list of objects")
    for item in task.get("depends_on", []):
        if item.get("task_key") not in keys or item.get("task_key") == key:
            raise InvalidParameterValue(f"Task {key} depends on {item!r}, which is not another task of this job")
        if "outcome" in item:
            raise FeatureDisabled(f"Task {key}: depends_on.outcome is not supported by the local workspace")
    notebook = _checked_notebook(key, task["notebook_task"])
    for value in notebook.get("base_parameters", {}).values():
        check_references(value, job_parameters, keys)
    return {**task, "run_if": run_if, "notebook_task": notebook}


def _checked_notebook(key: str, notebook: Any) -> Settings:
    path = notebook.get("notebook_path") if isinstance(notebook, dict) else None
    if not isinstance(path, str) or not path:
        raise InvalidParameterValue(f"Task {key}: notebook_task.notebook_path is missing")
    if notebook.get("source", "WORKSPACE") != "WORKSPACE":
        raise FeatureDisabled(f"Task {key}: the local workspace runs notebooks of source WORKSPACE only")
    if not path.startswith("/"):
        raise InvalidParameterValue(f"Task {key}: notebook_path {path!r} must be absolute, such as /Shared/notebook")
    base = notebook.get("base_parameters", {})
    if not isinstance(base, dict) or not all(isinstance(value, str) for value in base.values()):
        raise InvalidParameterValue(f"Task {key}: base_parameters must map strings to strings")
    return {**notebook, "source": "WORKSPACE"}


def _parameter_names(parameters: Any) -> frozenset[str]:
    if not isinstance(parameters, list):
        raise InvalidParameterValue("parameters must be a list of {name, default}")
    names: list[str] = []
    for item in parameters:
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not _PARAMETER.fullmatch(name):
            raise InvalidParameterValue(f"parameter name {name!r} may hold letters, digits, '_', '-' and '.' only")
        if not isinstance(item.get("default"), str):
            raise InvalidParameterValue(f"parameter {name!r} needs a default, as text")
        names.append(name)
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameterValue(f"parameter {name!r} is declared twice")
    return frozenset(names)


def _refuse_cycle(tasks: list[Settings]) -> None:
    waiting = {task["task_key"]: {item["task_key"] for item in task.get("depends_on", [])} for task in tasks}
    while free := [key for key, upstream in waiting.items() if not upstream & waiting.keys()]:
        for key in free:
            del waiting[key]
    if waiting:
        raise InvalidParameterValue(f"depends_on has a cycle among the tasks {', '.join(sorted(waiting))}")


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _whole_number(value: Any, name: str, least: int, most: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidParameterValue(f"{name} must be a whole number, {bounds}; it is {value!r}")
