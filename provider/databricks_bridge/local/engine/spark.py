"""The engine with real Spark: one warm JVM for all runs, one Python process for each notebook, forked from a template."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import uuid
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from databricks_bridge.local.engine.errors import EngineError
from databricks_bridge.local.engine.jvm import KILLED, Controller, kill_group, process_environment
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.engine.nursery import NotebookProcess, Nursery
from databricks_bridge.local.engine.workspace_api import CA_FILE
from databricks_bridge.local.sql.model import SqlRequest, SqlRows
from databricks_bridge.local.sql.sessions import SqlSession
from databricks_bridge.local.sql.system_schema import SYSTEM_CATALOG

Answer = TypeVar("Answer")

CATALOG_CLASS = "databricks_bridge.local.DirectoryCatalog"
DEFAULT_CATALOG = "main"
LINEAGE_FILE = "spark.databricks_bridge.lineage"
# Hadoop's name for what every listing of files is filtered by.
FILE_FILTER, FILE_FILTER_CLASS = "mapreduce.input.pathFilter.class", "databricks_bridge.local.VolumeFiles"
VOLUMES_ROOT = "spark.databricks_bridge.volumes_root"
HEAP = "2g"
JVM_END_TIMEOUT = 5.0


class SparkEngine:
    """Runs notebooks on one JVM below `root`, which holds its log and scratch files. `jars` come from `jars.prepare`.

    A JVM that dies, for want of memory too, fails the runs that are under way (`EngineLost`) and is started again for the
    next one. `heap` is the size of its heap as Java writes it, at least 500m.
    """

    def __init__(self, root: Path, jars: tuple[Path, ...], heap: str = HEAP) -> None:
        self._root = root.absolute()
        self._heap = heap
        self._jars = jars
        self._controller: Controller | None = None
        self._nursery: Nursery | None = None
        self._starting = asyncio.Lock()
        self._runs: dict[str, NotebookProcess] = {}
        self._sql: dict[Path, SqlSession] = {}
        self._opening = asyncio.Lock()
        self._closed = False

    async def start(self) -> None:
        """Start the JVM. Raises NoJava or EngineError."""
        self._closed = False
        await self._running()

    async def run(self, request: NotebookRun) -> NotebookResult:
        """Run one notebook. Cancelling it kills its process, stops its streams and cancels its jobs."""
        controller = await self._running()
        key = uuid.uuid4().hex
        result_file = self._root / "results" / f"{key}.json"
        result_file.parent.mkdir(parents=True, exist_ok=True)
        settings = session_settings(request.metastore_root)
        settings |= _file_settings(request.volumes_root)
        if request.lineage is not None:
            settings[LINEAGE_FILE] = str(request.lineage.absolute())
        gateway = await controller.ask(op="open", key=key, settings=settings)
        try:
            result = await self._run_process(request, key, gateway, result_file, controller)
        finally:
            await _to_the_end(self._clean_up(key, controller))
            result_file.unlink(missing_ok=True)
        if not result.succeeded and controller.ended.is_set() and not self._closed:
            # The notebook may have been told that nobody answers it any more, before we were.
            return replace(result, error=_lost(controller))
        return result

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        """Run one statement, in a process of its own for each metastore that stays. Raises SqlFailed."""
        async with self._opening:
            controller = await self._running()
            settings = session_settings(request.metastore_root) | _file_settings(request.volumes_root)
            session = self._sql.get(request.metastore_root)
            if session is None or session.ended.is_set():
                if session is not None:
                    await session.close()
                session = self._sql[request.metastore_root] = await SqlSession.open(
                    controller, request, settings, self._root / "sql.log"
                )
        return await session.run(request, settings)

    async def active_streams(self) -> int:
        """How many streams of notebooks run now."""
        controller = await self._running()
        return int((await controller.ask(op="streams"))["streams"])

    @property
    def pids(self) -> tuple[int, ...]:
        """The controller, the JVM, the notebooks that run now, the processes for SQL, and the template of notebooks."""
        alive = self._controller is not None and not self._controller.ended.is_set()
        owners = (self._controller.pid, self._controller.jvm_pid) if self._controller and alive else ()
        processes = [*(run.pid for run in self._runs.values()), *(session.pid for session in self._sql.values())]
        template = () if self._nursery is None or self._nursery.ended.is_set() else (self._nursery.pid,)
        return (*(pid for pid in owners if pid is not None), *processes, *template)

    async def close(self) -> None:
        """Kill the notebooks, end the JVM. `run` is refused until `start` is called again."""
        self._closed = True
        for process in self._runs.values():
            kill_group(process.pid)
        for session in self._sql.values():
            await session.close()
        self._sql.clear()
        async with self._starting:
            if self._nursery is not None:
                await self._nursery.close()
                self._nursery = None
            if self._controller is not None:
                await self._controller.close()
                self._controller = None

    async def _running(self) -> Controller:
        async with self._starting:
            # First, so that its imports are done when the JVM is up.
            await self._with_nursery()
            if self._controller is not None and self._controller.ended.is_set():
                await self._controller.close()
                self._controller = None
            if self._controller is None:
                self._controller = await Controller.launch(self._root, self._heap, self._jars)
            return self._controller

    async def _with_nursery(self) -> Nursery:
        if self._closed:
            raise EngineError("The engine is closed; call start() first.")
        if self._nursery is not None and self._nursery.ended.is_set():
            await self._nursery.close()
            self._nursery = None
        if self._nursery is None:
            self._root.mkdir(parents=True, exist_ok=True)
            self._nursery = await Nursery.launch(self._root / "engine.log")
        return self._nursery

    async def _run_process(
        self, request: NotebookRun, key: str, gateway: dict[str, Any], result_file: Path, controller: Controller
    ) -> NotebookResult:
        request.log.parent.mkdir(parents=True, exist_ok=True)
        order = {
            "environment": _environment(request, gateway),
            "log": str(request.log.absolute()),
            "key": key,
            "notebook": str(request.notebook.absolute()),
            "volumes_root": str(request.volumes_root.absolute()),
            "parameters": request.parameters,
            "arguments": list(request.arguments),
            "task_values": request.task_values,
            "context": dict(request.context),
            "serverless": request.serverless,
            "result": str(result_file),
        }
        async with self._starting:
            nursery = await self._with_nursery()
        process = self._runs[key] = await nursery.fork(order)
        ended = asyncio.create_task(process.wait())
        lost = asyncio.create_task(controller.ended.wait())
        try:
            await asyncio.wait((ended, lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
            # Also what the notebook has started: it is in the notebook's process group.
            kill_group(process.pid)
            await _to_the_end(process.wait())
            self._runs.pop(key, None)
        return self._result(result_file, process.returncode, controller)

    def _result(self, file: Path, exit_code: int | None, controller: Controller) -> NotebookResult:
        if file.is_file():
            return NotebookResult(**json.loads(file.read_text(encoding="utf-8")))
        if self._closed:
            error = "EngineClosed: the local workspace was stopped while the notebook ran"
        elif controller.ended.is_set():
            error = _lost(controller)
        elif exit_code == -signal.SIGKILL:
            error = f"NotebookProcessDied: the notebook's process was killed {KILLED} and left no result"
        else:
            error = f"NotebookProcessDied: the notebook's process ended (exit code {exit_code}) without a result"
        return NotebookResult(succeeded=False, exit_value=None, error=error, error_trace=None)

    async def _clean_up(self, key: str, controller: Controller) -> None:
        try:
            answer = await controller.ask(op="close", key=key)
        except EngineError:
            # With the JVM, everything of the run has ended; and its end is near when the engine is closed.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if self._closed else JVM_END_TIMEOUT):
                    await controller.ended.wait()
            if not controller.ended.is_set() and not self._closed:
                raise
            return
        if not answer["quiet"]:
            raise EngineError("A stream or query of the notebook would not stop; restart the local workspace.")


def session_settings(metastore_root: Path) -> dict[str, str]:
    """The settings of a session in one metastore: a catalog for each of its folders.

    `main` is made when missing. The system tables are read-only: as of the statement of a warehouse, or the start of a run.
    """
    (metastore_root / DEFAULT_CATALOG / "default").mkdir(parents=True, exist_ok=True)
    settings = {"spark.sql.defaultCatalog": DEFAULT_CATALOG}
    for folder in sorted(metastore_root.iterdir()):
        if folder.is_dir() and not folder.name.startswith("."):
            settings[f"spark.sql.catalog.{folder.name}"] = CATALOG_CLASS
            settings[f"spark.sql.catalog.{folder.name}.root"] = str(folder.absolute())
            if folder.name == SYSTEM_CATALOG:
                settings[f"spark.sql.catalog.{folder.name}.read_only"] = "true"
    return settings


def _file_settings(volumes_root: Path) -> dict[str, str]:
    """What a link takes out of its volume is not there for a session either."""
    return {FILE_FILTER: FILE_FILTER_CLASS, VOLUMES_ROOT: str(volumes_root.absolute())}


def _environment(request: NotebookRun, gateway: dict[str, Any]) -> dict[str, str]:
    return process_environment(gateway) | {
        # What the SDK needs to reach the workspace from inside its own notebooks.
        "DATABRICKS_HOST": request.host,
        "DATABRICKS_TOKEN": request.token,
        **({} if request.ca_file is None else {CA_FILE: str(request.ca_file.absolute())}),
        "DATABRICKS_BRIDGE_RUN_ID": str(request.run_id),
        "DATABRICKS_BRIDGE_TASK_KEY": request.task_key,
    }


def _lost(controller: Controller) -> str:
    return f"EngineLost: {controller.how_it_ended} while the notebook ran; it is started again for the next run"


async def _to_the_end(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Finish `work` although this task is cancelled, then let the cancellation go on."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:  # noqa: BLE001 - raised again below, by task.result()
            break
    if cancelled is not None and task.exception() is None:
        raise cancelled
    return task.result()
