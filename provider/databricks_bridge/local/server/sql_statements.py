"""SQL Statement Execution API 2.0 over HTTP: execute, get, cancel, chunks."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import InvalidParameterValue, NotFound
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.server.sql_results import chunk, chunk_count, manifest
from databricks_bridge.local.server.warehouses import require
from databricks_bridge.local.sql.formats import FORMATS
from databricks_bridge.local.sql.model import SqlParameter, SqlRequest
from databricks_bridge.local.sql.statements import ResultForm, SqlSession, Statement, new_statement_id

LARGEST_STATEMENT_BYTES = 16 * 1024 * 1024
_WAIT = re.compile(r"([0-9]{1,2})s")
_PARAMETER = re.compile(r"\w+", re.ASCII)
Body = dict[str, Any]


def router(workspace: Workspace) -> APIRouter:
    """`/api/2.0/sql/statements` and below."""
    routes = APIRouter(prefix="/api/2.0/sql/statements")

    @routes.post("")
    @routes.post("/")
    async def execute(request: Request) -> JSONResponse:
        given = await read(request, "POST sql/statements")
        seconds = _wait_seconds(given)
        cancels = _one_of(given, "on_wait_timeout", "CONTINUE", "CANCEL") == "CANCEL"
        if cancels and seconds == 0:
            raise InvalidParameterValue("on_wait_timeout CANCEL needs a wait_timeout that is not 0s.")
        statement = workspace.sql.start(_request(workspace, given), _form(given))
        await workspace.sql.ended(statement, seconds)
        if cancels:
            workspace.sql.cancel(statement)
        return JSONResponse(await _shown(workspace, statement))

    @routes.get("/{statement_id}")
    async def get(statement_id: str) -> JSONResponse:
        return JSONResponse(await _shown(workspace, _existing(workspace, statement_id)))

    @routes.delete("/{statement_id}")
    async def close(statement_id: str) -> JSONResponse:
        workspace.sql.drop(_existing(workspace, statement_id))
        return JSONResponse({})

    @routes.post("/{statement_id}/cancel")
    async def cancel(statement_id: str) -> JSONResponse:
        workspace.sql.cancel(_existing(workspace, statement_id))
        return JSONResponse({})

    @routes.get("/{statement_id}/result/chunks/{chunk_index}")
    async def one_chunk(statement_id: str, chunk_index: int) -> JSONResponse:
        statement = _existing(workspace, statement_id)
        if statement.rows is None:
            raise InvalidParameterValue(f"The statement {statement_id} is {statement.state} and has no result.")
        if not 0 <= chunk_index < max(chunk_count(workspace, statement), 1):
            raise InvalidParameterValue(f"The statement {statement_id} has no chunk {chunk_index}.")
        return JSONResponse(await chunk(workspace, statement, chunk_index))

    return routes


def _existing(workspace: Workspace, statement_id: str) -> Statement:
    statement = workspace.sql.find(statement_id)
    if statement is None:
        raise NotFound(f"The statement {statement_id} was not found.")
    return statement


def _request(workspace: Workspace, given: Arguments) -> SqlRequest:
    warehouse, text = given.text("warehouse_id"), given.text("statement")
    if warehouse is None:
        raise InvalidParameterValue("Missing required field: warehouse_id")
    if text is None or not text.strip():
        raise InvalidParameterValue("Missing required field: statement")
    if len(text.encode()) > LARGEST_STATEMENT_BYTES:
        raise InvalidParameterValue("The statement is over 16 MiB.")
    require(workspace, warehouse)
    session = SqlSession(None, None)
    if (session_id := given.text("session_id")) is not None:
        found = workspace.sql.sessions.get(session_id)
        if found is None:
            raise NotFound(f"The session {session_id} was not found.")
        session = found
    return SqlRequest(
        statement_id=new_statement_id(),
        statement=text,
        metastore_root=workspace.layout.metastore_root(workspace.metastore),
        volumes_root=workspace.layout.volumes_root(workspace.metastore),
        catalog=given.text("catalog") or session.catalog,
        schema=given.text("schema") or session.schema,
        parameters=_parameters(given),
        row_limit=_limit(given, "row_limit"),
        host=workspace.host,
        token=workspace.credentials.token,
        ca_file=workspace.ca_file,
    )


def _form(given: Arguments) -> ResultForm:
    links = _one_of(given, "disposition", "INLINE", "EXTERNAL_LINKS") == "EXTERNAL_LINKS"
    form = _one_of(given, "format", *FORMATS)
    if form != "JSON_ARRAY" and not links:
        raise InvalidParameterValue(f"The format {form} is not supported with the disposition INLINE; use JSON_ARRAY.")
    return ResultForm(links, form, _limit(given, "byte_limit"))


def _limit(given: Arguments, name: str) -> int | None:
    limit = given.optional_integer(name)
    if limit is not None and limit <= 0:
        raise InvalidParameterValue(f"{name} must be a whole number above 0")
    return limit


def _wait_seconds(given: Arguments) -> int:
    text = given.text("wait_timeout") or "10s"
    found = _WAIT.fullmatch(text)
    if found is None or not (int(found[1]) == 0 or 5 <= int(found[1]) <= 50):
        raise InvalidParameterValue(f"wait_timeout is {text!r}; it must be 0s, or from 5s to 50s")
    return int(found[1])


def _one_of(given: Arguments, name: str, default: str, *others: str) -> str:
    value = given.text(name) or default
    if value not in (default, *others):
        raise InvalidParameterValue(f"{name} is {value!r}; use {', '.join((default, *others))}")
    return value


def _parameters(given: Arguments) -> tuple[SqlParameter, ...]:
    items = given.values.get("parameters") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidParameterValue("parameters must be a list of {name, value, type}")
    found = []
    for item in items:
        one = Arguments(item)
        name, value = one.text("name"), item.get("value")
        if name is None or not _PARAMETER.fullmatch(name) or not isinstance(value, str | None):
            raise InvalidParameterValue(
                f"the parameter {name!r} needs a name of letters and digits, and a value of text"
            )
        found.append(SqlParameter(name, value, (one.text("type") or "STRING").upper()))
    return tuple(found)


async def _shown(workspace: Workspace, statement: Statement) -> Body:
    status: Body = {"state": statement.state}
    body: Body = {"statement_id": statement.statement_id, "status": status}
    if statement.error is not None:
        status["error"] = {"error_code": statement.error.error_code, "message": statement.error.message}
        if statement.error.sql_state is not None:
            status["sql_state"] = statement.error.sql_state
    if statement.rows is not None:
        body["manifest"] = await manifest(workspace, statement)
        body["result"] = await chunk(workspace, statement, 0) if statement.rows.rows else {}
    return body
