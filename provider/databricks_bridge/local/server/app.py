"""One workspace's API: a FastAPI app that is a value of its Workspace."""

from __future__ import annotations

import html
from collections.abc import Callable
from importlib import import_module

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import auth, errors

FAMILIES = (
    "auth",
    "jobs",
    "runs",
    "runs_read",
    "switches",
    "unity_catalog",
    "workspace_files",
    "volume_files",
    "shares",
)
"""Modules of this package; each has `router(workspace)`."""

Router = Callable[[Workspace], APIRouter]


def create_app(workspace: Workspace) -> FastAPI:
    """The app of one workspace, with every API family and the gate before it."""
    app = FastAPI(title=f"{workspace.name}: local workspace, not Databricks", openapi_url=None)
    for family in FAMILIES:
        router: Router = import_module(f"{__package__}.{family}").router
        app.include_router(router(workspace))

    @app.get("/", response_class=HTMLResponse)
    @app.get("/local/health", response_class=HTMLResponse)
    async def health() -> str:
        return _page(workspace)

    errors.install(app)
    app.add_middleware(auth.Gate, workspace=workspace)
    return app


def _page(workspace: Workspace) -> str:
    name = html.escape(workspace.name)
    return (
        f"<!doctype html><meta charset=utf-8><title>{name}: local workspace, not Databricks</title>"
        f"<h1>{name}</h1><p>This is a <b>local stand-in, not Databricks</b>: workspace {workspace.workspace_id}, "
        f"metastore {html.escape(workspace.metastore)}, engine {html.escape(workspace.engine)}, "
        f"time scale {workspace.time_scale:g}. It is up.</p>"
        "<p>A run that a link names by <code>#job/JOB/run/RUN</code> is read with its token: "
        "<code>GET /api/2.2/jobs/runs/get?run_id=RUN</code>; what its notebook printed is in the deployment's home, "
        f"<code>workspaces/{name}/runs/TASK_RUN/output.log</code>.</p>"
    )
