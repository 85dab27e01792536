"""One workspace's API: a FastAPI app that is a value of its Workspace."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

from databricks_bridge.local.pages import site
from databricks_bridge.local.pages.document import document, headers, text
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import auth, errors
from databricks_bridge.local.server.bodies import BodyGate
from databricks_bridge.local.server.faults import FaultGate

FAMILIES = (
    "runs_read",
    "auth",
    "federation",
    "jobs",
    "runs",
    "switches",
    "unity_catalog",
    "unity_catalog_grants",
    "unity_catalog_delta",
    "workspace_files",
    "volume_files",
    "repos",
    "shares",
    "delta_sharing",
    "delta_sharing_recipients",
    "permissions",
    "compute",
    "warehouses",
    "sql_statements",
    "sql_results",
    "sql_sessions",
    "faults",
    "openapi",
)
"""Modules of this package; each has `router(workspace)`. What is called most comes first, since routes are tried in order."""

Router = Callable[[Workspace], APIRouter]


def create_app(workspace: Workspace) -> FastAPI:
    """The app of one workspace, with every API family, the pages, and the gate before them."""
    app = FastAPI(title=f"{workspace.name}: local workspace, not Databricks", openapi_url=None, redirect_slashes=False)
    for family in FAMILIES:
        router: Router = import_module(f"{__package__}.{family}").router
        app.include_router(router(workspace))

    app.include_router(site.router(workspace))

    @app.get("/local/health", response_class=HTMLResponse)
    async def health() -> HTMLResponse:
        page = document(
            f"{workspace.name}: local workspace, not Databricks", f"<h1>{text(workspace.name)}</h1><p>It is up.</p>"
        )
        return HTMLResponse(page, headers=dict(headers()))

    errors.install(app)
    app.add_middleware(FaultGate, workspace=workspace)
    app.add_middleware(auth.Gate, workspace=workspace, is_page=site.is_page)
    app.add_middleware(BodyGate)
    return app
