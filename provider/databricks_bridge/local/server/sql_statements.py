"""SQL Statement Execution API 2.0 over HTTP: execute, get, cancel, chunks. Results are INLINE and JSON_ARRAY only."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue, NotFound
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.warehouses import require
from databricks_bridge.local.sql.model import SqlParameter, SqlRequest
from databricks_bridge.local.sql.statements import Statement, new_statement_id

LARGEST_STATEMENT_BYTES = 16 * 1024 * 1024
_WAIT = re.compile(r"(\d{1,2})s")
_PARAMETER = re.compile(r"\w+", re.ASCII)
Body = dict[str, Any]


def router(workspace: Workspace) -> APIRouter:
    """`/api/2.0/sql/statements` and below."""
    routes = APIRouter(prefix="/api/2.0/sql/statements")

    @routes.post("")
    @routes.post("/")
    async def execute(request: Request) -> JSONResponse:
        given = await read(request)
        seconds = _wait_seconds(given)
        cancels = _one_of(given, "on_wait_timeout", "CONTINUE", "CANCEL") == "CANCEL"
        if cancels and seconds == 0:
            raise InvalidParameterValue("on_wait_timeout CANCEL needs a wait_timeout that is not 0s.")
        statement = workspace.sql.start(_request(workspace, given))
        await workspace.sql.ended(statement, seconds)
        if cancels:
            workspace.sql.cancel(statement)
        return JSONResponse(_shown(workspace, statement))

    @routes.get("/{statement_id}")
    async def get(statement_id: str) -> JSONResponse:
        return JSONResponse(_shown(workspace, _existing(workspace, statement_id)))

    @routes.post("/{statement_id}/cancel")
    async def cancel(statement_id: str) -> JSONResponse:
        workspace.sql.cancel(_existing(workspace, statement_id))
        return JSONResponse({})

    @routes.get("/{statement_id}/result/chunks/{chunk_index}")
    async def chunk(statement_id: str, chunk_index: int) -> JSONResponse:
        statement = _existing(workspace, statement_id)
        if statement.rows is None:
            raise InvalidParameterValue(f"The statement {statement_id} is {statement.state} and has no result.")
        if not 0 <= chunk_index < max(_chunk_count(workspace, statement), 1):
            raise InvalidParameterValue(f"The statement {statement_id} has no chunk {chunk_index}.")
        return JSONResponse(_chunk(workspace, statement, chunk_index))

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
    if _one_of(given, "disposition", "INLINE", "EXTERNAL_LINKS") == "EXTERNAL_LINKS":
        raise FeatureDisabled("The local workspace has no disposition EXTERNAL_LINKS; use INLINE.")
    if (form := _one_of(given, "format", "JSON_ARRAY", "ARROW_STREAM", "CSV")) != "JSON_ARRAY":
        raise InvalidParameterValue(f"The format {form} is not supported with the disposition INLINE; use JSON_ARRAY.")
    limit = given.optional_integer("row_limit")
    if limit is not None and limit <= 0:
        raise InvalidParameterValue("row_limit must be a whole number above 0")
    if given.optional_integer("byte_limit") is not None:
        raise FeatureDisabled("The local workspace has no byte_limit; use row_limit.")
    return SqlRequest(
        statement_id=new_statement_id(),
        statement=text,
        metastore_root=workspace.layout.metastore_root(workspace.metastore),
        volumes_root=workspace.layout.volumes_root(workspace.metastore),
        catalog=given.text("catalog"),
        schema=given.text("schema"),
        parameters=_parameters(given),
        row_limit=limit,
    )


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


def _shown(workspace: Workspace, statement: Statement) -> Body:
    status: Body = {"state": statement.state}
    body: Body = {"statement_id": statement.statement_id, "status": status}
    if statement.error is not None:
        status["error"] = {"error_code": statement.error.error_code, "message": statement.error.message}
        if statement.error.sql_state is not None:
            status["sql_state"] = statement.error.sql_state
    if statement.rows is not None:
        body["manifest"] = _manifest(workspace, statement)
        body["result"] = _chunk(workspace, statement, 0) if statement.rows.rows else {}
    return body


def _manifest(workspace: Workspace, statement: Statement) -> Body:
    assert statement.rows is not None
    size, total = workspace.sql.chunk_rows, len(statement.rows.rows)
    columns = [
        {"name": column.name, "position": position, "type_name": column.type_name, "type_text": column.type_text}
        for position, column in enumerate(statement.rows.columns)
    ]
    chunks = [
        {"chunk_index": index, "row_offset": index * size, "row_count": min(size, total - index * size)}
        for index in range(_chunk_count(workspace, statement))
    ]
    return {
        "format": "JSON_ARRAY",
        "schema": {"column_count": len(columns), "columns": columns},
        "total_chunk_count": len(chunks),
        "total_row_count": total,
        "truncated": statement.rows.truncated,
        **({"chunks": chunks} if chunks else {}),
    }


def _chunk_count(workspace: Workspace, statement: Statement) -> int:
    assert statement.rows is not None
    return -(-len(statement.rows.rows) // workspace.sql.chunk_rows)


def _chunk(workspace: Workspace, statement: Statement, index: int) -> Body:
    assert statement.rows is not None
    size = workspace.sql.chunk_rows
    rows = statement.rows.rows[index * size : (index + 1) * size]
    body: Body = {"chunk_index": index, "row_offset": index * size, "row_count": len(rows), "data_array": rows}
    if index + 1 < _chunk_count(workspace, statement):
        link = f"/api/2.0/sql/statements/{statement.statement_id}/result/chunks/{index + 1}?row_offset={(index + 1) * size}"
        body |= {"next_chunk_index": index + 1, "next_chunk_internal_link": link}
    return body
