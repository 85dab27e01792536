"""All pages and buttons of a workspace, by address."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter

from databricks_bridge.local.pages import databricks_links, files, job, run, sign_in, table
from databricks_bridge.local.pages.access import Act, Show, acting, reading
from databricks_bridge.local.pages.asked import Asked, Page
from databricks_bridge.local.pages.job_list import show_jobs
from databricks_bridge.local.pages.overview import show_overview
from databricks_bridge.local.pages.run_list import show_runs
from databricks_bridge.local.pages.table_list import show_tables
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import ResourceDoesNotExist

AREAS = ("jobs", "runs", "tables", "files")
_SIGNING = frozenset({"/local/sign-in", "/local/sign-out"})


def _nowhere(asked: Asked) -> Page:
    raise ResourceDoesNotExist("There is no such page.")


PAGES: Mapping[str, Show] = {
    "/": show_overview,
    "/local/jobs": show_jobs,
    "/local/jobs/{job_id}": job.show_job,
    "/local/runs": show_runs,
    "/local/runs/{run_id}": run.show_run,
    "/local/tables": show_tables,
    "/local/tables/{name}": table.show_table,
    "/local/files": files.show_volumes,
    "/local/files/{path:path}": files.show_folder,
    **{f"/local/{area}/{{rest:path}}": _nowhere for area in AREAS if area != "files"},
}
ACTIONS: Mapping[str, Act] = {
    "/local/jobs/{job_id}/run-now": job.run_now,
    "/local/jobs/{job_id}/pause": job.pause,
    "/local/jobs/{job_id}/resume": job.resume,
    "/local/jobs/{job_id}/test-trigger": job.test_trigger,
    "/local/runs/{run_id}/cancel": run.cancel_run,
    "/local/runs/{run_id}/repair": run.repair_run,
    "/local/tables/{name}/rows": table.commit_row,
    "/local/files": files.land,
    "/local/files/{path:path}": files.drop_file,
}


def router(workspace: Workspace) -> APIRouter:
    """The pages of one workspace."""
    routes = APIRouter()
    routes.include_router(sign_in.router(workspace))
    routes.include_router(databricks_links.router())
    for path, show in PAGES.items():
        routes.add_api_route(path, reading(workspace, show), methods=["GET"])
    for path, act in ACTIONS.items():
        routes.add_api_route(path, acting(workspace, act), methods=["POST"])
    return routes


def is_page(path: str) -> bool:
    """Whether who may see `path` is decided by its sign-in, and not by a bearer token."""
    area = path.split("/")[1:3]
    return (
        databricks_links.is_link(path)
        or path == "/"
        or path in _SIGNING
        or (area[:1] == ["local"] and area[1:] != [] and area[1] in AREAS)
    )
