"""Notebooks' processes are forked from one that has imported everything: each a group of its own, and none outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.engine.errors import EngineError
from databricks_bridge.local.engine.nursery import Nursery


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a gateway that lets in and says nothing: who attaches to it waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def order(folder: Path, port: int) -> dict[str, Any]:
    notebook = folder / "notebook.py"
    notebook.write_text("print(1)\n")
    return {
        "environment": {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": "s"},
        "log": str(folder / "output.log"),
        "key": "k",
        "notebook": str(notebook),
        "volumes_root": str(folder),
        "parameters": {},
        "arguments": [],
        "task_values": {},
        "result": str(folder / "result.json"),
    }


def alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


async def test_processes_are_forked_told_and_ended_with_the_template(tmp_path: Path, silent: int) -> None:
    """One template for all of it: its imports take seconds."""
    nursery = await Nursery.launch(tmp_path / "engine.log")
    try:
        # One that ends by itself: nobody listens where it is to attach.
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = int(closed.getsockname()[1])
        failing = await nursery.fork(order(tmp_path, nobody))
        async with asyncio.timeout(60):
            await failing.wait()
        assert failing.returncode == 0
        assert "Error" in json.loads((tmp_path / "result.json").read_text())["error"]
        assert "Traceback" in (tmp_path / "output.log").read_text()

        # Two that wait: each leads a group of its own, and is killed alone.
        first, second = [await nursery.fork(order(tmp_path, silent)) for _ in range(2)]
        assert [os.getpgid(one.pid) for one in (first, second)] == [first.pid, second.pid]
        os.killpg(first.pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            await first.wait()
        assert (first.returncode, second.returncode) == (-signal.SIGKILL, None)

        # A fork that nobody waits for any more leaves no process.
        before = children_of(nursery.pid)
        forking = asyncio.create_task(nursery.fork(order(tmp_path, silent)))
        await asyncio.sleep(0)
        forking.cancel()
        assert isinstance((await asyncio.gather(forking, return_exceptions=True))[0], asyncio.CancelledError)
        third = await nursery.fork(order(tmp_path, silent))
        async with asyncio.timeout(20):
            while children_of(nursery.pid) != before | {third.pid}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        # With a template that is killed go all of them, and it is said.
        os.kill(nursery.pid, signal.SIGKILL)
        for one in (second, third):
            async with asyncio.timeout(20):
                await one.wait()
                while alive(one.pid):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        with pytest.raises(EngineError, match="The next run starts it again"):
            await nursery.fork(order(tmp_path, silent))
    finally:
        await nursery.close()


def children_of(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
