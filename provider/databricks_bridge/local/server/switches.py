"""Local-only switches, which Databricks does not have: what this workspace is, and holds for tests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.holds import PLACES, Hold
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import read


def router(workspace: Workspace) -> APIRouter:
    """`/local/info` and `/local/holds`."""
    routes = APIRouter(prefix="/local")

    @routes.get("/info")
    async def info() -> dict[str, Any]:
        return {
            "workspace": workspace.name,
            "workspace_id": workspace.workspace_id,
            "metastore": workspace.metastore,
            "time_scale": workspace.time_scale,
            "engine": workspace.engine,
            "note": "This is a local stand-in, not Databricks.",
        }

    @routes.post("/holds")
    async def arm(request: Request) -> dict[str, Any]:
        given = await read(request)
        job_name, at = given.text("job_name"), given.text("at")
        if job_name is None:
            raise InvalidParameterValue("job_name is missing")
        for place in PLACES:
            if at == place:
                return {"hold_id": workspace.runs.holds.arm(workspace.name, job_name, place).hold_id}
        raise InvalidParameterValue(f"at is {at!r}; use one of {', '.join(PLACES)}")

    @routes.get("/holds")
    async def holds() -> dict[str, Any]:
        return {"holds": [_body(hold) for hold in workspace.runs.holds.of(workspace.name)]}

    @routes.delete("/holds/{hold_id}")
    async def release(hold_id: int) -> dict[str, Any]:
        if not workspace.runs.holds.release(workspace.name, hold_id):
            raise ResourceDoesNotExist(f"Hold {hold_id} does not exist.")
        return {}

    return routes


def _body(hold: Hold) -> dict[str, Any]:
    body = asdict(hold)
    del body["workspace"]
    return body
