"""What starts a job by itself: trigger, schedule or continuous, one of them at most, or a list of triggers. Checked in place.

Both timers keep Databricks' floor of 60 s on the numbers as they are written in the settings, whatever the
deployment's time scale.
"""

from __future__ import annotations

from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.runs.starts import STARTS
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue
from databricks_bridge.local.server.unity_catalog_names import is_name
from databricks_bridge.local.triggers.model import EVENTS
from databricks_bridge.local.triggers.quartz import parse_quartz
from databricks_bridge.local.triggers.settings import UNIT_SECONDS, parse_zone

TIMERS = ("min_time_between_triggers_seconds", "wait_after_last_change_seconds")
TIMER_FLOOR_SECONDS = 60
LONGEST_SECONDS = 2**31 - 1
"""Of a timer or an interval, about 68 years: they are 32-bit numbers in the SDK, and beyond it the calendar ends."""
_KINDS = ("file_arrival", "table_update", "periodic", "job_completion", "model")
_LONGEST_PART_BYTES, _LONGEST_PATH_BYTES = 240, 2000
"""Longer ones are no files: a file system takes 255 and 4096, of which some are ours."""


def check_starts(settings: dict[str, Any]) -> None:
    """Check what starts the job and fill in its defaults. Raises InvalidParameterValue, FeatureDisabled."""
    present = [name for name in STARTS if settings.get(name) is not None]
    if len(present) > 1:
        raise InvalidParameterValue(
            f"A job has one of trigger, schedule, continuous and triggers, not {' and '.join(present)}"
        )
    for name in present:
        if name == "triggers":
            settings[name] = _triggers(settings[name])
            continue
        start = _pausable(settings[name], name)
        settings[name] = {"trigger": _trigger, "schedule": _schedule, "continuous": _continuous}[name](start)


def _triggers(given: Any) -> list[dict[str, Any]]:
    """`settings.triggers`: TriggerConfiguration, each of exactly one kind with a pause_status of its own."""
    if not isinstance(given, list):
        raise InvalidParameterValue("triggers must be a list of objects")
    checked = []
    for index, item in enumerate(given):
        name = f"triggers[{index}]"
        checked.append(_of_one_kind(_pausable(item, name), name, (*_KINDS, "schedule", "continuous")))
    return checked


def _pausable(given: Any, name: str) -> dict[str, Any]:
    start = {key: value for key, value in _object(given, name).items() if value is not None}
    pause = start.setdefault("pause_status", "UNPAUSED")
    if pause not in ("PAUSED", "UNPAUSED"):
        raise InvalidParameterValue(f"{name}.pause_status is {pause!r}; use PAUSED or UNPAUSED")
    return start


def _trigger(trigger: dict[str, Any]) -> dict[str, Any]:
    return _of_one_kind(trigger, "trigger", _KINDS)


def _of_one_kind(start: dict[str, Any], name: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    if "sql_condition" in start:
        raise FeatureDisabled(words(Area.SETTING, "trigger.sql_condition"))
    # The name of table_update before 2025; still accepted, never shown.
    given = [kind for kind in (*kinds, "table") if kind in start]
    if len(given) != 1:
        raise InvalidParameterValue(f"{name} needs exactly one of {', '.join(kinds)}; it has {given or 'none'}")
    kind = "table_update" if given == ["table"] else given[0]
    body = dict(_object(start.pop(given[0]), f"{name}.{given[0]}"))
    for timer in TIMERS:
        if (value := body.get(timer)) == 0 and not isinstance(value, bool):
            del body[timer]  # as protobuf has it, a zero is not given
        elif value is not None:
            _seconds(value, f"{name}.{kind}.{timer}")
    start[kind] = _BODIES[kind](body)
    return start


def _seconds(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < TIMER_FLOOR_SECONDS:
        raise InvalidParameterValue(f"{name} must be at least {TIMER_FLOOR_SECONDS}; it is {value!r}")
    if value > LONGEST_SECONDS:
        raise InvalidParameterValue(f"{name} must be at most {LONGEST_SECONDS}; it is {value}")


def _file_arrival(body: dict[str, Any]) -> dict[str, Any]:
    url = body.get("url")
    text = url if isinstance(url, str) and len(url.encode()) <= _LONGEST_PATH_BYTES else ""
    parts = text.removeprefix("/Volumes/").rstrip("/").split("/")
    is_volume = text.startswith("/Volumes/") and len(parts) >= 3 and all(map(is_name, parts[:3]))
    if not is_volume or not all(map(_plain, parts)):
        raise InvalidParameterValue(
            f"trigger.file_arrival.url is {url!r}; the local workspace watches /Volumes/catalog/schema/volume/... , "
            "without wildcards, of names that files can have"
        )
    return body


def _table_update(body: dict[str, Any]) -> dict[str, Any]:
    names = body.get("table_names")
    if not isinstance(names, list) or not names or not all(_is_full_name(name, 3, 3) for name in names):
        raise InvalidParameterValue(f"trigger.table_update.table_names must list catalog.schema.table, not {names!r}")
    condition = body.get("condition", "ANY_UPDATED")
    if condition not in ("ANY_UPDATED", "ALL_UPDATED"):
        raise InvalidParameterValue(f"trigger.table_update.condition is {condition!r}; use ANY_UPDATED or ALL_UPDATED")
    if condition == "ANY_UPDATED":
        body.pop("condition", None)  # jobs/get does not show what is the default, as Databricks' own does not
    return body


def _periodic(body: dict[str, Any]) -> dict[str, Any]:
    interval, unit = body.get("interval"), body.get("unit")
    if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
        raise InvalidParameterValue(f"trigger.periodic.interval must be a whole number above 0; it is {interval!r}")
    if unit not in list(UNIT_SECONDS):
        raise InvalidParameterValue(f"trigger.periodic.unit is {unit!r}; use one of {', '.join(UNIT_SECONDS)}")
    if interval * UNIT_SECONDS[unit] > LONGEST_SECONDS:
        raise InvalidParameterValue(
            f"trigger.periodic.interval is {interval} {unit}; it must be at most {LONGEST_SECONDS} seconds"
        )
    return body


def _job_completion(body: dict[str, Any]) -> dict[str, Any]:
    jobs = body.get("jobs")
    if not isinstance(jobs, list) or not 1 <= len(jobs) <= 10:
        raise InvalidParameterValue("trigger.job_completion.jobs must list 1 to 10 jobs")
    for job in jobs:
        if not isinstance(job, dict) or not all(_is_id(job.get(name)) for name in ("workspace_id", "job_id")):
            raise InvalidParameterValue(
                f"trigger.job_completion.jobs: {job!r} needs workspace_id and job_id, 64-bit numbers as text"
            )
    if body.setdefault("if_status", "SUCCESS") not in ("SUCCESS", "FAILED", "DONE"):
        raise InvalidParameterValue(f"trigger.job_completion.if_status {body['if_status']!r}: SUCCESS, FAILED or DONE")
    return body


def _model(body: dict[str, Any]) -> dict[str, Any]:
    condition, name, aliases = body.get("condition"), body.get("securable_name", ""), body.get("aliases", [])
    if condition not in EVENTS:
        raise InvalidParameterValue(f"trigger.model.condition is {condition!r}; use one of {', '.join(EVENTS)}")
    if not isinstance(name, str) or (name and not _is_full_name(name, 1, 3)):
        raise InvalidParameterValue(
            f"trigger.model.securable_name is {name!r}; give catalog.schema.model, catalog.schema, or nothing"
        )
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidParameterValue("trigger.model.aliases must be a list of strings")
    if aliases and condition != "MODEL_ALIAS_SET":
        raise InvalidParameterValue("trigger.model.aliases can only be given with the condition MODEL_ALIAS_SET")
    return body


def _schedule(schedule: dict[str, Any]) -> dict[str, Any]:
    for name in ("quartz_cron_expression", "timezone_id"):
        if not isinstance(schedule.get(name), str) or not schedule[name]:
            raise InvalidParameterValue(f"schedule.{name} is missing")
    if "sql_condition" in schedule:
        raise FeatureDisabled(words(Area.SETTING, "schedule.sql_condition"))
    try:
        parse_quartz(schedule["quartz_cron_expression"])
        parse_zone(schedule["timezone_id"])
    except InvalidArgument as error:
        raise InvalidParameterValue(f"schedule: {error}") from None
    return schedule


def _continuous(continuous: dict[str, Any]) -> dict[str, Any]:
    mode = continuous.get("task_retry_mode", "NEVER")
    if mode not in ("NEVER", "ON_FAILURE"):
        raise InvalidParameterValue(f"continuous.task_retry_mode is {mode!r}; use NEVER or ON_FAILURE")
    return continuous


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidParameterValue(f"{name} must be an object")
    return value


def _plain(part: str) -> bool:
    return part not in ("", ".", "..") and not set(part) & set("*?[]{}") and part.isprintable() and _fits(part)


def _fits(part: str) -> bool:
    return len(part.lower().encode()) <= _LONGEST_PART_BYTES


def _is_full_name(name: Any, least: int, most: int) -> bool:
    parts = name.split(".") if isinstance(name, str) else []
    return least <= len(parts) <= most and all(is_name(part) and _fits(part) for part in parts)


def _is_id(value: Any) -> bool:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal():
        return False
    return len(text) < 20 and int(text) < 2**63


_BODIES = {
    "file_arrival": _file_arrival,
    "table_update": _table_update,
    "periodic": _periodic,
    "job_completion": _job_completion,
    "model": _model,
    "schedule": _schedule,
    "continuous": _continuous,
}
