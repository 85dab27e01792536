"""Faults that users of neighbouring projects reported: sensors under Airflow's own task runner, with real HTTP and tables."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.jobs_service import Answer, JobsService, answer, dropped, serving
from databricks_bridge import DatabricksTriggeredRunSensor, DeltaVersionSensor
from databricks_bridge.core.errors import NotFound, NotPermitted, Unavailable
from databricks_bridge.feeds import run_feed
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.sensors import waiting
from databricks_bridge.triggers import polling
from tests.local.local_kit import Notebooks
from tests.sensors.worker import Worker, in_a_dag

MODES: dict[str, dict[str, Any]] = {
    "poke": {"mode": "poke"},
    "reschedule": {"mode": "reschedule"},
    "deferrable": {"deferrable": True},
}
DOWN = answer({"error_code": "TEMPORARILY_UNAVAILABLE", "message": "later"}, 503, Retry_After="0")
FORBIDDEN = answer({"error_code": "PERMISSION_DENIED", "message": "no"}, 403)
TIMEOUT = 1.0
SLACK = 10.0
"""Seconds: for a busy machine, and far from those of a wait that goes on."""


class Served:
    """A Jobs API on a thread of its own, for tasks run event loops of theirs."""

    def __init__(self) -> None:
        self.service = JobsService()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._serving = serving(self.service)
        self._do(self._serving.__aenter__())

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return done.result(20)

    def troubled(self, *trouble: Answer) -> None:
        self.service.trouble = list(trouble)

    def close(self) -> None:
        self._do(self._serving.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        self.loop.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses and budgets of a wait that is over in a second."""
    monkeypatch.setattr(run_feed, "GATHER_SECONDS", 0.02)
    monkeypatch.setattr(polling, "SHORTEST_INTERVAL", 0.05)
    monkeypatch.setattr(waiting, "SHORTEST_CALL_SECONDS", 0.2)
    for module in ("transport", "line"):
        monkeypatch.setattr(f"databricks_bridge.workspace.{module}._FIRST_PAUSE_SECONDS", 0.01)
        monkeypatch.setattr(f"databricks_bridge.workspace.{module}._LONGEST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("databricks_bridge.workspace.line.JITTER_SECONDS", 0.01)


@pytest.fixture
def served(quick: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    made = Served()
    url, _, port = made.service.host.rpartition(":")
    connection = {"conn_type": "databricks", "host": url, "port": int(port), "password": "dapi-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
    made.service.job(7, "bronze")
    yield made
    made.close()


def sensor(**arguments: Any) -> DatabricksTriggeredRunSensor:
    given: dict[str, Any] = {"task_id": "wait", "databricks_conn_id": "ops", "job_name": "bronze"}
    return DatabricksTriggeredRunSensor(**(given | {"poke_interval": 0.1, "timeout": TIMEOUT} | arguments))


def taken(worker: Worker, task: Any) -> float:
    """Seconds until the task was done with."""
    began = time.monotonic()
    worker.take(in_a_dag(task))
    return time.monotonic() - began


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_E09_a_time_out_is_no_failure_to_retry_in_any_mode(
    served: Served, monkeypatch: pytest.MonkeyPatch, mode: str, soft_fail: bool
) -> None:
    """A transient error uses no retry either: the wait outlives it, and ends when it would have."""
    worker = Worker(monkeypatch)
    threading.Timer(TIMEOUT / 2, lambda: served.troubled(dropped, DOWN)).start()
    seconds = taken(worker, sensor(**MODES[mode], soft_fail=soft_fail))
    assert (worker.states, worker.callbacks) == ((["skipped"], []) if soft_fail else (["failed"], ["failure"]))
    assert len(served.service.trouble) < 2
    assert TIMEOUT <= seconds < TIMEOUT + SLACK


@pytest.mark.parametrize("mode", MODES)
def test_E09_an_error_that_outlasts_a_call_is_retried_or_outlived(
    served: Served, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Where the modes differ it is Airflow's doing: in a worker a call that gave up ends the try, and a poking sensor's next
    try waits for its whole `timeout`. A deferred wait loses nothing; the end is the same."""
    monkeypatch.setattr(waiting, "LONGEST_CALL_SECONDS", 0.2)
    worker = Worker(monkeypatch)
    threading.Timer(TIMEOUT / 2, lambda: served.troubled(*[DOWN] * 500)).start()
    threading.Timer(TIMEOUT, served.troubled).start()
    taken(worker, sensor(**MODES[mode], timeout=2 * TIMEOUT))
    if mode == "deferrable":
        assert worker.states == ["failed"]
    else:
        assert {type(error) for error in worker.errors[:-1]} == {Unavailable}
        assert (worker.states[0], worker.states[-1]) == ("up_for_retry", "failed")
    assert worker.callbacks == ["retry"] * (len(worker.states) - 1) + ["failure"]


@pytest.mark.parametrize("mode", ["poke", "deferrable"])
def test_E09_an_execution_time_out_is_retried_in_either_mode(
    served: Served, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """With `mode="reschedule"` Airflow counts each poke for itself, so there it ends no wait."""
    worker = Worker(monkeypatch, retries=1)
    limit = timedelta(seconds=TIMEOUT)
    seconds = taken(worker, sensor(**MODES[mode], timeout=600, execution_timeout=limit))
    assert (worker.states, worker.callbacks) == (["up_for_retry", "failed"], ["retry", "failure"])
    assert {type(error).__name__ for error in worker.errors} == {"AirflowTaskTimeout"}
    assert 2 * TIMEOUT <= seconds < 2 * TIMEOUT + SLACK


def from_the_trigger_on(served: Served, *trouble: Answer) -> None:
    """The worker's look needs two answers, for the job and for its runs; what comes then is the trigger's."""

    async def good(request: Any) -> Any:
        return served.service._answer(request.path.split("/", 3)[-1], dict(request.query))

    served.troubled(good, good, *trouble)


def test_E14_an_error_in_the_trigger_is_raised_by_the_worker_who_retries_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First one that waiting cannot mend, then one that it can."""

    async def ending(request: Any) -> Any:
        served.service.end(1)
        return await DOWN(request)

    worker = Worker(monkeypatch, on_retry=lambda: from_the_trigger_on(served, dropped, DOWN, ending))
    served.service.start(1, 7)
    from_the_trigger_on(served, *[FORBIDDEN] * 500)
    worker.take(in_a_dag(sensor(deferrable=True, timeout=20, since="2020-01-01T00:00:00+00:00")))
    assert (worker.states, worker.callbacks) == (["up_for_retry", "success"], ["retry"])
    assert [type(error) for error in worker.errors] == [NotPermitted]
    assert [event["status"] for event in worker.events] == ["error", "ready"]


def test_E14_an_error_that_stays_uses_all_retries(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """No exception of ours says "do not retry": `retries` and the callbacks mean what the author expects of them (rule 3)."""
    worker = Worker(monkeypatch, on_retry=lambda: from_the_trigger_on(served, *[FORBIDDEN] * 500))
    from_the_trigger_on(served, *[FORBIDDEN] * 500)
    worker.take(in_a_dag(sensor(deferrable=True, timeout=20)))
    assert worker.states == ["up_for_retry", "up_for_retry", "failed"]
    assert worker.callbacks == ["retry", "retry", "failure"]
    assert [type(error) for error in worker.errors] == [NotPermitted] * 3
    assert [event["status"] for event in worker.events] == ["error"] * 3


@pytest.fixture
def deployment(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(Notebooks().run)) as up:
        connection = {"conn_type": "databricks", "host": up.host("ops"), "password": up.token("ops")}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        yield up


def write(deployment: Deployment, table: str) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(deployment.layout.table_path("ops", table)), pa.table({"n": [1]}), mode="append")


def create(deployment: Deployment, table: str) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable

    path = deployment.layout.table_path("ops", table)
    path.parent.mkdir(parents=True, exist_ok=True)
    DeltaTable.create(str(path), schema=pa.schema([("n", pa.int64())]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [False, True], ids=["no rows", "the version of the watermark"])
def test_E10_nothing_yet_is_waited_for(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, mode: str, rows: bool
) -> None:
    table = "main.silver.flights"
    if rows:
        write(deployment, table)
    else:
        create(deployment, table)
    worker = Worker(monkeypatch)
    arguments = {"newer_than": 0 if rows else None, "poke_interval": 0.2, "timeout": 20} | MODES[mode]
    task = DeltaVersionSensor(task_id="wait", table=table, databricks_conn_id="ops", **arguments)
    threading.Timer(1, lambda: write(deployment, table)).start()
    worker.take(in_a_dag(task))
    assert (worker.states, worker.errors) == (["success"], [])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["main.silver.nowhere", "main.nowhere.flights", "nowhere.silver.flights"])
def test_E10_a_name_that_does_not_exist_is_an_error_that_says_so(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, mode: str, name: str
) -> None:
    """Table, schema and catalog alike, not the catalog alone: a name that is mistyped anywhere would be waited for in
    silence, for seven days by default. Who wants to wait for a table to be made gives the task retries."""
    write(deployment, "main.silver.flights")
    worker = Worker(monkeypatch, retries=0)
    task = DeltaVersionSensor(task_id="wait", table=name, databricks_conn_id="ops", timeout=20, **MODES[mode])
    worker.take(in_a_dag(task))
    assert worker.states == ["failed"]
    (error,) = worker.errors
    assert isinstance(error, NotFound)
    assert name in str(error)
