"""Local-only routes, which Databricks does not have: what this workspace is, switches, holds, a look at a trigger."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.holds import PLACES, Hold
from databricks_bridge.local.runs.trigger_test import looked_at
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.job_names import run_as_name
from databricks_bridge.local.server.jobs import existing_job
from databricks_bridge.local.server.requests import read
from databricks_bridge.local.server.unity_catalog_grants import missing_privilege
from databricks_bridge.local.triggers.model import EVENTS, ModelEvent, append_event
from databricks_bridge.local.triggers.switches import NAMES, read_switches, set_switch


def router(workspace: Workspace) -> APIRouter:
    """`/local/info`, `/local/switches`, `/local/model-events`, `/local/holds` and `/local/test-trigger`."""
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

    @routes.get("/switches")
    async def switches() -> dict[str, Any]:
        return asdict(read_switches(workspace.store))

    @routes.post("/switches")
    async def switch(request: Request) -> dict[str, Any]:
        given = await read(request)
        if unknown := sorted(given.values.keys() - set(NAMES)):
            raise InvalidParameterValue(f"there is no switch {', '.join(unknown)}; there are {', '.join(NAMES)}")
        wanted = {name: given.boolean(name) for name in given.values}
        for name, on in wanted.items():
            set_switch(workspace.store, name, on)
        return asdict(read_switches(workspace.store))

    @routes.post("/model-events")
    async def model_event(request: Request) -> dict[str, Any]:
        given = await read(request)
        event, model = given.text("event"), given.text("model") or ""
        if event not in EVENTS:
            raise InvalidParameterValue(f"event is {event!r}; use one of {', '.join(EVENTS)}")
        if len(model.split(".")) != 3 or not all(model.split(".")):
            raise InvalidParameterValue(f"model is {model!r}; give catalog.schema.model")
        happened = ModelEvent(event, model.lower(), int(workspace.now() * 1000), given.text("alias"))
        append_event(workspace.layout, workspace.metastore, happened)
        return asdict(happened)

    @routes.post("/test-trigger")
    async def test_trigger(request: Request) -> dict[str, Any]:
        job = existing_job(workspace, (await read(request)).integer("job_id"))
        return {
            "triggers": await looked_at(
                workspace,
                job,
                lambda kind, name: missing_privilege(workspace, kind, name, run_as_name(workspace, job.settings)),
            )
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
