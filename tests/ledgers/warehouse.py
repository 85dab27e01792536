"""A SQL warehouse over HTTP: the Statement Execution API in front of DuckDB, with faults to switch on."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from databricks_bridge.workspace.client import Workspace

TOKEN = "dapi-warehouse-token"
PATH = "/api/2.0/sql/statements"


@dataclass
class FakeWarehouse:
    """`slow`: answers PENDING first, and with `never` for good. `lose`: a statement that matches runs and is answered 503, once. `refuse`: it does not
    run and is FAILED, once. `chunk_rows`: so many rows in one chunk.
    """

    database: Any = field(default_factory=lambda: _connect())
    slow: bool = False
    never: bool = False
    lose: str = ""
    refuse: str = ""
    chunk_rows: int = 1000
    statements: list[str] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, list[list[str | None]]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.database.execute("ATTACH ':memory:' AS lake; CREATE SCHEMA lake.bridge")

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.database.execute(text).fetchall()  # type: ignore[no-any-return]

    async def post(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error_code": "UNAUTHENTICATED", "message": "no"}, status=401)
        body = await request.json()
        assert body["warehouse_id"] == "wh-1"
        text = body["statement"]
        self.statements.append(text)
        answer = self.run(f"s{len(self.statements)}", text, body.get("parameters", []))
        if self.lose and self.lose in text:
            self.lose = ""
            return web.json_response({"error_code": "TEMPORARILY_UNAVAILABLE", "message": "later"}, status=503)
        if self.slow:
            return web.json_response({"statement_id": answer["statement_id"], "status": {"state": "PENDING"}})
        return web.json_response(answer)

    async def get(self, request: web.Request) -> web.Response:
        await asyncio.sleep(0)
        name = request.match_info["id"]
        pending = {"statement_id": name, "status": {"state": "PENDING"}}
        return web.json_response(pending if self.never else self.answers[name])

    async def cancel(self, request: web.Request) -> web.Response:
        self.cancelled.append(request.match_info["id"])
        return web.json_response({})

    async def chunk(self, request: web.Request) -> web.Response:
        return web.json_response(self._chunk(request.match_info["id"], int(request.match_info["n"])))

    def run(self, name: str, text: str, parameters: list[dict[str, str]]) -> dict[str, Any]:
        import duckdb

        if self.refuse and self.refuse in text:
            self.refuse = ""
            return self._failed(name, "[DELTA_CONCURRENT_APPEND] files were added by a concurrent update")
        given = {one["name"]: int(one["value"]) if one["type"] == "BIGINT" else one["value"] for one in parameters}
        try:
            cursor = self.database.execute(re.sub(r":(\w+)", r"$\1", text.replace("`", '"')), given)
            rows = [[None if cell is None else str(cell) for cell in row] for row in cursor.fetchall()]
        except duckdb.Error as error:
            return self._failed(name, str(error))
        columns = [{"name": one[0], "position": n} for n, one in enumerate(cursor.description or [])]
        self.rows[name] = rows
        self.answers[name] = {
            "statement_id": name,
            "status": {"state": "SUCCEEDED"},
            "manifest": {"format": "JSON_ARRAY", "schema": {"columns": columns}},
            "result": self._chunk(name, 0),
        }
        return self.answers[name]

    def _failed(self, name: str, message: str) -> dict[str, Any]:
        error = {"error_code": "BAD_REQUEST", "message": message}
        self.answers[name] = {"statement_id": name, "status": {"state": "FAILED", "error": error}}
        return self.answers[name]

    def _chunk(self, name: str, index: int) -> dict[str, Any]:
        rows, size = self.rows[name], self.chunk_rows
        if not rows:
            return {}
        part = rows[index * size : (index + 1) * size]
        chunk = {"chunk_index": index, "row_count": len(part), "data_array": part}
        return chunk | ({"next_chunk_index": index + 1} if (index + 1) * size < len(rows) else {})


def _connect() -> Any:
    import duckdb

    return duckdb.connect(":memory:")


@asynccontextmanager
async def serve() -> AsyncIterator[FakeWarehouse]:
    warehouse = FakeWarehouse()
    app = web.Application()
    app.router.add_post(PATH, warehouse.post)
    app.router.add_get(PATH + "/{id}", warehouse.get)
    app.router.add_post(PATH + "/{id}/cancel", warehouse.cancel)
    app.router.add_get(PATH + "/{id}/result/chunks/{n}", warehouse.chunk)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    warehouse.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    try:
        yield warehouse
    finally:
        await runner.cleanup()
        warehouse.database.close()


@asynccontextmanager
async def client(warehouse: FakeWarehouse) -> AsyncIterator[Workspace]:
    async def authorize() -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}

    async def no_pause(seconds: float) -> None:
        await asyncio.sleep(0)

    async with Workspace(warehouse.url, authorize, sleep=no_pause) as workspace:
        yield workspace


@contextmanager
def in_thread() -> Iterator[FakeWarehouse]:
    """The same in a thread with a loop of its own, for what runs a loop itself."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    served = serve()
    try:
        yield asyncio.run_coroutine_threadsafe(served.__aenter__(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(served.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
