"""One engine on a loop of its own, used from others."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path

import pytest

from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.shared_engine import engine_in_thread

REQUEST = NotebookRun(1, "main", Path(), Path(), Path("notebook.py"), {}, "", "", Path())


class Recording:
    """An engine that says where it was called, and how its runs ended."""

    def __init__(self) -> None:
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.said: list[str] = []
        self.begun = threading.Event()

    async def start(self) -> None:
        self._note("start")

    async def run(self, request: NotebookRun) -> NotebookResult:
        self._note("run")
        if request.task_key == "fails":
            raise OSError("no engine")
        if request.task_key == "waits":
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.05)
                self._note("cleaned up")
        return NotebookResult(True, "done", None, None)

    async def close(self) -> None:
        self._note("close")

    def _note(self, word: str) -> None:
        self.said.append(word)
        self.loops.add(asyncio.get_running_loop())


def test_it_is_started_and_closed_once_for_all_who_use_it() -> None:
    engine = Recording()
    with engine_in_thread(engine) as shared:

        async def deployment() -> NotebookResult:
            await shared.start()
            result = await shared.run(REQUEST)
            await shared.close()
            return result

        results = [asyncio.run(deployment()) for _ in range(2)]
    assert [result.exit_value for result in results] == ["done", "done"]
    assert engine.said == ["start", "run", "run", "close"]
    assert len(engine.loops) == 1


def test_a_cancelled_run_returns_when_it_is_cleaned_up() -> None:
    engine = Recording()

    async def cancel() -> None:
        with engine_in_thread(engine) as shared:
            run = asyncio.create_task(shared.run(dataclasses.replace(REQUEST, task_key="waits")))
            await asyncio.to_thread(engine.begun.wait, 10)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert engine.said == ["start", "run", "cleaned up"]

    asyncio.run(cancel())


def test_what_it_raises_comes_through() -> None:
    async def fail() -> None:
        with engine_in_thread(Recording()) as shared:
            await shared.run(dataclasses.replace(REQUEST, task_key="fails"))

    with pytest.raises(OSError, match="no engine"):
        asyncio.run(fail())
