"""What a job names must be in its workspace: clusters, warehouses, the identity that it runs as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.compute import CLUSTER_ID
from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.warehouses import warehouse_id

Settings = Mapping[str, Any]


def refuse_names_of_nothing(workspace: Workspace, settings: Settings) -> None:
    """Raises InvalidParameterValue for a cluster, a warehouse or an identity that there is not in this workspace."""
    for task in settings["tasks"]:
        _refuse_of_task(workspace, task)
        if "for_each_task" in task:
            _refuse_of_task(workspace, task["for_each_task"]["task"])
    _refuse_identity(workspace, settings.get("run_as", {}))


def run_as_name(workspace: Workspace, settings: Settings) -> str:
    """Who the job runs as: the user, unless its settings name the service principal."""
    run_as = settings.get("run_as", {})
    return str(run_as.get("user_name") or run_as.get("service_principal_name") or workspace.user_name)


def _refuse_of_task(workspace: Workspace, task: Settings) -> None:
    key = task["task_key"]
    cluster = task.get("existing_cluster_id", CLUSTER_ID)
    if cluster != CLUSTER_ID:
        raise InvalidParameterValue(f"Task {key}: Cluster {cluster} does not exist")
    for kind in ("sql_task", "notebook_task"):
        warehouse = task.get(kind, {}).get("warehouse_id")
        if warehouse is not None and warehouse != warehouse_id(workspace):
            raise InvalidParameterValue(f"Task {key}: SQL warehouse {warehouse} does not exist.")


def _refuse_identity(workspace: Workspace, run_as: Settings) -> None:
    there = {"user_name": workspace.user_name, "service_principal_name": workspace.credentials.client_id}
    if len(run_as) > 1:
        raise InvalidParameterValue(f"run_as names one identity, not {' and '.join(run_as)}")
    for kind, name in run_as.items():
        if name != there.get(kind):
            raise InvalidParameterValue(
                f"run_as: the {kind.removesuffix('_name').replace('_', ' ')} {name!r} does not exist in this workspace; "
                f"it has the user {there['user_name']!r} and the service principal {there['service_principal_name']!r}"
            )
