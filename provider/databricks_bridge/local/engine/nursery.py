"""The engine's side of the template: notebooks' processes are forked there, and their ends are told from there."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.errors import EngineError
from databricks_bridge.local.engine.jvm import end_in_order, kill_group, python_environment
from databricks_bridge.local.private import UMASK, appending


class NotebookProcess:
    """A forked process. `pid` is known from the start, `returncode` when it has ended, as subprocess has it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ended = asyncio.Event()

    async def wait(self) -> None:
        await self.ended.wait()


class Nursery:
    """One running template. Make it with `launch`; `ended` is set when it has gone, and with it all that it has forked."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process, self._log = process, log
        self._ids = itertools.count(1)
        self._forking: dict[int, asyncio.Future[NotebookProcess]] = {}
        self._alive: dict[int, NotebookProcess] = {}
        self.ended = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def launch(cls, log: Path) -> Nursery:
        """Start the template. It need not be ready: what is asked of it before waits."""
        with appending(log) as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-u", "-m", "databricks_bridge.local.engine.template"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=output,
                env=python_environment(os.environ),
                start_new_session=True,
                umask=UMASK,
            )
        return cls(process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, order: Mapping[str, Any]) -> NotebookProcess:
        """A process for this order. Cancelled, it leaves none. Raises EngineError when the template has ended."""
        if self.ended.is_set():
            raise self._gone()
        number = next(self._ids)
        forking = self._forking[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, **order}).encode() + b"\n")
        try:
            return await asyncio.shield(forking)
        except asyncio.CancelledError:
            forking.add_done_callback(_unwanted)
            raise

    async def close(self) -> None:
        """End the template and whatever it has forked."""
        await end_in_order(self._process, self._reader)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            number = answer["id"]
            if "pid" in answer:
                self._alive[number] = NotebookProcess(answer["pid"])
                self._forking.pop(number).set_result(self._alive[number])
            else:
                self._over(self._alive.pop(number), answer["exit_code"])
        self.ended.set()
        for forking in self._forking.values():
            forking.set_exception(self._gone())
        for process in self._alive.values():
            # It dies with the template, which cannot tell any more.
            kill_group(process.pid)
            self._over(process, None)

    @staticmethod
    def _over(process: NotebookProcess, exit_code: int | None) -> None:
        process.returncode = exit_code
        process.ended.set()

    def _gone(self) -> EngineError:
        return EngineError(
            f"The process that starts notebooks has ended; see {self._log}. The next run starts it again."
        )


def _unwanted(forking: asyncio.Future[NotebookProcess]) -> None:
    if not forking.cancelled() and forking.exception() is None:
        kill_group(forking.result().pid)
