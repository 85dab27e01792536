"""A job that is deleted, or made anew, while its runs are waited for, on the local workspace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.feeds import run_feed
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger
from tests.local.local_kit import Api, Notebooks, client, write_notebook

LANDING = "/Volumes/main/landing/files/"


@dataclass
class Bronze:
    """A job `bronze` that files fire."""

    deployment: Deployment
    api: Api

    def create(self) -> int:
        path = write_notebook(self.deployment, "ops", "bronze")
        task = {"task_key": "main", "notebook_task": {"notebook_path": path}}
        job = self.api.post("create", name="bronze", tasks=[task], trigger={"file_arrival": {"url": LANDING}})
        return int(job["job_id"])

    def delete(self, job_id: int) -> None:
        self.api.post("delete", job_id=job_id)

    def land(self) -> None:
        folder = self.deployment.layout.volume_path("ops", LANDING)
        (folder / ".one.json").write_text("{}")
        (folder / ".one.json").rename(folder / "one.json")


@pytest.fixture
def bronze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bronze]:
    monkeypatch.setattr(run_feed.RunFeed.__init__, "__kwdefaults__", {"recheck_seconds": 1.0})
    engine = InstantEngine(Notebooks().run)
    with deployment_in_thread(tmp_path, ["ops"], engine=engine, time_scale=1 / 60) as deployment:
        connection = {"conn_type": "databricks", "host": deployment.host("ops"), "password": deployment.token("ops")}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        deployment.layout.volume_path("ops", LANDING).mkdir(parents=True)
        yield Bronze(deployment, Api(client(deployment, "ops")))


async def waiting(**job: Any) -> asyncio.Task[list[dict[str, Any]]]:
    """A wait for a fired run, once it has looked."""
    trigger = TriggeredRunTrigger(
        databricks_conn_id="ops",
        job_id=job.get("job_id"),
        job_name=job.get("job_name"),
        triggers=["FILE_ARRIVAL"],
        run_state=["SUCCESS"],
        since=datetime.now(UTC).isoformat(),
        poll_interval=1.0,
        deadline=(datetime.now(UTC) + timedelta(minutes=5)).isoformat(),
    )
    looked = asyncio.Event()
    genuine = trigger._poll

    async def told() -> dict[str, Any] | None:
        answer = await genuine()
        looked.set()
        return answer

    trigger._poll = told  # type: ignore[method-assign]

    async def events() -> list[dict[str, Any]]:
        try:
            return [event.payload async for event in trigger.run()]
        finally:
            await trigger.cleanup()

    task = asyncio.create_task(events())
    await asyncio.wait_for(looked.wait(), 20)
    return task


async def test_a_job_made_anew_under_its_name_is_waited_for_by_the_same_wait(bronze: Bronze) -> None:
    old = await asyncio.to_thread(bronze.create)
    wait = await waiting(job_name="bronze")
    await asyncio.to_thread(bronze.delete, old)
    new = await asyncio.to_thread(bronze.create)
    bronze.land()
    (event,) = await asyncio.wait_for(wait, 30)
    assert (event["status"], event["run"]["job_id"]) == ("ready", new)
    assert new != old


@pytest.mark.parametrize(("by", "error"), [("job_id", "NotFound"), ("job_name", "JobNotFound")])
async def test_a_job_that_is_deleted_ends_the_wait_and_is_named(bronze: Bronze, by: str, error: str) -> None:
    job_id = await asyncio.to_thread(bronze.create)
    wait = await waiting(**{by: job_id if by == "job_id" else "bronze"})
    await asyncio.to_thread(bronze.delete, job_id)
    (event,) = await asyncio.wait_for(wait, 30)
    assert (event["status"], event["error"]) == ("error", error)
    assert (str(job_id) if by == "job_id" else "bronze") in event["message"]
