"""A jobs service in a thread, and a process with waits on it: what the benchmarks of waits have in common."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.children import child, line_of
from benchmarks.jobs_service import JobsService, serving


@contextmanager
def service_in_thread() -> Iterator[JobsService]:
    """A jobs service that answers while the caller blocks."""
    service, loop, ready, over = JobsService(), asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(service):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    if not ready.wait(30):
        raise RuntimeError("the service did not start within 30 s")
    try:
        yield service
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


@dataclass
class Waiters:
    """A process of waits: when each ended (by the wall clock), and how."""

    pid: int
    waits: int
    ended: dict[int, float] = field(default_factory=dict)
    status: dict[int, str] = field(default_factory=dict)

    def until(self, count: int, seconds: float) -> None:
        """Blocks until so many have ended, at most so long."""
        deadline = time.monotonic() + seconds
        while len(self.ended) < count and time.monotonic() < deadline:
            time.sleep(0.05)


@contextmanager
def waiting(kind: str, service: JobsService, waits: list[Any], poll_seconds: float) -> Iterator[Waiters]:
    """Waits in a process of their own, once all have begun."""
    host, _, port = service.host.rpartition(":")
    connection = {"conn_type": "databricks", "host": host.partition("//")[2], "schema": "http", "port": int(port)}
    with tempfile.TemporaryDirectory() as home:
        env = {
            "AIRFLOW_CONN_OPS": json.dumps(connection | {"password": "t0ken"}),
            "AIRFLOW_HOME": home,
            "NO_PROXY": "127.0.0.1",
            "BENCH_POLL_SECONDS": str(poll_seconds),
        }
        with child("benchmarks.waiting_process", kind, json.dumps(waits), env=env) as process:
            ready = json.loads(line_of(process))
            made = Waiters(ready["pid"], len(waits))

            def read() -> None:
                try:
                    while "wait" in (said := json.loads(line_of(process))):
                        made.status[said["wait"]], made.ended[said["wait"]] = said["status"], said["at"]
                except RuntimeError:
                    return  # it was ended with the block

            threading.Thread(target=read, daemon=True).start()
            yield made
