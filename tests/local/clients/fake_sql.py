"""A fake SQL runner, for a local workspace without Spark. DuckDB runs the statements; it is declared as what it is.

Real here: the history of Delta tables, read from their logs. Not real: Spark's dialect, its types and its errors.
"""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from databricks_bridge.local.sql.model import SqlColumn, SqlFailed, SqlRequest, SqlRows

_HISTORY = re.compile(r"DESCRIBE HISTORY `?(\w+)`?\.`?(\w+)`?\.`?(\w+)`? LIMIT (\d+)", re.IGNORECASE)
_TYPES = {"BIGINT": "LONG", "INTEGER": "INT", "VARCHAR": "STRING"}


@dataclass
class FakeSql:
    """`seen` holds every request. A statement that holds the text `WAIT` runs until `go` is set or it is cancelled."""

    seen: list[SqlRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)
    _database: Any = None

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        self.seen.append(request)
        if "WAIT" in request.statement:
            try:
                while not self.go.is_set():  # noqa: ASYNC110 - set by the test's thread, awaited on the server's loop
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled.append(request.statement_id)
                raise
        if found := _HISTORY.search(request.statement):
            return await asyncio.to_thread(_history, request, found)
        return self._by_duckdb(request)

    def _by_duckdb(self, request: SqlRequest) -> SqlRows:
        import duckdb

        if self._database is None:
            self._database = duckdb.connect(":memory:")
            self._database.execute("ATTACH ':memory:' AS lake; CREATE SCHEMA lake.bridge; USE lake.bridge")
        given = {
            one.name: None if one.value is None else int(one.value) if one.type == "BIGINT" else one.value
            for one in request.parameters
        }
        text = re.sub(r":(\w+)", r"$\1", request.statement.replace("`", '"'))
        try:
            cursor = self._database.execute(text, given)
            rows = cursor.fetchall()
        except duckdb.CatalogException as error:
            raise SqlFailed(f"[TABLE_OR_VIEW_NOT_FOUND] {error}", sql_state="42P01") from error
        except duckdb.Error as error:
            raise SqlFailed(f"[PARSE_SYNTAX_ERROR] {error}", sql_state="42601") from error
        columns = tuple(
            SqlColumn(one[0], _TYPES.get(str(one[1]), str(one[1])), str(one[1])) for one in cursor.description or ()
        )
        limit = request.row_limit or len(rows)
        texts = [[None if cell is None else str(cell) for cell in row] for row in rows[:limit]]
        return SqlRows(columns, texts, truncated=len(rows) > limit)


def _history(request: SqlRequest, found: re.Match[str]) -> SqlRows:
    from deltalake import DeltaTable

    table = DeltaTable(str(request.metastore_root.joinpath(found[1], found[2], found[3])))
    columns = (
        SqlColumn("version", "LONG", "BIGINT"),
        SqlColumn("timestamp", "TIMESTAMP", "TIMESTAMP"),
        SqlColumn("operation", "STRING", "STRING"),
    )
    return SqlRows(
        columns,
        [
            [
                str(commit["version"]),
                datetime.fromtimestamp(commit["timestamp"] / 1000, UTC).isoformat(timespec="milliseconds"),
                commit["operation"],
            ]
            for commit in table.history(int(found[4]))
        ],
    )
