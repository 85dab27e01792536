"""Faults that users of neighbouring projects reported, against our triggers over real HTTP."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import secrets
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from benchmarks.jobs_service import JobsService, serving
from databricks_bridge.core import acts
from databricks_bridge.feeds import run_feed
from databricks_bridge.feeds.driver import Driver
from databricks_bridge.feeds.hub import hub_of_this_loop
from databricks_bridge.feeds.look import Looker
from databricks_bridge.hooks.databricks import open_workspace
from databricks_bridge.ledgers.memory import MemoryLedger
from databricks_bridge.triggers import polling
from databricks_bridge.triggers.run import RunTrigger
from tests.core.builders import plan_of

LATER = (datetime.now(UTC) + timedelta(days=1)).isoformat()
SUBJECT = "a token of the identity provider"


@dataclass
class Guarded(JobsService):
    """The Jobs API behind a token service. A token is taken for `alive` seconds, whatever `expires_in` says."""

    alive: float = 3600.0
    expires_in: int = 3600
    issued: dict[str, float] = field(default_factory=dict)
    refused_polls: int = 0
    grants: list[str] = field(default_factory=list)

    def issue(self) -> str:
        token = secrets.token_hex(8)
        self.issued[f"Bearer {token}"] = monotonic() + self.alive
        return token

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/oidc/v1/token":
            self.grants.append(await request.text())
            return web.json_response(
                {"access_token": self.issue(), "token_type": "Bearer", "expires_in": self.expires_in}
            )
        if monotonic() > self.issued.get(request.headers.get("Authorization", ""), 0.0):
            self.refused_polls += 1
            return web.json_response({"error_code": "UNAUTHENTICATED", "message": "expired"}, status=401)
        return await super().handle(request)


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    monkeypatch.setattr(run_feed, "GATHER_SECONDS", 0.02)
    monkeypatch.setattr(polling, "SHORTEST_INTERVAL", 0.05)
    async with serving(Guarded()) as made:
        # the official hook gives the token service of a host no port, and always https
        monkeypatch.setattr(
            "airflow.providers.databricks.hooks.databricks_base.OIDC_TOKEN_SERVICE_URL", f"{made.host}/oidc/v1/token"
        )
        made.job(7, "bronze")
        yield made  # type: ignore[misc]
        assert hub_of_this_loop().idle


def connect(service: JobsService, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    port = int(service.host.rpartition(":")[2])
    connection = {"conn_type": "databricks", "host": "127.0.0.1", "schema": "http", "port": port} | fields
    monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))


PRINCIPAL = {"login": "client", "password": "secret", "extra": json.dumps({"service_principal_oauth": True})}


def waits(run_id: int, **changes: Any) -> RunTrigger:
    given: dict[str, Any] = {"databricks_conn_id": "ops", "run_id": run_id, "poll_interval": 0.1, "deadline": LATER}
    return RunTrigger(**(given | changes))


async def events_of(trigger: RunTrigger) -> list[dict[str, Any]]:
    """As the triggerer runs it."""
    try:
        async with asyncio.timeout(60):
            return [event.payload async for event in trigger.run()]
    finally:
        await trigger.cleanup()


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def followed(service: Guarded) -> None:
    """The wait of a task that follows its run in the worker."""
    async with Looker(open_workspace) as looker:
        workspace = await looker.workspace("ops")
        driver = Driver(plan_of(), MemoryLedger(), looker, workspace, poll_interval=timedelta(seconds=0.1))
        seen = await driver.do(acts.AwaitRun(1))
    assert isinstance(seen, acts.RunSeen)
    assert str(seen.outcome) == "TERMINATED/SUCCESS"


async def deferred(service: Guarded) -> None:
    """The wait of a deferred task, whose triggerer is restarted in the middle of it."""
    first = waits(1)
    running = asyncio.create_task(events_of(first))
    await eventually(lambda: len(service.grants) >= 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (event,) = await events_of(RunTrigger(**first.serialize()[1]))
    assert event["status"] == "ready"


@pytest.mark.parametrize(
    ("alive", "expires_in"), [(0.5, 3600), (30.0, 121)], ids=["refused before it expires", "refreshed ahead"]
)
@pytest.mark.parametrize("wait", [followed, deferred])
async def test_A06_a_wait_outlives_its_tokens(
    service: Guarded, monkeypatch: pytest.MonkeyPatch, wait: Callable[[Guarded], Any], alive: float, expires_in: int
) -> None:
    """The official hook fetches a token anew from two minutes before it expires: with 121 seconds, after one."""
    service.alive, service.expires_in = alive, expires_in
    connect(service, monkeypatch, **PRINCIPAL)
    service.start(1, 7)
    waiting = asyncio.create_task(wait(service))
    await eventually(lambda: len(service.grants) >= 4)
    service.end(1)
    await waiting
    assert bool(service.refused_polls) is (alive < 1)
    assert (list(service.runs), service.counts["jobs/run-now"]) == ([1], 0)


async def test_E07_a_hundred_triggers_read_their_connection_once_and_a_restart_loses_and_doubles_nothing(
    service: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    connect(service, monkeypatch, password=service.issue())
    read: list[int] = []
    genuine = DatabricksHook._a_cache_databricks_conn

    async def counted(hook: Any) -> None:
        read.append(threading.get_ident())
        await genuine(hook)

    monkeypatch.setattr(DatabricksHook, "_a_cache_databricks_conn", counted)
    for run_id in range(1, 101):
        service.start(run_id, 7)
    stored = [waits(run_id).serialize()[1] for run_id in range(1, 101)]

    def triggerer(lives: Callable[[list[asyncio.Task[Any]]], Any]) -> Any:
        """A triggerer's process: a thread with an event loop, and all triggers at one instant."""

        async def all_of_them() -> Any:
            return await lives([asyncio.create_task(events_of(RunTrigger(**one))) for one in stored])

        return asyncio.to_thread(asyncio.run, all_of_them())

    async def dies(tasks: list[asyncio.Task[Any]]) -> int:
        await eventually(lambda: service.counts["jobs/runs/list"] + service.counts["jobs/runs/get"] > 3)
        return sum(task.done() for task in tasks)

    assert await triggerer(dies) == 0, "and nothing was told"
    assert len(read) == 1
    for run_id in range(1, 101):
        service.end(run_id)
    began = monotonic()
    told = await triggerer(lambda tasks: asyncio.gather(*tasks))
    assert monotonic() - began < 20
    assert [[event["run_id"] for event in events] for events in told] == [[run_id] for run_id in range(1, 101)]
    assert len(read) == 2


def subject_token(**_: Any) -> str:
    """What a connection's `federated_token_provider` names: reads the token from a file, as a projected volume has it."""
    return Path(os.environ["SUBJECT_TOKEN_FILE"]).read_text()


class Credential:
    """Stands in for Azure's; the real one is in `tests/hooks/test_azure.py`."""

    service: Guarded

    def __init__(self, **given: Any) -> None:
        assert (given["client_id"], given["client_secret"], given["tenant_id"]) == ("client", "secret", "t")

    async def __aenter__(self) -> Credential:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def get_token(self, scope: str) -> Any:
        return SimpleNamespace(token=self.service.issue(), expires_on=2**31)


KINDS: dict[str, dict[str, Any]] = {
    "token": {"password": "issued"},
    "token in extra": {"extra": '{"token": "issued"}'},
    "host with scheme and slash": {"password": "issued", "host": "http://127.0.0.1/"},
    "host that is a URL": {"password": "issued", "host": "URL/", "schema": "", "port": None},
    "service principal": PRINCIPAL,
    "Entra ID": {"login": "client", "password": "secret", "extra": '{"azure_tenant_id": "t"}'},
    "OIDC file": {
        "extra": json.dumps(
            {"federated_token_provider": "tests.triggers.test_cases.subject_token", "client_id": "client"}
        )
    },
}


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", KINDS)
async def test_E08_every_way_to_authenticate_works_in_the_loop_and_leaves_nothing_open(
    service: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """On Airflow 3.3, the oldest that we support."""
    (tmp_path / "subject").write_text(SUBJECT)
    monkeypatch.setenv("SUBJECT_TOKEN_FILE", str(tmp_path / "subject"))
    monkeypatch.setattr(Credential, "service", service, raising=False)
    for name, content in {"azure": {}, "azure.identity": {}, "azure.identity.aio": AZURE}.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    text = json.dumps(KINDS[kind]).replace("issued", service.issue()).replace("URL", service.host)
    connect(service, monkeypatch, **json.loads(text))
    service.start(1, 7)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        waiting = asyncio.create_task(events_of(waits(1)))
        await eventually(lambda: service.counts["jobs/runs/list"] + service.counts["jobs/runs/get"])
        async with await open_workspace("ops") as workspace:
            open_files = []
            for _ in range(10):
                await asyncio.gather(*(workspace.get_run(1) for _ in range(20)))
                open_files.append(len(os.listdir("/proc/self/fd")))
        by_task = await asyncio.to_thread(asyncio.run, run_of_a_worker())
        service.end(1)
        (event,) = await waiting
        gc.collect()
    assert (event["status"], by_task["run_id"]) == ("ready", 1)
    # The first of them wait for one token and then come one after the other, over fewer connections.
    assert max(open_files) - open_files[1] <= 2, open_files
    assert [str(one.message) for one in warned if "nclosed" in str(one.message)] == []
    assert service.refused_polls == 0
    assert all(SUBJECT.replace(" ", "+") in grant for grant in service.grants) or kind != "OIDC file"


AZURE = {"ClientSecretCredential": Credential, "ManagedIdentityCredential": Credential}


async def run_of_a_worker() -> dict[str, Any]:
    async with await open_workspace("ops") as workspace:
        return await workspace.get_run(1)
