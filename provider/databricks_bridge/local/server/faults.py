"""`/local/faults`: faults declared over HTTP, and the middleware that carries them out. Databricks has neither."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.faults import Fault
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import auth
from databricks_bridge.local.server.connections import cut
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse

_NEVER = ("/local/", "/.well-known/")


def router(workspace: Workspace) -> APIRouter:
    """Declare, list, end one, end all."""
    routes = APIRouter(prefix="/local/faults")

    @routes.post("")
    async def arm(request: Request) -> dict[str, Any]:
        return _body(_armed(workspace, await read(request)))

    @routes.get("")
    async def listing() -> dict[str, Any]:
        return {"faults": [_body(fault) for fault in workspace.faults.of(workspace.name)]}

    @routes.delete("")
    async def end_all() -> dict[str, Any]:
        workspace.faults.end(workspace.name)
        return {}

    @routes.delete("/{fault_id}")
    async def end(fault_id: int) -> dict[str, Any]:
        if not workspace.faults.end(workspace.name, fault_id):
            raise ResourceDoesNotExist(f"Fault {fault_id} does not exist, or has ended.")
        return {}

    return routes


def _armed(workspace: Workspace, given: Arguments) -> Fault:
    unknown = sorted(set(given.values) - {field for field in Fault.__dataclass_fields__ if field not in _OURS})
    if unknown:
        raise InvalidParameterValue(f"a fault has no {', '.join(unknown)}")
    try:
        fault = workspace.faults.arm(
            workspace.name,
            workspace.metastore,
            given.text("kind") or "",
            seconds=_number(given, "seconds"),
            count=given.optional_integer("count"),
            path=given.text("path") or "",
            delay_seconds=_number(given, "delay_seconds"),
            privilege=given.text("privilege") or "SELECT",
            securable=given.text("securable") or "",
        )
    except InvalidArgument as error:
        raise InvalidParameterValue(str(error)) from None
    if fault.kind == "expire_tokens":
        auth.expire_tokens(workspace)
    return fault


_OURS = ("fault_id", "workspace", "metastore")


def _number(given: Arguments, name: str) -> float | None:
    value = given.values.get(name)
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameterValue(f"{name} must be a number, not {value!r}") from None


def _body(fault: Fault) -> dict[str, Any]:
    body = asdict(fault)
    del body["workspace"], body["metastore"]
    return {name: value for name, value in body.items() if value not in (None, "", 0.0)}


class FaultGate:
    """ASGI middleware, after the one that asks for a token: a refused request has been let in first."""

    def __init__(self, app: ASGIApp, workspace: Workspace) -> None:
        self._app, self._workspace = app, workspace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, faults = self._workspace.name, self._workspace.faults
        path = str(scope.get("path", ""))
        if faults.none or scope["type"] != "http" or path == "/" or path.startswith(_NEVER):
            await self._app(scope, receive, send)
            return
        refused = faults.refusal(name, path)
        if refused is not None:
            await _refused(*refused)(scope, receive, send)
            return
        if delay := faults.delay(name, path):
            await asyncio.sleep(delay)
        if not faults.drops(name, path):
            await self._app(scope, receive, send)
            return

        async def unheard(message: Message) -> None:
            """The answer goes nowhere."""

        await self._app(scope, receive, unheard)
        await cut(scope)


def _refused(kind: str, retry_after: int) -> JSONResponse:
    if kind == "unavailable":
        status, code = 503, "TEMPORARILY_UNAVAILABLE"
        message = "The service at this path is temporarily unavailable. Please try again later."
    else:
        status, code = 429, "REQUEST_LIMIT_EXCEEDED"
        message = "Your request was rejected since your organization has exceeded the rate limit."
    body = {"error_code": code, "message": message}
    return JSONResponse(body, status_code=status, headers={"Retry-After": str(retry_after)})
