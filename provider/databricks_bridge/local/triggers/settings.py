"""Trigger settings of a job as one value for each kind.

Shapes: Jobs API 2.2 TriggerConfiguration, an element of `JobSettings.triggers`, as the jobs API has checked it when it
was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.policy import Condition, Policy
from databricks_bridge.local.triggers.quartz import Quartz, parse_quartz

UNIT_SECONDS = {"MINUTES": 60, "HOURS": 3600, "DAYS": 86400, "WEEKS": 604800}


@dataclass(frozen=True)
class FileArrival:
    """`url` is `/Volumes/catalog/schema/volume/...`, watched with everything below it; its names are lower case."""

    url: str
    policy: Policy


@dataclass(frozen=True)
class TableUpdate:
    """`tables` are lower case, as Unity Catalog keeps names."""

    tables: tuple[str, ...]
    policy: Policy


@dataclass(frozen=True)
class Periodic:
    interval: timedelta


@dataclass(frozen=True)
class Schedule:
    cron: Quartz
    zone: ZoneInfo


@dataclass(frozen=True)
class Continuous:
    """Keeps one run active."""


@dataclass(frozen=True)
class JobCompletion:
    """`jobs` are (workspace id, job id) as the API gives them: strings."""

    jobs: tuple[tuple[str, str], ...]
    if_status: str


@dataclass(frozen=True)
class Model:
    """`securable_name` is a model, a schema, a catalog, or empty for the whole metastore; in lower case."""

    condition: str
    securable_name: str
    aliases: frozenset[str]
    policy: Policy


Kind = FileArrival | TableUpdate | Model | Periodic | Schedule | Continuous | JobCompletion


def parse_start(trigger: Mapping[str, Any]) -> Kind:
    """One of what starts a job, as `runs.starts.starts` gives it. Raises InvalidArgument for a kind that is not known."""
    if trigger.get("continuous") is not None:
        return Continuous()
    if config := trigger.get("schedule"):
        return Schedule(parse_quartz(config["quartz_cron_expression"]), parse_zone(config["timezone_id"]))
    if config := trigger.get("file_arrival"):
        return FileArrival(_volume_url(config["url"]), _policy(config))
    if config := trigger.get("table_update"):
        return TableUpdate(tuple(name.lower() for name in config["table_names"]), _policy(config))
    if config := trigger.get("periodic"):
        return Periodic(timedelta(seconds=config["interval"] * UNIT_SECONDS[config["unit"]]))
    if config := trigger.get("model"):
        name, aliases = (config.get("securable_name") or "").lower(), frozenset(config.get("aliases") or ())
        return Model(config["condition"], name, aliases, _policy({**config, "condition": None}))
    if config := trigger.get("job_completion"):
        jobs = tuple((str(job["workspace_id"]), str(job["job_id"])) for job in config["jobs"])
        return JobCompletion(jobs, config.get("if_status") or "SUCCESS")
    raise InvalidArgument(f"no trigger of a known kind among {', '.join(sorted(trigger))}")


def parse_zone(name: str) -> ZoneInfo:
    """A time zone by its name in the tz database. Raises InvalidArgument."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise InvalidArgument(f"{name!r} is no time zone of the tz database, such as Europe/Berlin") from None


def _volume_url(url: str) -> str:
    start, volumes, catalog, schema, volume, *path = url.split("/")
    return "/".join([start, volumes, catalog.lower(), schema.lower(), volume.lower(), *path])


def _policy(config: Mapping[str, Any]) -> Policy:
    return Policy(
        condition=config.get("condition") or Condition.ANY_UPDATED,
        min_time_between_triggers=timedelta(seconds=config.get("min_time_between_triggers_seconds") or 0),
        wait_after_last_change=timedelta(seconds=config.get("wait_after_last_change_seconds") or 0),
    )
