"""One SQL statement through the Statement Execution API 2.0 (`POST /api/2.0/sql/statements`), its rows as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from databricks_bridge.core.errors import LedgerError, WorkspaceError
from databricks_bridge.workspace.client import Workspace

Row = dict[str, str | None]

_PATH = "/api/2.0/sql/statements"
_WAITING = frozenset({"PENDING", "RUNNING"})
_WAIT = "10s"  # the API takes 0 s or 5 to 50 s; below the client's time for one try
_POLL_SECONDS = 2.0


class Warehouse:
    """A SQL warehouse of an open workspace. A statement wakes it; `patience_seconds` covers its start."""

    def __init__(
        self,
        workspace: Workspace,
        warehouse_id: str,
        *,
        patience_seconds: float = 600.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workspace, self._warehouse_id = workspace, warehouse_id
        self._patience, self._sleep, self._clock = patience_seconds, sleep, clock

    def __repr__(self) -> str:
        return f"Warehouse({self._warehouse_id!r}, {self._workspace.host!r})"

    async def execute(self, statement: str, **parameters: str | int) -> list[Row]:
        """All rows of a statement that does the same when it arrives twice; every cell is text or None.

        Named parameters are `:name` in the statement. Raises LedgerError with the warehouse's own words, and what the
        workspace client raises.
        """
        body = {
            "warehouse_id": self._warehouse_id,
            "statement": statement,
            "wait_timeout": _WAIT,
            "on_wait_timeout": "CONTINUE",
            "disposition": "INLINE",
            "format": "JSON_ARRAY",
            "parameters": [
                {"name": name, "value": str(value), "type": "BIGINT" if isinstance(value, int) else "STRING"}
                for name, value in parameters.items()
            ],
        }
        try:
            answer = await self._ended(await self._workspace.post(_PATH, body, safe=True))
            return await self._rows(answer)
        except WorkspaceError as error:
            raise LedgerError(f"warehouse {self._warehouse_id} did not run a statement: {error}") from error

    async def _ended(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        deadline = self._clock() + self._patience
        while (state := answer["status"]["state"]) in _WAITING:
            if self._clock() > deadline:
                raise LedgerError(
                    f"warehouse {self._warehouse_id} has a statement {state} for {self._patience:.0f} s; is it able to start?"
                )
            await self._sleep(_POLL_SECONDS)
            answer = await self._workspace.get(f"{_PATH}/{answer['statement_id']}")
        if state != "SUCCEEDED":
            error = answer["status"].get("error") or {}
            said = f"{error.get('error_code', state)}: {error.get('message', 'no message')}"
            raise LedgerError(f"warehouse {self._warehouse_id} in {self._workspace.host}: {said}")
        return answer

    async def _rows(self, answer: Mapping[str, Any]) -> list[Row]:
        manifest = answer.get("manifest") or {}
        names = [column["name"] for column in (manifest.get("schema") or {}).get("columns") or []]
        chunk: Mapping[str, Any] = answer.get("result") or {}
        rows: list[Row] = []
        while True:
            rows += [dict(zip(names, row, strict=True)) for row in chunk.get("data_array") or []]
            following = chunk.get("next_chunk_index")
            if following is None:
                return rows
            chunk = await self._workspace.get(f"{_PATH}/{answer['statement_id']}/result/chunks/{following}")
