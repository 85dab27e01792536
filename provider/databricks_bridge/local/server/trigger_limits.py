"""What a trigger may watch, given the rest of the deployment: limits of number, and one metastore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.starts import starts
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.triggers.commits import table_exists, view_file
from databricks_bridge.local.triggers.evaluation import TABLES, TABLES_WITH_FILE_EVENTS
from databricks_bridge.local.triggers.switches import read_switches

MOST_JOBS = {"file_arrival": 50, "table_update": 1000}
"""Jobs of a workspace with a trigger of the kind, without file events (resource limits)."""


def refuse_what_cannot_be_watched(workspace: Workspace, settings: Mapping[str, Any], job_id: int | None) -> None:
    """Raises InvalidParameterValue, ResourceDoesNotExist. `job_id` is the job that is changed; None: a new one."""
    switches = read_switches(workspace.store)
    for start in starts(settings):
        if completion := start.get("job_completion"):
            _refuse_other_metastores(workspace, completion["jobs"])
        if update := start.get("table_update"):
            names = update["table_names"]
            most = TABLES_WITH_FILE_EVENTS if switches.file_events else TABLES
            if len(names) > most:
                raise InvalidParameterValue(
                    f"trigger.table_update.table_names lists {len(names)} tables; at most {most} can be watched"
                )
            if switches.refuse_missing_tables:
                _refuse_missing(workspace, names)
        if arrival := start.get("file_arrival"):
            _refuse_tables(workspace, arrival["url"])
        for kind, most in MOST_JOBS.items():
            if start.get(kind) and not switches.file_events and _others_with(workspace, kind, job_id) >= most:
                raise InvalidParameterValue(
                    f"trigger.{kind}: {most} jobs of this workspace have one; more need file events"
                )


def _others_with(workspace: Workspace, kind: str, job_id: int | None) -> int:
    others = [job for job in workspace.store.jobs(workspace.name) if job.job_id != job_id]
    return sum(any(start.get(kind) for start in starts(job.settings)) for job in others)


def _refuse_tables(workspace: Workspace, url: str) -> None:
    """A path that holds a table cannot be watched for files; the path itself and what is above it in the volume."""
    _, volumes, catalog, schema, volume, *path = url.rstrip("/").split("/")
    names = ["", volumes, catalog.lower(), schema.lower(), volume.lower(), *path]
    for length in range(5, len(names) + 1):
        if table_exists(workspace.layout.volume_path(workspace.metastore, "/".join(names[:length]))):
            raise InvalidParameterValue(f"trigger.file_arrival.url is {url!r}, where there is a table; watch it as one")


def _refuse_missing(workspace: Workspace, names: list[str]) -> None:
    for name in names:
        table = workspace.layout.table_path(workspace.metastore, name.lower())
        if not table_exists(table) and not view_file(table).exists():
            raise ResourceDoesNotExist(f"The table '{name}' does not exist.")


def _refuse_other_metastores(workspace: Workspace, monitored: list[Mapping[str, Any]]) -> None:
    """A job completion trigger reaches other workspaces of its own metastore, as on Databricks (Beta), and no others."""
    hosted = {other.workspace_id: other for other in workspace.runs.workspaces.values()}
    for job in monitored:
        other = hosted.get(str(job["workspace_id"]))
        if other is not None and other.metastore != workspace.metastore:
            raise InvalidParameterValue(
                f"trigger.job_completion.jobs: job {job['job_id']} is in workspace {other.workspace_id} of the metastore "
                f"{other.metastore}; only jobs of this workspace's metastore, {workspace.metastore}, can be monitored"
            )
