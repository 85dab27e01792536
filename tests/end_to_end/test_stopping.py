"""A person marks, or clears, a task whose run is at work; and a mapped backfill, on real Airflow."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx
import pytest

from demo.processes import wait_until
from tests.end_to_end.conftest import Bridge, given

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

STATE = {"followed": "running", "deferred": "deferred"}


def at_work(bridge: Bridge, way: str) -> tuple[str, int, int]:
    """A task that waits for its run, which is held at work: the DAG run, the hold and the Databricks run."""
    gold, job, dag_id = bridge.workspaces["gold"], f"consume-marked-{way}", f"marked_{way}"
    hold = gold.post("/local/holds", {"job_name": job, "at": "after_start"})["hold_id"]
    bridge.commit(1, "main.marked.flights")
    dag_run = bridge.start(dag_id)
    wait_until(lambda: follows(bridge, way, dag_run), "the run to be followed", 240, lambda: None)
    return dag_run, hold, int(bridge.airflow.xcoms(dag_id, dag_run, "consume")["run_id"])


def follows(bridge: Bridge, way: str, dag_run: str) -> bool:
    """Whether the task knows its run and waits for it; a loaded Airflow may not answer in time."""
    with suppress(httpx.TimeoutException):
        return "run_id" in bridge.airflow.xcoms(f"marked_{way}", dag_run, "consume") and (
            state(bridge, way, dag_run) == STATE[way]
        )
    return False


def state(bridge: Bridge, way: str, dag_run: str) -> Any:
    return bridge.airflow.task(f"marked_{way}", dag_run, "consume")["state"]


def mark(bridge: Bridge, way: str, dag_run: str, new_state: str) -> None:
    path = f"/api/v2/dags/marked_{way}/dagRuns/{dag_run}/taskInstances/consume"
    bridge.call("PATCH", path, {"new_state": new_state})


def result(bridge: Bridge, run_id: int) -> Any:
    run = bridge.workspaces["gold"].get("/api/2.2/jobs/runs/get", run_id=run_id)
    return run["state"].get("result_state")


@pytest.mark.parametrize("way", ["followed", "deferred"])
def test_A10_a_task_that_is_marked_failed_ends_with_its_run_cancelled(bridge: Bridge, way: str) -> None:
    dag_run, _, run_id = at_work(bridge, way)
    mark(bridge, way, dag_run, "failed")
    wait_until(lambda: result(bridge, run_id) == "CANCELED", f"run {run_id} to be cancelled", 120, lambda: None)
    assert state(bridge, way, dag_run) == "failed"
    if way == "followed":
        wait_until(lambda: recorded(bridge, dag_run, run_id), "the record", 60, lambda: None)


@pytest.mark.parametrize("way", ["followed", "deferred"])
def test_A10_a_task_that_is_cleared_finds_its_run_again(bridge: Bridge, way: str) -> None:
    before = len(bridge.runs("gold", f"consume-marked-{way}"))
    dag_run, hold, run_id = at_work(bridge, way)
    body = {
        "dry_run": False,
        "dag_run_id": dag_run,
        "task_ids": ["consume"],
        "only_failed": False,
        "only_running": False,
    }
    bridge.call("POST", f"/api/v2/dags/marked_{way}/clearTaskInstances", body)
    wait_until(
        lambda: bridge.airflow.task(f"marked_{way}", dag_run, "consume")["try_number"] == 2, "try 2", 240, lambda: None
    )
    bridge.workspaces["gold"].delete(f"/local/holds/{hold}")
    assert bridge.wait(f"marked_{way}", dag_run) == "success", bridge.log(f"marked_{way}", dag_run, "consume", 2)
    assert result(bridge, run_id) == "SUCCESS"
    assert bridge.airflow.xcoms(f"marked_{way}", dag_run, "consume")["run_id"] == run_id
    assert len(bridge.runs("gold", f"consume-marked-{way}")) == before + 1


def test_a_mapped_backfill_gives_each_range_to_one_run(bridge: Bridge) -> None:
    for _ in range(2):
        bridge.commit(1, "main.marked.flights")
    dag_run = bridge.start("replayed")
    assert bridge.wait("replayed", dag_run) == "success"
    runs = bridge.runs("gold", "consume-replayed")
    assert sorted((given(run)["flights_start"], given(run)["flights_end"]) for run in runs) == [("0", "0"), ("1", "1")]
    assert {given(run)["bridge_epoch"] for run in runs} == {"backfill"}


def recorded(bridge: Bridge, dag_run: str, run_id: int) -> bool:
    return f"run {run_id} cancelled: a person marked the task failed" in bridge.log(
        "marked_followed", dag_run, "consume"
    )
