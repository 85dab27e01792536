"""A deployment's folders and one warm engine, driven from plain tests."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine import NotebookResult, NotebookRun, SparkEngine
from databricks_bridge.local.engine.jars import prepare
from databricks_bridge.local.engine.spark import HEAP


class Lab:
    """One engine on a loop of its own. `run` gives a notebook's text to it and waits; `begin` does not wait."""

    def __init__(self, home: Path, heap: str = HEAP) -> None:
        self.home = home
        self._heap = heap
        self._numbers = itertools.count(1)
        self._last = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.engine: SparkEngine = self.call(self._make())

    async def _make(self) -> SparkEngine:
        return SparkEngine(self.home / "engine", prepare(print), self._heap)

    def call(self, work: Coroutine[Any, Any, Any], timeout: float = 120) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def table(self, name: str, metastore: str = "ops") -> Path:
        return self.home.joinpath("metastores", metastore, *name.split("."))

    def volume(self, name: str, metastore: str = "ops") -> Path:
        """The folder of the volume catalog.schema.volume, made when missing."""
        folder = self.home.joinpath("volumes", metastore, *name.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def request(self, source: str, metastore: str = "ops", **parameters: str) -> NotebookRun:
        number = self._last = next(self._numbers)
        notebook = self.home / "notebooks" / f"n{number}.py"
        notebook.parent.mkdir(parents=True, exist_ok=True)
        notebook.write_text(source)
        return NotebookRun(
            run_id=number,
            task_key="task",
            metastore_root=self.home / "metastores" / metastore,
            volumes_root=self.home / "volumes" / metastore,
            notebook=notebook,
            parameters=parameters,
            host="http://127.0.0.1:9",
            token="dapi-test",
            log=self.home / "runs" / str(number) / "output.log",
        )

    def begin(self, source: str, metastore: str = "ops", **parameters: str) -> Future[NotebookResult]:
        request = self.request(source, metastore, **parameters)
        return asyncio.run_coroutine_threadsafe(self.engine.run(request), self._loop)

    def run(self, source: str, metastore: str = "ops", **parameters: str) -> NotebookResult:
        return self.begin(source, metastore, **parameters).result(120)

    def value(self, source: str, metastore: str = "ops", **parameters: str) -> str:
        """What a notebook that must succeed gave to `dbutils.notebook.exit`."""
        result = self.run(source, metastore, **parameters)
        assert result.succeeded, result.error_trace or result.error
        assert result.exit_value is not None
        return result.exit_value

    @property
    def last_log(self) -> str:
        """What the notebook that was begun last has printed."""
        log = self.home / "runs" / str(self._last) / "output.log"
        return log.read_text() if log.exists() else ""

    def close(self) -> None:
        self.call(self.engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


def until(condition: Callable[[], bool], timeout: float = 30) -> None:
    """Look again and again until it holds. Fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {timeout} s"
        time.sleep(0.05)
