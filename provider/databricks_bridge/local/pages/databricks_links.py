"""Addresses of Databricks' own pages, as its command line prints them: each leads to the page that there is here.

The page asks for the sign-in, so these need none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from databricks_bridge.local.pages import access

LINKS = {
    "/jobs": "/local/jobs",
    "/jobs/runs": "/local/runs",
    "/jobs/{job_id}": "/local/jobs/{job_id}",
    "/jobs/{job_id}/runs/{run_id}": "/local/runs/{run_id}",
    "/explore/data": "/local/tables",
    "/explore/data/{catalog}": "/local/tables",
    "/explore/data/{catalog}/{schema}": "/local/tables",
    "/explore/data/volumes/{catalog}/{schema}/{volume}": "/local/files/{catalog}/{schema}/{volume}",
    "/explore/data/{catalog}/{schema}/{table}": "/local/tables/{catalog}.{schema}.{table}",
}
"""By the path as Databricks has it; what is behind a question mark (`w=`, `o=`) is left out."""
_FIRST = frozenset({"jobs", "explore"})


def router() -> APIRouter:
    """All of them."""
    routes = APIRouter()
    for path, target in LINKS.items():
        routes.add_route(path, _leading_to(target), methods=["GET"])
    return routes


def is_link(path: str) -> bool:
    """Whether the path is below those of Databricks' pages."""
    return path.split("/")[1:2] != [] and path.split("/")[1] in _FIRST


def _leading_to(target: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        parts = {name: quote(str(value), safe="") for name, value in request.path_params.items()}
        return access.refused(request) or access.sent_on(target.format(**parts))

    return endpoint
