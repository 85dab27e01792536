"""Unity Catalog over HTTP: which path is answered by which function. All of it runs in threads, for it reads files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_changes as changes
from databricks_bridge.local.server import unity_catalog_containers as containers
from databricks_bridge.local.server import unity_catalog_credentials as credentials
from databricks_bridge.local.server import unity_catalog_shares as shares
from databricks_bridge.local.server import unity_catalog_tables as tables
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse

Answer = dict[str, Any]
Collection = Callable[[Workspace, Arguments], Answer]
Item = Callable[[Workspace, Arguments, str], Answer]

_COLLECTIONS: dict[tuple[str, str], Collection] = {
    ("GET", "2.1/unity-catalog/metastore_summary"): lambda workspace, given: containers.metastore_summary(workspace),
    ("GET", "2.1/unity-catalog/catalogs"): containers.list_catalogs,
    ("POST", "2.1/unity-catalog/catalogs"): containers.create_catalog,
    ("GET", "2.1/unity-catalog/schemas"): containers.list_schemas,
    ("POST", "2.1/unity-catalog/schemas"): containers.create_schema,
    ("GET", "2.1/unity-catalog/volumes"): containers.list_volumes,
    ("POST", "2.1/unity-catalog/volumes"): containers.create_volume,
    ("GET", "2.1/unity-catalog/tables"): tables.list_tables,
    ("GET", "2.1/unity-catalog/shares"): shares.list_shares,
    ("GET", "2.1/unity-catalog/external-locations"): credentials.list_locations,
    # The SDK says 2.0, the documentation and open source Unity Catalog 2.1.
    ("POST", "2.0/unity-catalog/temporary-table-credentials"): credentials.for_table,
    ("POST", "2.1/unity-catalog/temporary-table-credentials"): credentials.for_table,
    ("POST", "2.0/unity-catalog/temporary-volume-credentials"): credentials.for_volume,
    ("POST", "2.1/unity-catalog/temporary-volume-credentials"): credentials.for_volume,
    ("POST", "2.0/unity-catalog/temporary-path-credentials"): credentials.for_path,
    ("POST", "2.1/unity-catalog/temporary-path-credentials"): credentials.for_path,
}
_ITEMS: dict[tuple[str, str], Item] = {
    ("GET", "catalogs/{name}"): containers.get_catalog,
    ("DELETE", "catalogs/{name}"): containers.delete_catalog,
    ("PATCH", "catalogs/{name}"): changes.change_catalog,
    ("PATCH", "schemas/{name}"): changes.change_schema,
    ("PATCH", "volumes/{name}"): changes.change_volume,
    ("PATCH", "tables/{name}"): changes.change_table,
    ("GET", "schemas/{name}"): containers.get_schema,
    ("DELETE", "schemas/{name}"): containers.delete_schema,
    ("GET", "volumes/{name}"): containers.get_volume,
    ("DELETE", "volumes/{name}"): containers.delete_volume,
    ("GET", "tables/{name}"): tables.get_table,
    ("GET", "tables/{name}/exists"): tables.exists,
    ("DELETE", "tables/{name}"): tables.delete_table,
    ("GET", "shares/{name}"): shares.get_share,
    ("GET", "external-locations/{name}"): credentials.get_location,
}


def router(workspace: Workspace) -> APIRouter:
    """Catalogs, schemas, volumes, tables, shares, the metastore summary and temporary credentials."""
    routes = APIRouter(prefix="/api")
    for (method, path), collection in _COLLECTIONS.items():
        routes.add_api_route(f"/{path}", _of_collection(workspace, collection, _call(method, path)), methods=[method])
    for (method, path), item in _ITEMS.items():
        routes.add_api_route(
            f"/2.1/unity-catalog/{path}", _of_item(workspace, item, _call(method, path)), methods=[method]
        )
    return routes


def _call(method: str, path: str) -> str:
    """The name under which a call's fields are declared."""
    return f"{method} {path.rpartition('unity-catalog/')[2].removesuffix('/{name}')}"


def _of_collection(workspace: Workspace, function: Collection, call: str) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(function, workspace, await read(request, call)))

    return endpoint


def _of_item(workspace: Workspace, function: Item, call: str) -> Callable[[Request, str], Any]:
    async def endpoint(request: Request, name: str) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(function, workspace, await read(request, call), name))

    return endpoint
