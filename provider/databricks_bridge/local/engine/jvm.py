"""The engine's side of the controller: starts it, asks it, notices its end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.errors import EngineError
from databricks_bridge.local.engine.jars import find_java, spark_environment
from databricks_bridge.local.private import UMASK, appending

START_TIMEOUT = 120.0
END_TIMEOUT = 15.0
ANSWER_TIMEOUT = 60.0
"""Longer than what stops a notebook's streams may take. A JVM that has not answered by then never will."""
OUT_OF_MEMORY = 3
"""The JVM's exit code when its heap was full."""
LOG_TAIL = 2000
KILLED = "(signal 9, which the system sends when the machine's memory is full)"


class Controller:
    """One running controller and its JVM. Make it with `launch`."""

    def __init__(self, process: Process, heap: str, log: Path) -> None:
        self._process = process
        self._heap = heap
        self._log = log
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())
        self._jvm_exit_code: int | None = None
        self.jvm_pid: int | None = None
        self.ended = asyncio.Event()

    @classmethod
    async def launch(cls, root: Path, heap: str, jars: tuple[Path, ...]) -> Controller:
        """Start Spark, and return when it can run notebooks. `heap` is the JVM's, such as "2g".

        Raises NoJava, or EngineError with the end of its log.
        """
        java = await asyncio.to_thread(find_java, os.environ)
        await asyncio.to_thread(root.mkdir, parents=True, exist_ok=True)
        log = root / "engine.log"
        with appending(log) as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-u", "-m", "databricks_bridge.local.engine.controller", str(root)),
                heap,
                *map(str, jars),
                stdin=PIPE,
                stdout=PIPE,
                stderr=output,
                env=spark_environment(java),
                cwd=root,
                # Ctrl-C is for the deployment, which ends the engine in order.
                start_new_session=True,
                umask=UMASK,
            )
        controller = cls(process, heap, log)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                controller.jvm_pid = (await controller._ready)["jvm"]
        except BaseException as error:
            await controller.close()
            if isinstance(error, TimeoutError):
                raise EngineError(f"Spark did not start within {START_TIMEOUT:.0f} s; see {log}") from None
            raise
        return controller

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def how_it_ended(self) -> str:
        """Why there is no JVM any more, as far as its exit code tells; the beginning of a sentence."""
        if self._jvm_exit_code == OUT_OF_MEMORY:
            return f"the Spark JVM ran out of memory (its heap has {self._heap}) and ended"
        if self._jvm_exit_code == -signal.SIGKILL:
            return f"the Spark JVM was killed {KILLED}"
        return "the Spark JVM ended"

    async def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request and wait for its answer. Raises EngineError when it is refused or the controller has ended.

        A JVM that does not answer for a minute is killed.
        """
        if self.ended.is_set():
            raise self._gone()
        number = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                return await answer
        except TimeoutError:
            kill_group(self._process.pid)
            await self.ended.wait()
            raise EngineError(f"The Spark JVM did not answer for {ANSWER_TIMEOUT:.0f} s, and was killed") from None
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End the controller and the JVM: in order, and after 15 s by force."""
        # The JVM is in the controller's process group.
        await end_in_order(self._process, self._reader)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            if "jvm_exit_code" in answer:
                self._jvm_exit_code = answer["jvm_exit_code"]
                continue
            waiting = self._ready if answer.get("ready") else self._waiting.get(answer["id"])
            if waiting is None or waiting.done():
                continue
            if "error" in answer:
                waiting.set_exception(EngineError(f"The engine refused: {answer['error']}"))
            else:
                waiting.set_result(answer)
        self.ended.set()
        for waiting in (self._ready, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(self._gone())
        # Nobody may be waiting for readiness any more; an exception that is never fetched would be logged.
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()

    def _gone(self) -> EngineError:
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - LOG_TAIL))
            tail = log.read().decode(errors="replace").strip()
        how = self.how_it_ended
        return EngineError(f"{how[0].upper()}{how[1:]}; the end of {self._log}:\n{tail}")


async def end_in_order(process: Process, reader: asyncio.Task[None]) -> None:
    """Close the child's input, which tells it to end; after `END_TIMEOUT`, and for what it leaves behind, kill its group.

    `reader` reads its output, and is waited for.
    """
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(END_TIMEOUT):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        kill_group(process.pid)
        await process.wait()
        await reader


def kill_group(leader: int) -> None:
    """Kill the process group that `leader` leads; nothing when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def process_environment(gateway: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a Python process that attaches to the JVM through this gateway."""
    return python_environment(os.environ) | {
        "PYSPARK_GATEWAY_PORT": str(gateway["port"]),
        "PYSPARK_GATEWAY_SECRET": str(gateway["secret"]),
    }


def python_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Python process that uses PySpark."""
    return {
        **inherited,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_PIN_THREAD": "true",
        "SPARK_LOCAL_IP": "127.0.0.1",
        # pyspark says at import that it does not know pandas 3 yet; every log would begin with it.
        "PYTHONWARNINGS": "ignore::FutureWarning:pyspark.testing.utils",
    }
