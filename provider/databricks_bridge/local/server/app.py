"""One workspace's API: a FastAPI app that is a value of its Workspace."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import auth, errors
from databricks_bridge.local.server.faults import FaultGate
from databricks_bridge.local.server.html_page import document, text

FAMILIES = (
    "auth",
    "jobs",
    "runs",
    "runs_read",
    "run_page",
    "switches",
    "unity_catalog",
    "unity_catalog_grants",
    "unity_catalog_delta",
    "workspace_files",
    "volume_files",
    "shares",
    "permissions",
    "compute",
    "warehouses",
    "sql_statements",
    "faults",
)
"""Modules of this package; each has `router(workspace)`."""

Router = Callable[[Workspace], APIRouter]


def create_app(workspace: Workspace) -> FastAPI:
    """The app of one workspace, with every API family and the gate before it."""
    app = FastAPI(title=f"{workspace.name}: local workspace, not Databricks", openapi_url=None, redirect_slashes=False)
    for family in FAMILIES:
        router: Router = import_module(f"{__package__}.{family}").router
        app.include_router(router(workspace))

    @app.get("/", response_class=HTMLResponse)
    @app.get("/local/health", response_class=HTMLResponse)
    async def health() -> str:
        return _page(workspace)

    errors.install(app)
    app.add_middleware(FaultGate, workspace=workspace)
    app.add_middleware(auth.Gate, workspace=workspace)
    return app


def _page(workspace: Workspace) -> str:
    name = text(workspace.name)
    body = (
        f"<h1>{name}</h1><p>Workspace {text(workspace.workspace_id)}, metastore {text(workspace.metastore)}, engine "
        f"{text(workspace.engine)}, time scale {workspace.time_scale:g}. It is up.</p>"
        '<p id="run" hidden>The link that you followed names a run: <a></a></p>'
        '<p class="soft">The page of a run is <code>/local/runs/RUN</code>; what its notebook printed is in the '
        f"deployment's home, <code>workspaces/{name}/runs/TASK_RUN/output.log</code>.</p>"
        f"<script>{_SHOW_RUN}</script>"
    )
    return document(f"{workspace.name}: local workspace, not Databricks", body)


_SHOW_RUN = r"""
function show() {
  const run = /^#job\/\d+\/run\/(\d+)$/.exec(location.hash);
  const line = document.getElementById("run"), link = line.querySelector("a");
  line.hidden = run === null;
  if (run) { link.href = "/local/runs/" + run[1]; link.textContent = "run " + run[1]; }
}
addEventListener("hashchange", show);
show();
"""
"""The part of an address after its # never reaches a server, so the link to the run's page is made in the browser."""
