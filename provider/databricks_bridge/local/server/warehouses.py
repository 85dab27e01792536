"""The one SQL warehouse of a workspace (SQL Warehouses API 2.0): listed, started, stopped. It takes no time to start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import ResourceDoesNotExist
from databricks_bridge.local.server.requests import read
from databricks_bridge.local.server.responses import JSONResponse

WAREHOUSE_NAME = "local"
Body = dict[str, Any]


def warehouse_id(workspace: Workspace) -> str:
    """16 hexadecimal digits, as on Databricks; of the workspace's id alone, so it stays."""
    return f"{int(workspace.workspace_id):016x}"


def require(workspace: Workspace, given: str) -> None:
    """Raises ResourceDoesNotExist for the id of any other warehouse."""
    if given != warehouse_id(workspace):
        raise ResourceDoesNotExist(f"SQL warehouse {given} does not exist.")


def router(workspace: Workspace) -> APIRouter:
    """list, get, start, stop."""
    routes = APIRouter(prefix="/api/2.0/sql/warehouses")

    @routes.get("")
    @routes.get("/")
    async def listing(request: Request) -> Body:
        await read(request)
        return {"warehouses": [_warehouse(workspace)]}

    @routes.get("/{given}")
    async def get(given: str) -> Body:
        require(workspace, given)
        return _warehouse(workspace)

    def turn(runs: bool) -> Callable[[str], Any]:
        async def endpoint(given: str) -> JSONResponse:
            require(workspace, given)
            workspace.sql.warehouse_runs = runs
            return JSONResponse({})

        return endpoint

    routes.add_api_route("/{given}/start", turn(True), methods=["POST"])
    routes.add_api_route("/{given}/stop", turn(False), methods=["POST"])
    return routes


def _warehouse(workspace: Workspace) -> Body:
    known, address = warehouse_id(workspace), urlsplit(workspace.host)
    return {
        "id": known,
        "name": WAREHOUSE_NAME,
        "cluster_size": "2X-Small",
        "min_num_clusters": 1,
        "max_num_clusters": 1,
        "num_clusters": int(workspace.sql.warehouse_runs),
        "num_active_sessions": 0,
        "auto_stop_mins": 0,
        "state": "RUNNING" if workspace.sql.warehouse_runs else "STOPPED",
        "warehouse_type": "PRO",
        "enable_serverless_compute": False,
        "creator_name": workspace.user_name,
        "odbc_params": {
            "hostname": address.hostname,
            "path": f"/sql/1.0/warehouses/{known}",
            "protocol": address.scheme,
            "port": address.port,
        },
    }
