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
    return ops.store.add_job("ops", completed({"tasks": [task], **settings}), 0).job_id


def change(ops: Workspace, job_id: int, **settings: Any) -> None:
    store = ops.store
    job = store.job(job_id)
    assert job is not None
    store.change_job(job_id, completed({**job.settings, **settings}))


async def test_only_jobs_that_something_starts_are_triggered_jobs(ops: Workspace, port: JobsPort) -> None:
    add_job(ops)
    paused = add_job(ops, trigger={**TABLE, "pause_status": "PAUSED"})
    assert [(job.job_id, job.paused, job.metastore) for job in port.triggered_jobs()] == [(paused, True, "ops")]


async def test_fire_makes_the_run_and_keeps_the_state(ops: Workspace, port: JobsPort, notebooks: Notebooks) -> None:
    finished: asyncio.Queue[RunFinished] = asyncio.Queue()
    port.on_run_finished(finished.put_nowait)
    job_id = add_job(ops, trigger=TABLE)
    context = {
        "type": "table_update",
        "table_update.main.bronze.flights.version": "7",
        **time_values("table_update.main.bronze.flights.commit_timestamp", 0),
    }
    run_id = port.fire(job_id, trigger="TABLE", context=context, state={"seen": 7})
    assert run_id is not None
    assert port.trigger_state(job_id) == {"seen": 7}
    assert port.active_runs(job_id) == [run_id]
    end = await asyncio.wait_for(finished.get(), 10)
    assert (end.run_id, end.trigger, end.result_state) == (run_id, "TABLE", "SUCCESS")
    assert notebooks.seen[0].parameters == {"version": "7"}
    assert port.active_runs(job_id) == []


async def test_a_fire_that_fails_half_way_keeps_nothing(ops: Workspace, port: JobsPort) -> None:
    job_id = add_job(ops, trigger=TABLE)
    port.save_trigger_state(job_id, {"seen": 1})
    with pytest.raises(TypeError):
        port.fire(job_id, trigger="TABLE", context={}, state={"seen": object()})
    assert port.trigger_state(job_id) == {"seen": 1}
    assert port.active_runs(job_id) == []


async def test_a_changed_trigger_has_no_state(ops: Workspace, port: JobsPort) -> None:
    job_id = add_job(ops, trigger=TABLE)
    port.save_trigger_state(job_id, {"seen": 1})
    change(ops, job_id, name="renamed")
    assert port.trigger_state(job_id) == {"seen": 1}
    change(ops, job_id, trigger={"table_update": {"table_names": ["main.bronze.weather"]}})
    assert port.trigger_state(job_id) is None


async def test_a_paused_or_deleted_job_is_not_fired(ops: Workspace, port: JobsPort) -> None:
    job_id = add_job(ops, trigger={**TABLE, "pause_status": "PAUSED"})
    assert port.fire(job_id, trigger="TABLE", context={}, state={"seen": 1}) is None
    assert port.trigger_state(job_id) is None
    ops.store.remove_job(job_id)
    assert port.fire(job_id, trigger="TABLE", context={}, state={"seen": 1}) is None


async def test_a_fire_without_a_slot_is_a_skipped_run(ops: Workspace, port: JobsPort, notebooks: Notebooks) -> None:
    notebooks.block("main")
    job_id = add_job(ops, trigger=TABLE)
    first = port.fire(job_id, trigger="TABLE", context={}, state={"seen": 1})
    second = port.fire(job_id, trigger="TABLE", context={}, state={"seen": 2})
    assert second is not None
    skipped = get_run(ops.store, second)
    assert skipped is not None
    assert skipped.outcome == "NO_SLOT"
    assert port.active_runs(job_id) == [first]
    assert port.trigger_state(job_id) == {"seen": 2}
