"""SQL statements on a warehouse, by the Statement Execution API 2.0 (`/api/2.0/sql/statements`), their rows as text.

A statement wakes the warehouse and keeps it awake: only what an author asked for by name comes here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    InvalidArgument,
    NotFound,
    NotPermitted,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.workspace.client import Json, Workspace

Row = dict[str, str | None]
T = TypeVar("T")

_PATH = "/api/2.0/sql/statements"
_PENDING = ("PENDING", "RUNNING")
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
_CANCEL_SECONDS = 10.0
_SHOWN = 120
# SQLSTATE of a failed statement (Databricks error classes TABLE_OR_VIEW_NOT_FOUND, INSUFFICIENT_PERMISSIONS).
_BY_SQL_STATE: dict[str, type[WorkspaceError]] = {"42P01": NotFound, "42501": NotPermitted}


class Warehouse:
    """A SQL warehouse of an open workspace, by its id or, looked up once, its exact name.

    The service answers at once when a statement ends within `wait_seconds` (0, or 5 to 50; it has to stay below the
    client's time for one try), else the statement is polled. `budget_seconds` bounds all of it: the name's look-up, the
    warehouse's start, answers that are slow, the rows. A statement that is given up is cancelled. `clock` is monotonic.
    """

    def __init__(
        self,
        workspace: Workspace,
        warehouse_id: str | None = None,
        *,
        name: str | None = None,
        wait_seconds: int = 0,
        budget_seconds: float = 600.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not warehouse_id and not name:
            raise InvalidArgument("no SQL warehouse is named; give its id or its exact name")
        self._workspace, self._id, self._name = workspace, warehouse_id, name
        self._wait, self._budget, self._sleep = wait_seconds, budget_seconds, sleep
        self._clock = clock

    def __repr__(self) -> str:
        return f"Warehouse({self._id or self._name!r}, {self._workspace.host!r})"

    async def execute(self, statement: str, **parameters: str | int) -> list[Row]:
        """All rows; every cell is text or None. The statement has to do the same when it arrives twice.

        Named parameters are `:name` in the statement. Raises NotFound, NotPermitted or WorkspaceError with the warehouse's
        own words, BadAnswer, Unavailable when it does not end in time, and what the workspace client raises.
        """
        until = self._clock() + self._budget
        if self._id is None:
            self._id = await self._in_time(until, statement, self._workspace.find_warehouse(self._name or ""))
        body: Json = {
            "warehouse_id": self._id,
            "statement": statement,
            "wait_timeout": f"{self._wait if self._wait <= self._budget else 0}s",
            "on_wait_timeout": "CONTINUE",
            "disposition": "INLINE",
            "format": "JSON_ARRAY",
        }
        if parameters:
            body["parameters"] = [
                {"name": name, "value": str(value), "type": "BIGINT" if isinstance(value, int) else "STRING"}
                for name, value in parameters.items()
            ]
        answer = await self._in_time(until, statement, self._workspace.post(_PATH, body, safe=True))
        answer = await self._ended(answer, statement, until)
        try:
            return await self._in_time(until, statement, self._rows(answer, statement))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadAnswer(
                f"{self._shown(statement)} answered in a form that cannot be read: {type(error).__name__} {error}"
            ) from error

    async def _in_time(self, until: float, statement: str, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(max(until - self._clock(), 0.0)):
                return await work
        except TimeoutError as error:
            raise Unavailable(f"{self._shown(statement)} was not answered in {self._budget:.0f} s") from error

    async def _ended(self, answer: Json, statement: str, until: float) -> Json:
        path = f"{_PATH}/{quote(str(answer.get('statement_id')), safe='')}"
        waited, pause = 0.0, _FIRST_PAUSE_SECONDS
        try:
            while _state(answer) in _PENDING:
                left = min(until - self._clock(), self._budget - waited)
                if left <= 0:
                    raise Unavailable(
                        f"{self._shown(statement)} did not end in {self._budget:.0f} s (state {_state(answer)}); is the "
                        "warehouse starting, or full?"
                    )
                pause = min(pause, left)
                await self._sleep(pause)
                waited, pause = waited + pause, min(pause * 2, _LONGEST_PAUSE_SECONDS)
                answer = await self._in_time(until, statement, self._workspace.get(path))
        except (asyncio.CancelledError, Unavailable):
            # nobody reads it any more, and a queued statement would start a warehouse for nothing
            cancel = asyncio.ensure_future(self._workspace.post(f"{path}/cancel", {}, safe=True))
            with suppress(BridgeError, TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await asyncio.shield(cancel)
            raise
        if _state(answer) != "SUCCEEDED":
            raise self._failed(statement, answer)
        return answer

    async def _rows(self, answer: Json, statement: str) -> list[Row]:
        """The first chunk is in the answer, the others are fetched by their numbers. Raises BadAnswer for a part of the rows."""
        manifest = answer["manifest"]
        columns = [str(one["name"]) for one in manifest["schema"].get("columns") or []]
        chunk = answer.get("result") or {}
        rows: list[Row] = []
        chunks = 1
        while True:
            rows += [dict(zip(columns, row, strict=True)) for row in chunk.get("data_array") or []]
            following = chunk.get("next_chunk_index")
            if following is None:
                break
            if following != chunks:
                raise self._partial(statement, f"chunk {following} follows where chunk {chunks} was due")
            path = f"{_PATH}/{quote(str(answer['statement_id']), safe='')}/result/chunks/{following}"
            chunk = await self._workspace.get(path)
            chunks += 1
        if manifest.get("truncated"):
            raise self._partial(statement, "the service cut the result")
        for what, seen, told in (
            ("rows", len(rows), manifest.get("total_row_count")),
            ("chunks", chunks, manifest.get("total_chunk_count")),
        ):
            if told is not None and int(told) > seen:
                raise self._partial(statement, f"its manifest tells {told} {what}, and {seen} came")
        return rows

    def _partial(self, statement: str, why: str) -> BadAnswer:
        return BadAnswer(
            f"{self._shown(statement)} gave a part of its rows: {why}; nothing is decided from a part, retry"
        )

    def _failed(self, statement: str, answer: Json) -> Exception:
        status: dict[str, Any] = answer.get("status") or {}
        error = status.get("error") or {}
        if _state(answer) in ("CANCELED", "CLOSED"):
            return Unavailable(f"{self._shown(statement)} was {_state(answer).lower()} by someone else; look again")
        kind = _BY_SQL_STATE.get(str(status.get("sql_state") or error.get("sql_state")), WorkspaceError)
        code = error.get("error_code")
        return kind(
            f"{self._shown(statement)} ended as {_state(answer)}: {code}: {error.get('message', 'no message')}",
            status=200,
            error_code=None if code is None else str(code),
        )

    def _shown(self, statement: str) -> str:
        short = statement if len(statement) <= _SHOWN else f"{statement[:_SHOWN]}..."
        return f"{short!r} on SQL warehouse {self._id} in {self._workspace.host}"


def _state(answer: Json) -> str:
    return str((answer.get("status") or {}).get("state"))
