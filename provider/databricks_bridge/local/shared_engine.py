"""One engine for several deployments, which come and go on event loops of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from databricks_bridge.local.engine.model import Engine, NotebookResult, NotebookRun
from databricks_bridge.local.sql.model import NoSql, SqlRequest, SqlRows, SqlRunner

T = TypeVar("T")


class SharedEngine:
    """Hands on to an engine that lives on another loop. To start and to close it is left to whoever owns that one."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop

    async def start(self) -> None:
        """It is up already."""

    async def run(self, request: NotebookRun) -> NotebookResult:
        """Run one notebook to its end. Cancelled, it returns when the other loop has cleaned up."""
        return await self._there(lambda: self._engine.run(request))

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        """Run one statement, as far as the engine runs SQL. Raises SqlFailed."""
        runner = self._engine if isinstance(self._engine, SqlRunner) else NoSql()
        return await self._there(lambda: runner.run_sql(request))

    async def _there(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        tasks: list[asyncio.Task[T]] = []
        ended: Future[asyncio.Task[T]] = Future()

        def begin() -> None:
            tasks.append(self._loop.create_task(work()))
            tasks[0].add_done_callback(ended.set_result)

        self._loop.call_soon_threadsafe(begin)
        # Shielded, since a cancelled future could not tell when the other loop has cleaned up.
        waiting = asyncio.wrap_future(ended)
        try:
            return (await asyncio.shield(waiting)).result()
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            while not waiting.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(waiting)
            raise

    async def close(self) -> None:
        """It goes on for the next deployment."""


@contextmanager
def engine_in_thread(engine: Engine) -> Iterator[SharedEngine]:
    """`engine`, started on a loop in a thread of its own, and closed there afterwards. Raises what its start raises."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="shared engine", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(engine.start(), loop).result()
        yield SharedEngine(engine, loop)
    finally:
        asyncio.run_coroutine_threadsafe(engine.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
