"""A05: a workspace that cannot be reached for a while, as sockets show it, and waits that are told all the same."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.jobs_service import JobsService, serving
from databricks_bridge.local.tls import certificates
from databricks_bridge.triggers import polling
from databricks_bridge.triggers.polling import PollingTrigger
from databricks_bridge.workspace import transport
from databricks_bridge.workspace.client import Workspace
from tests.hooks.logins_kit import trust
from tests.triggers.test_survival import event_of, eventually, waits_for_job, waits_for_run


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Quick pauses and short tries; what the transport has met so far, by the name of aiohttp's error."""
    met: Counter[str] = Counter()
    genuine = transport.translate

    def noted(where: str, error: BaseException) -> Exception:
        met[type(error).__name__] += 1
        return genuine(where, error)

    monkeypatch.setattr(transport, "translate", noted)
    monkeypatch.setattr(transport, "_FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(transport, "_LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(polling, "SHORTEST_INTERVAL", 0.05)
    defaults = Workspace.__init__.__kwdefaults__ or {}
    monkeypatch.setattr(Workspace.__init__, "__kwdefaults__", defaults | {"try_seconds": 0.5})
    return met


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a server of this machine shows, and what this process trusts."""
    made = certificates(tmp_path, [], time.time())
    trust(made.ca_file, monkeypatch)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server_file)
    return context


@asynccontextmanager
async def silent(port: int) -> AsyncIterator[None]:
    """Takes connections and says nothing: neither TLS's part of a handshake nor an answer."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()


@asynccontextmanager
async def closed(port: int) -> AsyncIterator[None]:
    """Nobody listens."""
    yield


@pytest.mark.parametrize(
    ("outage", "tls", "error"),
    [
        (closed, False, "ClientConnectorError"),
        (silent, False, "TimeoutError"),
        (closed, True, "ClientConnectorError"),
        (silent, True, "TimeoutError"),
    ],
    ids=["refused", "no answer", "refused under TLS", "a handshake that stalls"],
)
@pytest.mark.parametrize("wait", [lambda: waits_for_run(1), waits_for_job], ids=["run", "job"])
async def test_A05_a_workspace_that_cannot_be_reached_ends_no_wait(
    outage: Callable[[int], Any],
    tls: bool,
    error: str,
    wait: Callable[[], PollingTrigger],
    failures: Counter[str],
    secure: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    host = f"{'https' if tls else 'http'}://127.0.0.1"
    connection = {"conn_type": "databricks", "host": host, "port": port, "password": "dapi-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
    service = JobsService()
    service.job(7, "bronze")
    context = secure if tls else None
    async with serving(service, port=port, ssl_context=context):
        service.start(1, 7)
        waiting = asyncio.create_task(event_of(wait()))
        await eventually(lambda: service.counts["jobs/runs/get"] or service.counts["jobs/runs/list"])
    async with outage(port):
        failures.clear()
        await eventually(lambda: failures[error] >= 2)
        assert not waiting.done()
    async with serving(service, port=port, ssl_context=context):
        service.end(1)
        event = await waiting
    assert event["status"] == "ready"
    assert (event.get("run_id") or event["run"]["run_id"]) == 1
    assert service.counts["jobs/run-now"] == 0
