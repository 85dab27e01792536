"""Many small tables on this machine's disk, and the part of Unity Catalog that knows them, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from databricks_bridge.delta.names import LOG, commit_path

PAGE = 50
_FIRST: list[dict[str, Any]] = [
    {"commitInfo": {"operation": "WRITE"}},
    {"metaData": {"id": "11111111-2222-3333-4444-555555555555"}},
    {"add": {"path": "p", "dataChange": True}},
]
_NEXT: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE"}}, {"add": {"path": "p", "dataChange": True}}]


def name_of(number: int, schemas: int) -> str:
    """The name of a table: they are dealt out to the schemas in turn."""
    return f"main.s{number % schemas}.t{number}"


def make_tables(root: Path, tables: int) -> None:
    """Each with one commit."""
    content = _lines(_FIRST)
    for number in range(tables):
        log = root / f"t{number}" / LOG
        log.mkdir(parents=True)
        (root / f"t{number}" / commit_path(0)).write_bytes(content)


def commit(root: Path, number: int, version: int) -> None:
    """One more commit with data, put in place as a whole."""
    path = root / f"t{number}" / commit_path(version)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(_lines(_NEXT))
    hidden.rename(path)


def _lines(actions: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(action)}\n" for action in actions).encode()


class Catalog:
    """The tables, served by name and by schema; requests are counted at `/counts`."""

    def __init__(self, root: Path, tables: int, schemas: int) -> None:
        self.counts: Counter[str] = Counter()
        self._schemas: dict[str, dict[str, Any]] = {}
        for number in range(tables):
            _, schema, table = name_of(number, schemas).split(".")
            self._schemas.setdefault(schema, {})[table] = {
                "name": table,
                "table_id": f"id-{number}",
                "table_type": "MANAGED",
                "data_source_format": "DELTA",
                "storage_location": f"file://{root}/t{number}",
            }

    async def listing(self, request: web.Request) -> web.Response:
        self.counts["list"] += 1
        tables = list(self._schemas[request.query["schema_name"]].values())
        start = int(request.query.get("page_token", 0))
        page: dict[str, Any] = {"tables": tables[start : start + PAGE]}
        if start + PAGE < len(tables):
            page["next_page_token"] = str(start + PAGE)
        return web.json_response(page)

    async def by_name(self, request: web.Request) -> web.Response:
        self.counts["get"] += 1
        _, schema, table = request.match_info["name"].split(".")
        return web.json_response(self._schemas[schema][table])

    async def counted(self, request: web.Request) -> web.Response:
        return web.json_response(self.counts)


async def _serve(root: str, tables: str, schemas: str, workspaces: str = "1") -> None:
    """On a port for each workspace; the line that is printed has them all."""
    catalog = Catalog(Path(root), int(tables), int(schemas))
    app = web.Application()
    app.router.add_get("/counts", catalog.counted)
    app.router.add_get("/api/2.1/unity-catalog/tables", catalog.listing)
    app.router.add_get("/api/2.1/unity-catalog/tables/{name}", catalog.by_name)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    for _ in range(int(workspaces)):
        await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(*(address[1] for address in runner.addresses), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
