"""The newest version of a table by SQL: the last resort, for it wakes a SQL warehouse and keeps it awake.

`DESCRIBE HISTORY ... LIMIT 1` by the SQL Statement Execution API 2.0. Used only where the author asks for it by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    HistoryGap,
    NotFound,
    NotPermitted,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.delta.commits import MAINTENANCE
from databricks_bridge.delta.identifiers import plain, quoted
from databricks_bridge.delta.model import CommitSummary, LatestVersion
from databricks_bridge.workspace.client import Json, Workspace

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
_HISTORY_MAX = 1000
_PENDING = ("PENDING", "RUNNING")
# SQLSTATE of a failed statement (Databricks error classes TABLE_OR_VIEW_NOT_FOUND, INSUFFICIENT_PERMISSIONS).
_BY_SQL_STATE: dict[str, type[WorkspaceError]] = {"42P01": NotFound, "42501": NotPermitted}


class SqlTable:
    """A table whose history a SQL warehouse tells; a VersionSource.

    `warehouse` is the warehouse's exact name or, as `warehouse_id`, its id. One look is one statement, or two when the
    newest commit is maintenance. `budget_seconds` bounds a statement with the warehouse's start. `sleep` is injected.
    """

    def __init__(
        self,
        workspace: Workspace,
        full_name: str,
        *,
        warehouse: str | None = None,
        warehouse_id: str | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        budget_seconds: float = 600.0,
    ) -> None:
        self._workspace, self._name = workspace, full_name
        self._warehouse, self._warehouse_id = warehouse, warehouse_id
        self._sleep, self._budget = sleep, budget_seconds

    def __repr__(self) -> str:
        return f"SqlTable({self._name!r}, {self._workspace!r})"

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """See `VersionSource.latest`."""
        entry = await self._workspace.get_table(plain(self._name))
        history = await self._history(1)
        if not history:
            return None
        newest = history[0]
        above = -1 if known is None else known
        if newest.version > above + 1 and not newest.carries_data:
            history = [c for c in await self._history(newest.version - above) if c.version <= newest.version]
        data = next((c.version for c in history if c.version > above and c.carries_data), None)
        if data is None and (oldest := history[-1].version) > above + 1:
            data = oldest - 1  # what is not in the history any more, or is too far back to ask for, counts as data
        return LatestVersion(
            version=newest.version,
            table_id=str(entry["table_id"]) if entry.get("table_id") else None,
            committed_at=newest.committed_at,
            data_version=data,
        )

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """See `VersionSource.commits`. One statement, of the whole history above `from_exclusive`."""
        if to_inclusive <= from_exclusive:
            return
        newest = await self._history(1)
        if not newest or newest[0].version < to_inclusive:
            raise Unavailable(f"commit {to_inclusive} of {self._name} is not there, at least not yet; look again")
        history = {c.version: c for c in await self._history(newest[0].version - from_exclusive, most=None)}
        for version in range(from_exclusive + 1, to_inclusive + 1):
            if version not in history:
                raise HistoryGap(
                    f"commit {version} of {self._name} is not in its history, and ({from_exclusive}, {to_inclusive}] was "
                    "asked for; log retention may have removed it: rebuild from the table, or adopt the newest version"
                )
            yield history[version]

    async def _history(self, rows: int, *, most: int | None = _HISTORY_MAX) -> list[CommitSummary]:
        """The newest commits, newest first."""
        limit = rows if most is None else min(rows, most)
        answer = await self._run(f"DESCRIBE HISTORY {quoted(self._name)} LIMIT {limit}")
        try:
            columns = [str(one["name"]).lower() for one in answer["manifest"]["schema"]["columns"]]
            found = [dict(zip(columns, row, strict=True)) for row in await self._rows(answer)]
            commits = [_commit(row) for row in found]
        except (KeyError, TypeError, ValueError) as error:
            raise BadAnswer(
                f"DESCRIBE HISTORY of {self._name} in {self._workspace.host} answered in a form that cannot be read: "
                f"{type(error).__name__} {error}"
            ) from error
        return sorted(commits, key=lambda commit: commit.version, reverse=True)

    async def _rows(self, answer: Json) -> list[list[str | None]]:
        """All rows: the first chunk is in the answer, the others are fetched by their numbers."""
        chunk = answer.get("result") or {}
        rows = list(chunk.get("data_array") or [])
        while (following := chunk.get("next_chunk_index")) is not None:
            path = f"/api/2.0/sql/statements/{answer['statement_id']}/result/chunks/{following}"
            chunk = await self._workspace.get(path)
            rows += chunk.get("data_array") or []
        return rows

    async def _run(self, statement: str) -> Json:
        if self._warehouse_id is None:
            self._warehouse_id = await self._workspace.find_warehouse(self._warehouse or "")
        answer = await self._workspace.execute_statement(self._warehouse_id, statement)
        statement_id = str(answer["statement_id"])
        waited, pause = 0.0, _FIRST_PAUSE_SECONDS
        try:
            while _state(answer) in _PENDING:
                if waited >= self._budget:
                    raise Unavailable(
                        f"SQL warehouse {self._warehouse_id} in {self._workspace.host} did not finish {statement!r} in "
                        f"{self._budget:.0f} s (state {_state(answer)}); is it starting, or full?"
                    )
                await self._sleep(pause)
                waited, pause = waited + pause, min(pause * 2, _LONGEST_PAUSE_SECONDS)
                answer = await self._workspace.get_statement(statement_id)
        except (asyncio.CancelledError, Unavailable):
            # nobody reads it any more, and a queued statement would start a warehouse for nothing
            with suppress(BridgeError):
                await asyncio.shield(self._workspace.cancel_statement(statement_id))
            raise
        if _state(answer) != "SUCCEEDED":
            raise self._failed(statement, answer)
        return answer

    def _failed(self, statement: str, answer: Json) -> Exception:
        status: dict[str, Any] = answer.get("status") or {}
        error = status.get("error") or {}
        where = f"{statement!r} on SQL warehouse {self._warehouse_id} in {self._workspace.host}"
        if _state(answer) in ("CANCELED", "CLOSED"):
            return Unavailable(f"{where} was {_state(answer).lower()} by someone else; look again")
        kind = _BY_SQL_STATE.get(str(status.get("sql_state") or error.get("sql_state")), WorkspaceError)
        code = error.get("error_code")
        return kind(
            f"{where} ended as {_state(answer)}: {code}: {error.get('message', 'no message')}",
            status=200,
            error_code=None if code is None else str(code),
        )


def _state(answer: Json) -> str:
    return str((answer.get("status") or {}).get("state"))


def _commit(row: dict[str, str | None]) -> CommitSummary:
    operation = row.get("operation")
    return CommitSummary(
        version=int(row["version"] or ""),
        operation=operation,
        carries_data=operation not in MAINTENANCE,
        committed_at=_moment(row.get("timestamp")),
    )


def _moment(text: str | None) -> datetime | None:
    """The commit's time; None for a text without a zone, whose meaning hangs on the warehouse's settings."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
