"""Trigger settings of a job as one value for each kind.

Shapes: Jobs API 2.2 `JobSettings.trigger` and `.continuous`, as the jobs API has checked them when they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.policy import Condition, Policy

_UNIT_SECONDS = {"MINUTES": 60, "HOURS": 3600, "DAYS": 86400, "WEEKS": 604800}


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
class Continuous:
    """Keeps one run active."""


@dataclass(frozen=True)
class JobCompletion:
    """`jobs` are (workspace id, job id) as the API gives them: strings."""

    jobs: tuple[tuple[str, str], ...]
    if_status: str


Kind = FileArrival | TableUpdate | Periodic | Continuous | JobCompletion


def parse_trigger(settings: Mapping[str, Any]) -> Kind | None:
    """What starts runs of the job by itself; None for a job without, or with a cron schedule, which is not served.

    Raises InvalidArgument for a trigger of a kind that is not known here.
    """
    if settings.get("continuous") is not None:
        return Continuous()
    trigger = settings.get("trigger")
    if trigger is None:
        return None
    if config := trigger.get("file_arrival"):
        return FileArrival(_volume_url(config["url"]), _policy(config))
    if config := trigger.get("table_update"):
        return TableUpdate(tuple(name.lower() for name in config["table_names"]), _policy(config))
    if config := trigger.get("periodic"):
        return Periodic(timedelta(seconds=config["interval"] * _UNIT_SECONDS[config["unit"]]))
    if config := trigger.get("job_completion"):
        jobs = tuple((str(job["workspace_id"]), str(job["job_id"])) for job in config["jobs"])
        return JobCompletion(jobs, config.get("if_status") or "SUCCESS")
    raise InvalidArgument(f"no trigger of a known kind among {', '.join(sorted(trigger))}")


def _volume_url(url: str) -> str:
    start, volumes, catalog, schema, volume, *path = url.split("/")
    return "/".join([start, volumes, catalog.lower(), schema.lower(), volume.lower(), *path])


def _policy(config: Mapping[str, Any]) -> Policy:
    return Policy(
        condition=config.get("condition") or Condition.ANY_UPDATED,
        min_time_between_triggers=timedelta(seconds=config.get("min_time_between_triggers_seconds") or 0),
        wait_after_last_change=timedelta(seconds=config.get("wait_after_last_change_seconds") or 0),
    )
