"""What the watcher's event holds, for a source of tables and one of runs: the same, from real looks over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from databricks_bridge.core.policy import Policy
from databricks_bridge.core.sources import DeltaTable, Source, TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.feeds import run_feed
from databricks_bridge.feeds.hub import hub_of_this_loop
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.triggers.watch import SubscriptionWatchTrigger
from tests.local.local_kit import Api, Notebooks, client, eventually, write_notebook

LANDING = "/Volumes/main/landing/files/"
RUNS = TriggeredRuns(job_name="bronze", databricks_conn_id="ops", triggers=frozenset({"FILE_ARRIVAL"}))
FLIGHTS = DeltaTable("main.silver.flights", databricks_conn_id="ops")


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setattr(run_feed, "GATHER_SECONDS", 0.02)
    engine = InstantEngine(Notebooks().run)
    with deployment_in_thread(tmp_path, ["ops"], engine=engine, time_scale=1 / 600) as up:
        connection = {"conn_type": "databricks", "host": up.host("ops"), "password": up.token("ops")}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        yield up


def fire(deployment: Deployment) -> int:
    """A job's run that a file fires, once it has ended."""
    api, folder = Api(client(deployment, "ops")), deployment.layout.volume_path("ops", LANDING)
    folder.mkdir(parents=True)
    task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "bronze")}}
    job_id = api.post("create", name="bronze", tasks=[task], trigger={"file_arrival": {"url": LANDING}})["job_id"]
    (folder / "one.json").write_text("{}")
    (run,) = eventually(lambda: api.get("runs/list", job_id=job_id).get("runs"))
    return int(api.ended(run["run_id"])["run_id"])


def write(deployment: Deployment) -> int:
    """A table, and its version."""
    from deltalake import write_deltalake

    write_deltalake(str(deployment.layout.table_path("ops", FLIGHTS.table)), pa.table({"n": [1]}))
    return 0


async def event_of(*sources: Source) -> dict[str, Any]:
    """The first event of a watcher of these sources, as it is stored, without a record."""
    spec = SubscriptionSpec("delays", sources, "earliest", Policy())
    stored = SubscriptionWatchTrigger(
        subscription=spec.to_json(), asset="databricks_bridge.delays", poll_interval=0.2
    ).serialize()[1]
    trigger = SubscriptionWatchTrigger(**json.loads(json.dumps(stored)))
    try:
        async with asyncio.timeout(30):
            return dict((await anext(trigger.run())).payload)
    finally:
        await trigger.cleanup()
        assert hub_of_this_loop().idle


async def test_the_event_of_runs_is_that_of_tables(deployment: Deployment) -> None:
    run_id = await asyncio.to_thread(fire, deployment)
    await asyncio.to_thread(write, deployment)
    of_runs, of_table, of_both = await event_of(RUNS), await event_of(FLIGHTS), await event_of(RUNS, FLIGHTS)
    common = {"schema": 1, "subscription": "delays", "revision": 0}
    assert of_runs == {**common, "updated": ["bronze"], "reason": f"bronze runs [{run_id}]"}
    assert of_table == {**common, "updated": ["flights"], "reason": "main.silver.flights (-1, 0]"}
    assert of_both["updated"] == ["bronze", "flights"]
    assert [type(value) for value in of_both.values()] == [type(value) for value in of_table.values()]
    assert list(of_runs) == list(of_table) == list(of_both)
    assert json.loads(json.dumps(of_runs)) == of_runs
