"""What the trigger scheduler relies on: state and run in one transaction, state that belongs to one trigger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.ports import JobsPort, RunFinished, Workspace
from databricks_bridge.local.runs.records import get_run
from databricks_bridge.local.runs.references import time_values
from databricks_bridge.local.runs.trigger_port import TriggerPort
from databricks_bridge.local.server.job_settings import completed
from tests.local.local_kit import Notebooks, bare_workspace

TABLE = {"table_update": {"table_names": ["main.bronze.flights"]}}
CREATED, CHANGED = 1_000, 2_000


@pytest.fixture
async def ops(tmp_path: Path, notebooks: Notebooks) -> AsyncIterator[Workspace]:
    workspace = bare_workspace(tmp_path, notebooks)
    yield workspace
    await workspace.runs.close()
    workspace.store.close()


@pytest.fixture
def port(ops: Workspace) -> JobsPort:
    return TriggerPort(ops.store, ops.runs)


def add_job(ops: Workspace, **settings: Any) -> int:
    base = {"version": "{{job.trigger.table_update.main.bronze.flights.version}}"}
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/main", "base_parameters": base}}
    return ops.store.add_job("ops", completed({"tasks": [task], **settings}), CREATED).job_id


def change(ops: Workspace, job_id: int, **settings: Any) -> None:
    store = ops.store
    job = store.job(job_id)
    assert job is not None
    store.change_job(job_id, completed({**job.settings, **settings}), CHANGED)


def revision(port: JobsPort, job_id: int) -> int:
    return next((job.trigger_revision for job in port.triggered_jobs() if job.job_id == job_id), 1)


async def test_only_jobs_that_something_starts_are_triggered_jobs(ops: Workspace, port: JobsPort) -> None:
    add_job(ops)
    paused = add_job(ops, trigger={**TABLE, "pause_status": "PAUSED"})
    assert [(job.job_id, job.metastore) for job in port.triggered_jobs()] == [(paused, "ops")]


async def test_fire_makes_the_run_and_keeps_the_state(ops: Workspace, port: JobsPort, notebooks: Notebooks) -> None:
    finished: asyncio.Queue[RunFinished] = asyncio.Queue()
    port.on_run_finished(finished.put_nowait)
    job_id = add_job(ops, trigger=TABLE)
    context = {
        "type": "table_update",
        "table_update.main.bronze.flights.version": "7",
        **time_values("table_update.main.bronze.flights.commit_timestamp", 0),
    }
    run_id = port.fire(job_id, revision(port, job_id), trigger="TABLE", context=context, state={"seen": 7})
    assert run_id is not None
    assert port.trigger_state(job_id) == {"seen": 7}
    assert port.active_runs(job_id) == [run_id]
    end = await asyncio.wait_for(finished.get(), 10)
    assert (end.run_id, end.trigger, end.result_state) == (run_id, "TABLE", "SUCCESS")
    assert notebooks.seen[0].parameters == {"version": "7"}
    assert port.active_runs(job_id) == []


async def test_a_fire_that_fails_half_way_keeps_nothing(ops: Workspace, port: JobsPort) -> None:
    job_id = add_job(ops, trigger=TABLE)
    port.save_trigger_state(job_id, revision(port, job_id), {"seen": 1})
    with pytest.raises(TypeError):
        port.fire(job_id, revision(port, job_id), trigger="TABLE", context={}, state={"seen": object()})
    assert port.trigger_state(job_id) == {"seen": 1}
    assert port.active_runs(job_id) == []


async def test_a_changed_trigger_has_no_state(ops: Workspace, port: JobsPort) -> None:
    job_id = add_job(ops, trigger=TABLE)
    port.save_trigger_state(job_id, revision(port, job_id), {"seen": 1})
    change(ops, job_id, name="renamed")
    assert port.trigger_state(job_id) == {"seen": 1}
    change(ops, job_id, trigger={"table_update": {"table_names": ["main.bronze.weather"]}})
    assert port.trigger_state(job_id) is None


async def test_a_paused_or_deleted_job_is_not_fired(ops: Workspace, port: JobsPort) -> None:
    job_id = add_job(ops, trigger={**TABLE, "pause_status": "PAUSED"})
    assert port.fire(job_id, revision(port, job_id), trigger="TABLE", context={}, state={"seen": 1}) is None
    assert port.trigger_state(job_id) is None
    ops.store.remove_job(job_id, at=1)
    assert port.fire(job_id, revision(port, job_id), trigger="TABLE", context={}, state={"seen": 1}) is None


async def test_a_fire_without_a_slot_is_a_skipped_run(ops: Workspace, port: JobsPort, notebooks: Notebooks) -> None:
    notebooks.block("main")
    job_id = add_job(ops, trigger=TABLE)
    first = port.fire(job_id, revision(port, job_id), trigger="TABLE", context={}, state={"seen": 1})
    second = port.fire(job_id, revision(port, job_id), trigger="TABLE", context={}, state={"seen": 2})
    assert second is not None
    skipped = get_run(ops.store, second)
    assert skipped is not None
    assert skipped.outcome == "NO_SLOT"
    assert port.active_runs(job_id) == [first]
    assert port.trigger_state(job_id) == {"seen": 2}


async def test_a_trigger_carries_when_it_was_set(ops: Workspace, port: JobsPort) -> None:
    job_id = add_job(ops, trigger=TABLE)
    assert [job.trigger_set_at for job in port.triggered_jobs()] == [CREATED]
    change(ops, job_id, name="renamed", trigger={**TABLE, "pause_status": "UNPAUSED"})
    assert [job.trigger_set_at for job in port.triggered_jobs()] == [CREATED]
    for pause in ("PAUSED", "UNPAUSED"):
        ops.store.change_job(job_id, completed({"trigger": {**TABLE, "pause_status": pause}}), CHANGED + 1)
    assert [(job.trigger_set_at, job.trigger_revision) for job in port.triggered_jobs()] == [(CHANGED + 1, 3)]


async def test_a_trigger_that_was_replaced_takes_nothing_from_the_look_at_the_one_before(
    ops: Workspace, port: JobsPort
) -> None:
    job_id = add_job(ops, trigger=TABLE)
    looked_at = revision(port, job_id)
    change(ops, job_id, trigger={"table_update": {"table_names": ["main.bronze.weather"]}})
    change(ops, job_id, trigger=TABLE)
    assert not port.save_trigger_state(job_id, looked_at, {"seen": 1})
    assert port.fire(job_id, looked_at, trigger="TABLE", context={}, state={"seen": 1}) is None
    assert port.trigger_state(job_id) is None
    assert port.active_runs(job_id) == []


async def test_ends_are_kept_and_numbered(ops: Workspace, port: JobsPort, notebooks: Notebooks) -> None:
    finished: asyncio.Queue[RunFinished] = asyncio.Queue()
    port.on_run_finished(finished.put_nowait)
    notebooks.block("main")
    job_id = add_job(ops, trigger=TABLE)
    first, skipped = (
        port.fire(job_id, revision(port, job_id), trigger="TABLE", context={}, state={}) for _ in range(2)
    )
    notebooks.unblock("main")
    told = [await asyncio.wait_for(finished.get(), 10) for _ in range(2)]
    ends = port.ended_runs({job_id}, after=0, since=0)
    assert [(end.run_id, end.termination_code, end.metastore) for _, end in ends] == [
        (skipped, "MAX_CONCURRENT_RUNS_EXCEEDED", "ops"),
        (first, "SUCCESS", "ops"),
    ]
    assert [end for _, end in ends] == told
    (first_number, _), (last_number, last) = ends
    assert port.ended_runs({job_id}, after=first_number, since=0) == [(last_number, last)]
    assert port.ended_runs({job_id}, after=0, since=last.end_time + 1) == []
    assert port.ended_runs({job_id + 1}, after=0, since=0) == []
