"""The process that runs the SQL statements of one metastore on the engine's JVM, seen from the engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.errors import EngineError
from databricks_bridge.local.engine.jvm import Controller, kill_group, process_environment
from databricks_bridge.local.private import UMASK, appending
from databricks_bridge.local.sql.model import Lineage, SqlColumn, SqlFailed, SqlRequest, SqlRows

READY_SECONDS = 60.0
_LONGEST_LINE = 256 * 1024 * 1024
_LOST = "The Spark of the local workspace has ended while the statement ran; it is started again for the next one."


class SqlSession:
    """One running process. Make it with `open`; `ended` is set when it or its JVM has gone."""

    def __init__(self, key: str, process: Process, controller: Controller) -> None:
        self._key, self._process, self._controller = key, process, controller
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.ended = asyncio.Event()
        self._reader = asyncio.create_task(self._read())
        self._watcher = asyncio.create_task(self._watch())

    @classmethod
    async def open(
        cls, controller: Controller, request: SqlRequest, settings: Mapping[str, str], log: Path
    ) -> SqlSession:
        """Start the process for the metastore of this request. Raises SqlFailed when it does not start."""
        key = uuid.uuid4().hex
        gateway = await controller.ask(op="open", key=key, settings=dict(settings))
        with appending(log) as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-u", "-m", "databricks_bridge.local.sql.process"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=output,
                env=process_environment(gateway),
                start_new_session=True,
                umask=UMASK,
                limit=_LONGEST_LINE,
            )
        session = cls(key, process, controller)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await session._ask("ready", {"key": key, "volumes_root": str(request.volumes_root.absolute())})
        except BaseException as error:
            await session.close()
            if isinstance(error, TimeoutError):
                raise SqlFailed(f"Spark gave no session for SQL in {READY_SECONDS:.0f} s; see {log}") from None
            raise
        return session

    @property
    def pid(self) -> int:
        return self._process.pid

    async def run(self, request: SqlRequest, settings: Mapping[str, str]) -> SqlRows:
        """Run one statement with these settings of the session, its catalogs among them. Raises SqlFailed."""
        order = {
            "statement": request.statement,
            "catalog": request.catalog,
            "schema": request.schema,
            "parameters": [asdict(parameter) for parameter in request.parameters],
            "row_limit": request.row_limit,
            "settings": dict(settings),
            "host": request.host,
            "token": request.token,
            "ca_file": None if request.ca_file is None else str(request.ca_file),
        }
        try:
            answer = await self._ask(request.statement_id, order)
        except asyncio.CancelledError:
            self._send({"id": request.statement_id, "cancel": True})
            raise
        if "error" in answer:
            raise SqlFailed(**answer["error"])
        columns = tuple(SqlColumn(*column) for column in answer["columns"])
        return SqlRows(columns, answer["rows"], answer["truncated"], Lineage(**answer["lineage"]))

    async def close(self) -> None:
        """End the process and what it started in the JVM."""
        self._watcher.cancel()
        kill_group(self._process.pid)
        await self._process.wait()
        await self._reader
        with contextlib.suppress(EngineError):
            await self._controller.ask(op="close", key=self._key)

    async def _ask(self, number: str, order: Mapping[str, Any]) -> dict[str, Any]:
        if self.ended.is_set():
            raise SqlFailed(_LOST, error_code="INTERNAL_ERROR")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._send({"id": number, **order})
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def _send(self, order: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            waiting = self._waiting.get(answer["id"])
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        self._lost()

    async def _watch(self) -> None:
        """A JVM that has ended leaves this process waiting for an answer that never comes."""
        await self._controller.ended.wait()
        kill_group(self._process.pid)

    def _lost(self) -> None:
        self.ended.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(SqlFailed(_LOST, error_code="INTERNAL_ERROR"))
