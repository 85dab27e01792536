"""A thousand waits, and a storm of refusals over two hundred, against the local workspace over real HTTP.

A proxy in front of it counts, and refuses as a workspace does that has had enough.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from databricks_bridge.feeds.hub import hub_of_this_loop
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.triggers.polling import PollingTrigger
from databricks_bridge.triggers.run import RunTrigger
from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger
from databricks_bridge.workspace.client import RUNS_PAGE
from faults.proxy import Proxy, running_proxy
from tests.local.local_kit import Api, Notebooks, client, write_notebook

VOLUME = "/Volumes/main/landing/{}/"
POLL_SECONDS = 2.0


@dataclass
class Door:
    """Counts requests. Above `per_second`, and while it is shut, it refuses."""

    per_second: int | None = None
    shut_until: float = 0.0
    let_in: deque[float] = field(default_factory=deque)
    refused: list[float] = field(default_factory=list)

    def __call__(self) -> str | None:
        now = time.monotonic()
        recent = [at for at in self.let_in if at > now - 1]
        if now < self.shut_until or (self.per_second is not None and len(recent) >= self.per_second):
            self.refused.append(now)
            return "429"
        self.let_in.append(now)
        return None

    def retry_after(self) -> int:
        return max(1, ceil(self.shut_until - time.monotonic()))

    def since(self, moment: float) -> int:
        return sum(at > moment for at in self.let_in)


@dataclass
class Service:
    """The workspace `ops`, whose notebooks run until they are let go, behind a door."""

    deployment: Deployment
    notebooks: Notebooks
    api: Api
    door: Door

    def start_runs(self, count: int) -> list[int]:
        """So many runs of one job, all at work until `end_runs`."""
        path = write_notebook(self.deployment, "ops", "long")
        self.notebooks.block("long")
        task = {"task_key": "main", "notebook_task": {"notebook_path": path}}
        job_id = self.api.post("create", name="long", tasks=[task], max_concurrent_runs=count)["job_id"]
        return [int(self.api.post("run-now", job_id=job_id)["run_id"]) for _ in range(count)]

    def end_runs(self) -> None:
        self.notebooks.unblock("long")

    def fired_job(self, name: str) -> int:
        """A job that a file in a volume of its name fires."""
        self.deployment.layout.volume_path("ops", VOLUME.format(name)).mkdir(parents=True)
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(self.deployment, "ops", "main")}}
        trigger = {"file_arrival": {"url": VOLUME.format(name)}}
        return int(self.api.post("create", name=name, tasks=[task], trigger=trigger)["job_id"])

    def land(self, name: str) -> None:
        folder = self.deployment.layout.volume_path("ops", VOLUME.format(name))
        (folder / ".one.json").write_text("{}")
        (folder / ".one.json").rename(folder / "one.json")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    notebooks = Notebooks()
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(notebooks.run), time_scale=1 / 60) as deployment:
        yield Service(deployment, notebooks, Api(client(deployment, "ops")), Door())


@asynccontextmanager
async def connected(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The connection `ops` leads through the door."""
    at = urlsplit(service.deployment.host("ops"))
    async with running_proxy(
        Proxy((str(at.hostname), int(at.port or 0)), service.door, service.door.retry_after)
    ) as up:
        connection = {"conn_type": "databricks", "host": up.host, "password": service.deployment.token("ops")}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        yield
        assert hub_of_this_loop().idle


def soon() -> dict[str, Any]:
    return {"poll_interval": POLL_SECONDS, "deadline": (datetime.now(UTC) + timedelta(minutes=10)).isoformat()}


def run_ends(run_id: int) -> RunTrigger:
    return RunTrigger(databricks_conn_id="ops", run_id=run_id, **soon())


def is_fired(job_id: int) -> TriggeredRunTrigger:
    return TriggeredRunTrigger(
        databricks_conn_id="ops",
        job_id=job_id,
        job_name=None,
        triggers=["FILE_ARRIVAL"],
        run_state=["SUCCESS"],
        since=datetime.now(UTC).isoformat(),
        **soon(),
    )


async def events_of(trigger: PollingTrigger) -> list[dict[str, Any]]:
    """All that the trigger tells, as the triggerer runs it."""
    try:
        return [event.payload async for event in trigger.run()]
    finally:
        await trigger.cleanup()


async def test_a_thousand_waits_cost_the_requests_of_the_open_runs_and_all_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half wait for an open run, half for the next run that a file fires."""
    names, polls = [f"fired-{number}" for number in range(5)], 3
    jobs = await asyncio.to_thread(lambda: [service.fired_job(name) for name in names])
    runs = await asyncio.to_thread(service.start_runs, 50)
    wanted = [runs[n // 2 % 50] if n % 2 else jobs[n // 2 % 5] for n in range(1000)]
    async with connected(service, monkeypatch):
        triggers = [run_ends(one) if one in runs else is_fired(one) for one in wanted]
        waiting = [asyncio.create_task(events_of(one)) for one in triggers]
        await asyncio.sleep(2 * POLL_SECONDS)
        settled = time.monotonic()
        await asyncio.sleep(polls * POLL_SECONDS)
        asked, passed = service.door.since(settled), time.monotonic() - settled
        assert not any(task.done() for task in waiting)
        most = 1 + ceil(len(runs) / RUNS_PAGE)
        assert polls - 1 <= asked <= most * (passed / POLL_SECONDS + 1), "official triggers ask 1,000 times a poll"
        service.end_runs()
        for name in names:
            service.land(name)
        async with asyncio.timeout(60):
            told = await asyncio.gather(*waiting)
    assert [len(events) for events in told] == [1] * 1000
    assert {events[0]["status"] for events in told} == {"ready"}
    found = [events[0].get("run_id") or events[0]["run"]["job_id"] for events in told]
    assert found == wanted
    assert service.door.refused == []


async def test_a_storm_of_refusals_loses_no_wait_and_all_go_on_when_it_is_over(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 2 * await asyncio.to_thread(service.start_runs, 100)
    service.door.per_second = 10
    async with connected(service, monkeypatch):
        ended: list[float] = []

        async def wait(run_id: int) -> list[dict[str, Any]]:
            events = await events_of(run_ends(run_id))
            ended.append(time.monotonic())
            return events

        waiting = [asyncio.create_task(wait(run_id)) for run_id in runs]
        await asyncio.sleep(1.5 * POLL_SECONDS)
        service.door.shut_until = over = time.monotonic() + 4 * POLL_SECONDS
        await asyncio.sleep(POLL_SECONDS)
        service.end_runs()
        async with asyncio.timeout(60):
            told = await asyncio.gather(*waiting)
    assert [[(event["status"], event["run_id"]) for event in events] for events in told] == [
        [("ready", run_id)] for run_id in runs
    ]
    assert len(service.door.refused) == 1, "the storm was met, and no request was sent before its end"
    assert min(ended) > over
    assert max(ended) - over < 2 * POLL_SECONDS + 1
