"""The statements of one workspace and the state of its SQL warehouse, in memory: a restart forgets them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from typing import Literal

from databricks_bridge.local.sql.model import SqlFailed, SqlRequest, SqlRows, SqlRunner

State = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"]
INLINE_BYTES = 25 * 1024 * 1024
KEPT_SECONDS = 3600
"""How long Databricks keeps a result, and we the statement."""
CHUNK_ROWS = 1000
TOO_LARGE = (
    f"Inline byte limit exceeded. Statements executed with disposition=INLINE can have a result size of at most "
    f"{INLINE_BYTES} bytes. Use disposition=EXTERNAL_LINKS, or ask for less."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResultForm:
    """How a result is wanted: behind `links` or in the answer, in which format, and at most how many bytes of it."""

    links: bool = False
    format: str = "JSON_ARRAY"
    byte_limit: int | None = None


@dataclass
class Statement:
    """One statement. `rows` once it has succeeded, `error` once it has failed; `rendered` are chunks, as bytes."""

    request: SqlRequest
    form: ResultForm = ResultForm()
    state: State = "PENDING"
    rows: SqlRows | None = None
    error: SqlFailed | None = None
    ended_at: float | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    rendered: dict[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def statement_id(self) -> str:
        return self.request.statement_id


@dataclass(frozen=True)
class SqlSession:
    """What the statements of a session begin with, unless they say otherwise."""

    catalog: str | None
    schema: str | None


MOST_SESSIONS = 1000
"""Of a warehouse; the oldest goes when there is one more."""


class Statements:
    """Of the workspace of this name. To be used on the event loop's thread.

    `chunk_rows` rows make one chunk of a result.
    """

    def __init__(self, runner: SqlRunner, workspace: str = "", *, chunk_rows: int = CHUNK_ROWS) -> None:
        self.runner, self.workspace, self.chunk_rows = runner, workspace, chunk_rows
        self.warehouse_runs = True
        self.link_key = secrets.token_bytes(32)
        self._kept: dict[str, Statement] = {}
        self.sessions: dict[str, SqlSession] = {}

    def open_session(self, session: SqlSession) -> str:
        """The id of a new session."""
        session_id = str(uuid.uuid4())
        self.sessions[session_id] = session
        if len(self.sessions) > MOST_SESSIONS:
            del self.sessions[next(iter(self.sessions))]
        return session_id

    def drop(self, statement: Statement) -> None:
        """Forget a statement and its result; one that runs is cancelled."""
        self.cancel(statement)
        self._kept.pop(statement.statement_id, None)

    def start(self, request: SqlRequest, form: ResultForm = ResultForm()) -> Statement:
        """Start the statement, and the warehouse should it be stopped."""
        self.warehouse_runs = True
        request = replace(request, workspace=self.workspace)
        statement = self._kept[request.statement_id] = Statement(request, form)
        statement.task = asyncio.create_task(self._carry_out(statement), name=f"statement {request.statement_id}")
        self._forget(asyncio.get_running_loop().time())
        return statement

    def find(self, statement_id: str) -> Statement | None:
        return self._kept.get(statement_id)

    async def ended(self, statement: Statement, seconds: float) -> None:
        """Returns when the statement has ended, or after so many seconds."""
        if statement.task is not None and not statement.task.done():
            await asyncio.wait({statement.task}, timeout=seconds)

    def cancel(self, statement: Statement) -> None:
        """Nothing for a statement that has ended."""
        if statement.ended_at is None and statement.task is not None:
            self._end(statement, "CANCELED")
            statement.task.cancel()

    async def close(self) -> None:
        tasks = [one.task for one in self._kept.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry_out(self, statement: Statement) -> None:
        statement.state = "RUNNING"
        try:
            rows = _within(await self.runner.run_sql(statement.request), statement.form.byte_limit)
            if not statement.form.links and sum(map(_size, rows.rows)) > INLINE_BYTES:
                raise SqlFailed(TOO_LARGE)
            statement.rows = rows
            self._end(statement, "SUCCEEDED")
        except SqlFailed as error:
            statement.error = error
            self._end(statement, "FAILED")
        except Exception as error:
            log.exception("statement %s broke the local workspace", statement.statement_id)
            statement.error = SqlFailed(
                f"The local workspace broke: {type(error).__name__}: {error}", error_code="INTERNAL_ERROR"
            )
            self._end(statement, "FAILED")

    def _end(self, statement: Statement, state: State) -> None:
        if statement.ended_at is None:
            statement.state, statement.ended_at = state, asyncio.get_running_loop().time()

    def _forget(self, now: float) -> None:
        old = [name for name, one in self._kept.items() if one.ended_at and now - one.ended_at > KEPT_SECONDS]
        for name in old:
            del self._kept[name]


def _within(rows: SqlRows, byte_limit: int | None) -> SqlRows:
    """The first rows that together have no more bytes than that."""
    if byte_limit is None:
        return rows
    sizes = accumulate(map(_size, rows.rows))
    count = sum(1 for _ in takewhile(lambda size: size <= byte_limit, sizes))
    return rows if count == len(rows.rows) else replace(rows, rows=rows.rows[:count], truncated=True)


def _size(row: list[str | None]) -> int:
    return sum(len((cell or "").encode()) for cell in row)


def new_statement_id() -> str:
    return str(uuid.uuid4())
