"""Results of SQL statements on the wire: in the answer itself, or behind links that are signed and expire.

A link is fetched without an Authorization header, as Databricks documents it: what it opens is in its signature.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import signed_links
from databricks_bridge.local.server.errors import NotFound
from databricks_bridge.local.sql.formats import FORMATS, rendered
from databricks_bridge.local.sql.statements import Statement

PREFIX = "/local/results/"
Body = dict[str, Any]


def router(workspace: Workspace) -> APIRouter:
    """The links themselves, where Databricks has the storage of a cloud."""
    routes = APIRouter(prefix=PREFIX.rstrip("/"))

    @routes.get("/{statement_id}/{index}")
    async def fetch(request: Request, statement_id: str, index: int, expires: int, signature: str) -> Response:
        signed_links.check(workspace, request, f"{statement_id}/{index}", expires, signature)
        statement = workspace.sql.find(statement_id)
        if statement is None or statement.rows is None:
            raise NotFound("The result is no longer kept.")
        content = await run_in_threadpool(_content, workspace, statement, index)
        return Response(content, media_type=FORMATS[statement.form.format])

    return routes


async def manifest(workspace: Workspace, statement: Statement) -> Body:
    """`manifest` of a statement that has succeeded."""
    assert statement.rows is not None
    size, total = workspace.sql.chunk_rows, len(statement.rows.rows)
    columns = [
        {"name": column.name, "position": position, "type_name": column.type_name, "type_text": column.type_text}
        for position, column in enumerate(statement.rows.columns)
    ]
    chunks: list[Body] = [
        {"chunk_index": index, "row_offset": index * size, "row_count": min(size, total - index * size)}
        for index in range(chunk_count(workspace, statement))
    ]
    body = {
        "format": statement.form.format,
        "schema": {"column_count": len(columns), "columns": columns},
        "total_chunk_count": len(chunks),
        "total_row_count": total,
        "truncated": statement.rows.truncated,
        **({"chunks": chunks} if chunks else {}),
    }
    if statement.form.links:
        for part in chunks:
            part["byte_count"] = len(await run_in_threadpool(_content, workspace, statement, part["chunk_index"]))
        body["total_byte_count"] = sum(part["byte_count"] for part in chunks)
    return body


def chunk_count(workspace: Workspace, statement: Statement) -> int:
    assert statement.rows is not None
    return -(-len(statement.rows.rows) // workspace.sql.chunk_rows)


async def chunk(workspace: Workspace, statement: Statement, index: int) -> Body:
    """`result`: one chunk, or the one link to it."""
    assert statement.rows is not None
    size = workspace.sql.chunk_rows
    rows = statement.rows.rows[index * size : (index + 1) * size]
    body: Body = {"chunk_index": index, "row_offset": index * size, "row_count": len(rows)}
    if index + 1 < chunk_count(workspace, statement):
        after = f"/api/2.0/sql/statements/{statement.statement_id}/result/chunks/{index + 1}"
        body["next_chunk_index"] = index + 1
        body["next_chunk_internal_link"] = f"{after}?row_offset={(index + 1) * size}"
    if not statement.form.links:
        return {**body, "data_array": rows}
    expires = int(workspace.now()) + signed_links.LINK_SECONDS
    what = f"{statement.statement_id}/{index}"
    signature = signed_links.signature_of(workspace, what, expires)
    link = f"{workspace.host}{PREFIX}{what}?expires={expires}&signature={signature}"
    body |= {
        "byte_count": len(await run_in_threadpool(_content, workspace, statement, index)),
        "external_link": link,
        "expiration": datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }
    return {"external_links": [body]}


def _content(workspace: Workspace, statement: Statement, index: int) -> bytes:
    """The bytes of a chunk, made at first asking and kept with the statement."""
    assert statement.rows is not None
    size, known = workspace.sql.chunk_rows, statement.rendered
    if index not in known:
        rows = statement.rows.rows[index * size : (index + 1) * size]
        known[index] = rendered(statement.form.format, statement.rows.columns, rows, first=index == 0)
    return known[index]
