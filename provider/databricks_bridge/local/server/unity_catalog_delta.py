"""Unity Catalog's Delta API (`delta/v1`): the newest version of a table. Its JSON is in kebab-case, its errors its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import ApiError, InvalidParameterValue
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.server.unity_catalog_errors import TableDoesNotExist
from databricks_bridge.local.server.unity_catalog_grants import require_select
from databricks_bridge.local.server.unity_catalog_tables import described, existing_table
from databricks_bridge.local.triggers.commits import commit_versions, table_exists

PROTOCOL = "1.0"
_TABLE = "/catalogs/{catalog}/schemas/{schema}/tables/{table}"


def router(workspace: Workspace) -> APIRouter:
    """`config` and the look at a table. Commits are published here at once, so the catalog names none."""
    routes = APIRouter(prefix="/api/2.1/unity-catalog/delta/v1")

    @routes.get("/config")
    async def config(catalog: str = "") -> JSONResponse:
        return await run_in_threadpool(_answered, lambda: _config(workspace, catalog))

    @routes.get(_TABLE)
    async def table(catalog: str, schema: str, table: str) -> JSONResponse:
        return await run_in_threadpool(_answered, lambda: _table(workspace, f"{catalog}.{schema}.{table}"))

    return routes


def _answered(call: Callable[[], dict[str, Any]]) -> JSONResponse:
    try:
        return JSONResponse(call())
    except ApiError as error:
        body = {"message": error.message, "type": _type(error), "code": error.status}
        return JSONResponse({"error": body}, status_code=error.status)


def _type(error: ApiError) -> str:
    words = str(error.error_code).split("_")
    return "".join(word.capitalize() for word in words) + "Exception"


def _config(workspace: Workspace, catalog: str) -> dict[str, Any]:
    names.existing_catalog(workspace, *names.parts_of(catalog, 1))
    return {"endpoints": [f"GET /v1{_TABLE}"], "protocol-version": PROTOCOL}


def _table(workspace: Workspace, name: str) -> dict[str, Any]:
    require_select(workspace, ".".join(names.parts_of(name, 3)))
    folder = existing_table(workspace, name)
    if not table_exists(folder):
        raise InvalidParameterValue(f"{name} is no Delta table.")
    body = described(workspace, folder)
    versions = commit_versions(folder)
    if not versions:
        raise TableDoesNotExist(f"Table '{name}' does not exist.")
    properties = body["properties"]
    return {
        "metadata": {
            "table-uuid": body["table_id"],
            "location": body.get("storage_location"),
            "properties": properties,
            "table-type": body["table_type"],
            "last-commit-version": int(properties.get("delta.lastUpdateVersion", 0)),
            "last-commit-timestamp-ms": body["updated_at"],
        },
        "commits": [],
        "latest-table-version": versions[-1],
    }
