"""`/local/openapi.json`: what this workspace serves, described."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.responses import JSONResponse


def router(workspace: Workspace) -> APIRouter:
    """The description of the workspace as it is now."""
    routes = APIRouter(prefix="/local")

    @routes.get("/openapi.json")
    async def openapi() -> JSONResponse:
        # Nobody else needs it, so its memory is spent when somebody asks.
        from databricks_bridge.local.openapi.document import document

        return JSONResponse(await run_in_threadpool(document, workspace))

    return routes
