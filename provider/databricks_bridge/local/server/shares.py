"""`/local/shares`: shares between metastores. Local only: on Databricks they are made with its sharing APIs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.shares import Share, shown


def router(workspace: Workspace) -> APIRouter:
    """Create or change a share that this workspace's metastore reads, list them, publish one now, and end one."""
    routes = APIRouter(prefix="/local/shares")

    @routes.get("")
    async def listing() -> dict[str, Any]:
        return {"shares": [shown(share) for share in workspace.shares.of(workspace.metastore)]}

    @routes.post("")
    async def put(request: Request) -> dict[str, Any]:
        given = await read(request)
        try:
            share = _share(workspace, given)
            await run_in_threadpool(workspace.shares.put, share)
        except InvalidArgument as error:
            raise InvalidParameterValue(str(error)) from error
        return shown(share)

    @routes.post("/{catalog}/publish")
    async def publish(catalog: str, request: Request) -> dict[str, Any]:
        share = _found(workspace, catalog)
        max_commits = (await read(request)).optional_integer("max_commits")
        if max_commits is not None and max_commits < 1:
            raise InvalidParameterValue("max_commits must be at least 1")
        return {"published": await run_in_threadpool(workspace.shares.publish, share, max_commits)}

    @routes.delete("/{catalog}")
    async def remove(catalog: str) -> dict[str, Any]:
        await run_in_threadpool(workspace.shares.remove, _found(workspace, catalog))
        return {}

    return routes


def _found(workspace: Workspace, catalog: str) -> Share:
    share = workspace.shares.find(workspace.metastore, catalog.lower())
    if share is None:
        raise ResourceDoesNotExist(f"There is no share '{catalog}' in the metastore {workspace.metastore}.")
    return share


def _share(workspace: Workspace, given: Arguments) -> Share:
    catalog, source = given.text("catalog"), given.text("source_metastore")
    source_catalog = given.text("source_catalog")
    if catalog is None or source is None or source_catalog is None:
        raise InvalidParameterValue("catalog, source_metastore and source_catalog are required")
    return Share(
        metastore=workspace.metastore,
        catalog=names.parts_of(catalog, 1)[0],
        source_metastore=source,
        source_catalog=names.parts_of(source_catalog, 1)[0],
        schemas=tuple(names.parts_of(schema, 1)[0] for schema in given.texts("schemas")),
        lag=given.text("lag") or "none",
        history=given.boolean("history", True),
    )
