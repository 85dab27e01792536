"""A person clears, and marks, a task whose run is at work; and a mapped backfill, on real Airflow."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.end_to_end.conftest import Bridge, given, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

STATES = {"marked_followed": "running", "marked_deferred": "deferred"}
"""The DAGs of these tests, and the state of their task while it waits for its run."""


def task_of(bridge: Bridge, dag_id: str, dag_run: str) -> Any:
    return bridge.airflow.task(dag_id, dag_run, "consume")


def followed(bridge: Bridge, dag_id: str, dag_run: str, attempt: int) -> int | None:
    """The run that this try of the task waits for, if deferred in a triggerer; None while it does not."""
    task = task_of(bridge, dag_id, dag_run)
    if (task["try_number"], task["state"]) != (attempt, STATES[dag_id]):
        return None
    log = bridge.log(dag_id, dag_run, "consume", attempt)
    told = re.search(r"run (\d+): http", log)
    return int(told[1]) if told and (STATES[dag_id] == "running" or " starting" in log) else None


def runs_of(bridge: Bridge, dag_id: str) -> dict[int, str]:
    """Run id to result of all runs of the job, "" for one at work."""
    runs = bridge.runs("gold", f"consume-{dag_id.replace('_', '-')}")
    return {run["run_id"]: run["state"].get("result_state", "") for run in runs}


def test_A10_a_cleared_task_finds_its_run_again_and_a_marked_one_ends_with_it_cancelled(bridge: Bridge) -> None:
    gold = bridge.workspaces["gold"]
    for dag_id in STATES:
        gold.post("/local/holds", {"job_name": f"consume-{dag_id.replace('_', '-')}", "at": "after_start"})
    bridge.commit(1, "main.marked.flights")
    started = {dag_id: bridge.start(dag_id) for dag_id in STATES}

    def all_follow(attempt: int) -> dict[str, int]:
        found: dict[str, int] = {}

        def all_do() -> bool:
            for dag_id, dag_run in started.items():
                if run_id := followed(bridge, dag_id, dag_run, attempt):
                    found[dag_id] = run_id
            return len(found) == len(started)

        until(all_do, f"try {attempt} to follow", 240)
        return found

    first = all_follow(1)
    for dag_id, dag_run in started.items():
        body = {"dry_run": False, "dag_run_id": dag_run, "task_ids": ["consume"], "only_failed": False}
        bridge.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body | {"only_running": False})
    assert all_follow(2) == first
    assert [runs_of(bridge, dag_id) for dag_id in started] == [{first[dag_id]: ""} for dag_id in started]

    for dag_id, dag_run in started.items():
        path = f"/api/v2/dags/{dag_id}/dagRuns/{dag_run}/taskInstances/consume"
        bridge.call("PATCH", path, {"new_state": "failed"})
    cancelled = [{first[dag_id]: "CANCELED"} for dag_id in started]
    until(lambda: [runs_of(bridge, dag_id) for dag_id in started] == cancelled, "the runs to be cancelled", 120)
    assert [task_of(bridge, *one)["state"] for one in started.items()] == ["failed", "failed"]
    told = f"run {first['marked_followed']} cancelled: a person marked the task failed"
    log = ("marked_followed", started["marked_followed"], "consume", 2)
    until(lambda: told in bridge.log(*log), "the ledger to be told", 60)


def test_a_mapped_backfill_gives_each_range_to_one_run(bridge: Bridge) -> None:
    bridge.commit(1, "main.marked.flights")
    newest = bridge.commit(1, "main.marked.flights")
    dag_run = bridge.start("replayed")
    assert bridge.wait("replayed", dag_run) == "success"
    runs = bridge.runs("gold", "consume-replayed")
    assert sorted((given(run)["flights_start"], given(run)["flights_end"]) for run in runs) == [("0", "0"), ("1", "1")]
    assert {given(run)["bridge_epoch"] for run in runs} == {"backfill"}
    assert {given(run)["flights_as_of"] for run in runs} == {str(newest)}, (
        "old versions are touched, and the newest is read"
    )
