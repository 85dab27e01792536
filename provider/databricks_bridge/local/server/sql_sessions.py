"""Sessions of the SQL Statement Execution API, as databricks-sql-connector opens them with `use_sea=True`; and the addresses
of Thrift, which is not served: they are answered at once, in words that the connector shows.
"""

from __future__ import annotations

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.server.errors import EndpointNotFound, FeatureDisabled, InvalidParameterValue, NotFound
from databricks_bridge.local.server.errors import response as refusal
from databricks_bridge.local.server.requests import read
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.server.warehouses import require
from databricks_bridge.local.sql.statements import SqlSession

_MESSAGE_HEADERS = ("x-databricks-error-or-redirect-message", "x-thriftserver-error-message")
"""Where the connector looks for what went wrong with a Thrift call."""


def router(workspace: Workspace) -> APIRouter:
    """`/api/2.0/sql/sessions`, and below `/sql` what Thrift clients call."""
    routes = APIRouter()

    @routes.post("/api/2.0/sql/sessions")
    async def open_session(request: Request) -> JSONResponse:
        given = await read(request)
        warehouse = given.text("warehouse_id")
        if warehouse is None:
            raise InvalidParameterValue("Missing required field: warehouse_id")
        require(workspace, warehouse)
        if given.text_map("session_confs"):
            raise FeatureDisabled(words(Area.CLIENT, "session_confs of a SQL session"))
        session = SqlSession(given.text("catalog"), given.text("schema"))
        return JSONResponse({"session_id": workspace.sql.open_session(session)})

    @routes.delete("/api/2.0/sql/sessions/{session_id}")
    async def close_session(session_id: str) -> JSONResponse:
        if workspace.sql.sessions.pop(session_id, None) is None:
            raise NotFound(f"The session {session_id} was not found.")
        return JSONResponse({})

    async def thrift(request: Request) -> JSONResponse:
        message = f"{words(Area.CLIENT, 'Thrift')}."
        answer = refusal(EndpointNotFound(f"No API found for '{request.method} {request.url.path}': {message}"))
        for name in _MESSAGE_HEADERS:
            answer.headers[name] = message
        return answer

    for path in ("/sql/1.0/{rest:path}", "/sql/protocolv1/{rest:path}"):
        routes.add_api_route(path, thrift, methods=["POST"])
    return routes
