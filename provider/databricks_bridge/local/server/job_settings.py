"""What a job may look like: settings are checked, completed and merged here. Pure.

Fields that decide nothing here (notifications, tags, sizes of clusters, health) are kept and shown as given; what would
change what a run does and is not followed is refused (`followed_settings.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.followed_settings import (
    refuse_in_continuous,
    refuse_keys_of_nothing,
    refuse_of_job,
)
from databricks_bridge.local.server.task_settings import (
    LARGEST_NUMBER,
    check_references,
    checked_tasks,
    is_objects,
    whole_number,
)
from databricks_bridge.local.server.trigger_settings import check_starts

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+")
_KEYED_ARRAYS = {"tasks": "task_key", "job_clusters": "job_cluster_key"}
_NOT_SETTINGS = ("access_control_list", "job_id")
_MAPS = frozenset(
    ("base_parameters", "job_parameters", "parameters", "tags", "custom_tags", "spark_conf", "spark_env_vars")
)
"""Objects whose names are the user's; their values are text and never null."""

Settings = dict[str, Any]


def completed(given: Mapping[str, Any]) -> Settings:
    """`given` with the values that jobs/get shows for what was left out, or is null.

    Raises InvalidParameterValue, FeatureDisabled.
    """
    given = _without_nulls(given)
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
    whole_number(settings["timeout_seconds"], "timeout_seconds", 0, LARGEST_NUMBER)
    whole_number(settings["max_concurrent_runs"], "max_concurrent_runs", 0, 1000)
    for name in ("queue", "run_as"):
        if not isinstance(settings.get(name, {}), dict):
            raise InvalidParameterValue(f"{name} must be an object")
    for name in ("job_clusters", "environments"):
        if not is_objects(settings.get(name, [])):
            raise InvalidParameterValue(f"{name} must be a list of objects")
    refuse_of_job(settings)
    names = _parameter_names(settings.get("parameters", []))
    settings["tasks"] = checked_tasks(settings.get("tasks", []), names)
    check_starts(settings)
    refuse_keys_of_nothing(settings)
    refuse_in_continuous(settings)
    for item in settings.get("parameters", []):
        check_references(item["default"], frozenset(), frozenset())
    return settings


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any], remove: Iterable[str]) -> Settings:
    """jobs/update: top-level fields replaced, tasks and clusters merged by their key, `remove` taken away.

    A field that is null in `changes` is not given and stays as it is.
    `remove` may name an element: `tasks/<task_key>`. Raises InvalidParameterValue for `format` or `name`.
    """
    result: Settings = {**settings}
    for name, value in _without_nulls(changes).items():
        key = _KEYED_ARRAYS.get(name, "")
        if key and _are_keyed(value, key) and _are_keyed(settings.get(name), key):
            changed = {item[key]: item for item in value}
            kept = [changed.pop(item[key], item) for item in settings[name]]
            result[name] = [*kept, *changed.values()]
        else:
            result[name] = value
    for path in remove:
        name, _, element = path.partition("/")
        if name in ("name", "format"):
            raise InvalidParameterValue(f"fields_to_remove: {name} cannot be removed")
        if element and name in _KEYED_ARRAYS:
            items = result.get(name, [])
            result[name] = [item for item in items if item.get(_KEYED_ARRAYS[name]) != element]
        else:
            result.pop(name, None)
    return result


def _are_keyed(value: Any, key: str) -> bool:
    return is_objects(value) and all(isinstance(item.get(key), str) for item in value)


def _without_nulls(given: Mapping[str, Any]) -> Settings:
    """As protobuf reads JSON: a field that is null is not given, at any depth."""
    try:
        return {name: _fields_given(value, name) for name, value in given.items() if value is not None}
    except RecursionError:
        raise InvalidParameterValue("the settings are nested too deep") from None


def _fields_given(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_fields_given(item, "") for item in value]
    if not isinstance(value, dict) or name in _MAPS:
        return value
    return {key: _fields_given(inner, key) for key, inner in value.items() if inner is not None}


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
