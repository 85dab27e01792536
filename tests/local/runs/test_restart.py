"""What a restart finds of tasks that are more than one notebook. The notebooks were at work when everything stopped."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.ports import RunFinished, Workspace
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.keeper import RunKeeper
from databricks_bridge.local.runs.model import Outcome, Phase, Run
from databricks_bridge.local.runs.records import all_attempts_of, attempts_of, get_run
from databricks_bridge.local.server.job_settings import completed
from databricks_bridge.local.server.runs_wire import full_run
from tests.local.local_kit import Notebooks, bare_workspace, nothing

NOTEBOOK = {"notebook_path": "/Shared/main"}


def add(ops: Workspace, *tasks: dict[str, Any]) -> Order:
    job = ops.store.add_job("ops", completed({"name": "j", "tasks": list(tasks)}), 0)
    return Order(job_id=job.job_id, settings=job.settings)


async def restarted(ops: Workspace, calm: Notebooks) -> asyncio.Queue[RunFinished]:
    """Stop all runs, and let another keeper take them up; the ends that it tells of."""
    await ops.runs.close()
    keeper = RunKeeper(
        ops.store,
        InstantEngine(calm.run),
        now=ops.now,
        sleep=asyncio.sleep,
        time_scale=1,
        before_run=nothing,
    )
    ended: asyncio.Queue[RunFinished] = asyncio.Queue()
    keeper.on_run_finished(ended.put_nowait)
    keeper.open([ops])
    return ended


async def working(notebooks: Notebooks, count: int) -> None:
    async with asyncio.timeout(10):
        while len(notebooks.seen) < count:  # noqa: ASYNC110 - a list tells nobody that it grew
            await asyncio.sleep(0.01)


def present(ops: Workspace, run: Run) -> Run:
    found = get_run(ops.store, run.run_id)
    assert found is not None
    return found


async def test_a_loop_has_failed_with_its_iterations_and_is_retried_as_a_whole(
    tmp_path: Path, notebooks: Notebooks
) -> None:
    ops = bare_workspace(tmp_path, notebooks)
    notebooks.block("main")
    nested = {"task_key": "it", "max_retries": 5, "notebook_task": NOTEBOOK}
    loop = {"inputs": "[1, 2, 3]", "concurrency": 2, "task": nested}
    run = ops.runs.create(ops, add(ops, {"task_key": "loop", "max_retries": 1, "for_each_task": loop}))
    await working(notebooks, 2)
    calm = Notebooks()
    ended = await restarted(ops, calm)
    assert (await asyncio.wait_for(ended.get(), 10)).result_state == "SUCCESS"
    attempts = all_attempts_of(ops.store, run.run_id)
    assert [(one.number, one.outcome) for one in attempts if not one.parent] == [
        (0, Outcome.BROKEN),
        (1, Outcome.SUCCESS),
    ]
    first, second = (one.run_id for one in attempts if not one.parent)
    assert [one.outcome for one in attempts if one.parent == first] == [Outcome.BROKEN] * 3
    assert [one.outcome for one in attempts if one.parent == second] == [Outcome.SUCCESS] * 3
    assert len(calm.seen) == 3
    ops.store.close()


async def test_a_run_job_task_waits_on_and_fails_with_the_run_that_was_lost(
    tmp_path: Path, notebooks: Notebooks
) -> None:
    ops = bare_workspace(tmp_path, notebooks)
    notebooks.block("main")
    inner = add(ops, {"task_key": "main", "notebook_task": NOTEBOOK})
    outer = add(ops, {"task_key": "call", "run_job_task": {"job_id": inner.job_id}})
    run = ops.runs.create(ops, outer)
    await working(notebooks, 1)
    ended = await restarted(ops, Notebooks())
    ends = [await asyncio.wait_for(ended.get(), 10) for _ in range(2)]
    assert [(end.job_id, end.termination_code) for end in ends] == [
        (inner.job_id, "INTERNAL_ERROR"),
        (outer.job_id, "RUN_EXECUTION_ERROR"),
    ]
    (call,) = all_attempts_of(ops.store, run.run_id)
    assert (call.phase, call.child_run_id) == (Phase.DONE, ends[0].run_id)
    assert "ended as FAILED: Task main failed with message: The local workspace was restarted" in call.message
    assert present(ops, run).outcome is Outcome.FAILED
    ops.store.close()


async def test_runs_that_an_older_release_wrote_are_read(tmp_path: Path, notebooks: Notebooks) -> None:
    ops = bare_workspace(tmp_path, notebooks)
    ended: asyncio.Queue[RunFinished] = asyncio.Queue()
    ops.runs.on_run_finished(ended.put_nowait)
    run = ops.runs.create(ops, add(ops, {"task_key": "main", "notebook_task": NOTEBOOK}))
    await asyncio.wait_for(ended.get(), 10)
    since = {
        "runs": ("python_params",),
        "attempts": (
            "resolved",
            "task_values",
            "cells",
            "output",
            "condition",
            "original",
            "child_run_id",
            "parent",
            "iteration",
            "input",
        ),
    }
    with ops.store.transaction() as db:
        for table, fields in since.items():
            for row in db.execute(f"SELECT run_id, body FROM {table}").fetchall():
                body = {name: value for name, value in json.loads(row["body"]).items() if name not in fields}
                assert len(body) == len(json.loads(row["body"])) - len(fields)
                db.execute(f"UPDATE {table} SET body = ? WHERE run_id = ?", (json.dumps(body), row["run_id"]))
    assert present(ops, run).outcome is Outcome.SUCCESS
    shown = full_run(ops, present(ops, run), attempts_of(ops.store, run.run_id), start=0, history=True, resolved=True)
    assert shown["tasks"][0]["resolved_values"] == {"notebook_task": {"base_parameters": {}}}
    await ops.runs.close()
    ops.store.close()
