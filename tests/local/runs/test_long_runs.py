"""What a run costs for each of its tasks and iterations does not grow with their number; and the server answers meanwhile."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs import keeper
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.model import Outcome
from databricks_bridge.local.runs.records import all_attempts_of
from databricks_bridge.local.server.job_settings import completed
from tests.local.local_kit import Notebooks, bare_workspace

FEW, MANY = 40, 160
OF_LOCAL = str(Path(keeper.__file__).parents[1])
NOTEBOOK = {"notebook_path": "/Shared/main", "base_parameters": {"of": "{{tasks.t0.run_id}}"}}


@dataclass
class Work:
    """What was done: rows that the store gave, and lines of the local workspace that were run."""

    rows: int = 0
    lines: int = 0


def loop(count: int) -> list[dict[str, Any]]:
    nested = {"task_key": "one", "notebook_task": {"notebook_path": "/Shared/main"}}
    return [
        {"task_key": "t0", "for_each_task": {"inputs": json.dumps([*range(count)]), "concurrency": 20, "task": nested}}
    ]


def side_by_side(count: int) -> list[dict[str, Any]]:
    return [{"task_key": f"t{number}", "notebook_task": NOTEBOOK} for number in range(count)]


def chain(count: int) -> list[dict[str, Any]]:
    tasks = side_by_side(count)
    for before, task in pairwise(tasks):
        task["depends_on"] = [{"task_key": before["task_key"]}]
    return tasks


def fan_in(count: int) -> list[dict[str, Any]]:
    first = side_by_side(count)
    last = {**first[0], "task_key": "last", "depends_on": [{"task_key": task["task_key"]} for task in first]}
    return [*first, last]


def retried(count: int) -> list[dict[str, Any]]:
    return [
        {"task_key": f"t{number}", "max_retries": 1, "notebook_task": {"notebook_path": "/Shared/none"}}
        for number in range(count)
    ]


def started(ops: Workspace, tasks: list[dict[str, Any]]) -> int:
    job = ops.store.add_job("ops", completed({"tasks": tasks}), 0)
    return ops.runs.create(ops, Order(job_id=job.job_id, settings=job.settings)).run_id


async def cost(home: Path, monkeypatch: pytest.MonkeyPatch, tasks: list[dict[str, Any]]) -> Work:
    """What one run of these costs, for each of its attempts."""
    ops = bare_workspace(home, Notebooks())
    work = Work()
    query = ops.store.query

    def counted(sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        rows = query(sql, parameters)
        work.rows += len(rows)
        return rows

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            work.lines += 1
        return traced if frame.f_code.co_filename.startswith(OF_LOCAL) else None

    run_id = started(ops, tasks)
    monkeypatch.setattr(ops.store, "query", counted)
    before = sys.gettrace()
    sys.settrace(traced)
    try:
        await ops.runs.until_ended(run_id)
    finally:
        sys.settrace(before)
    attempts = len(all_attempts_of(ops.store, run_id))
    await ops.runs.close()
    ops.store.close()
    return Work(work.rows // attempts, work.lines // attempts)


@pytest.mark.parametrize("tasks", [loop, side_by_side, chain, fan_in, retried])
async def test_an_attempt_costs_no_more_in_a_long_run_than_in_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: Any
) -> None:
    few = await cost(tmp_path / "few", monkeypatch, tasks(FEW))
    many = await cost(tmp_path / "many", monkeypatch, tasks(MANY))
    assert 0 < few.rows < 12
    assert many.rows <= few.rows + 1
    assert 0 < many.lines <= few.lines * 1.1


@pytest.mark.parametrize("tasks", [loop, side_by_side])
async def test_what_else_waits_for_the_loop_has_it_between_two_attempts(
    tmp_path: Path, notebooks: Notebooks, tasks: Any
) -> None:
    ops = bare_workspace(tmp_path, notebooks)
    run_id = started(ops, tasks(MANY))
    ended = asyncio.ensure_future(ops.runs.until_ended(run_id))
    at_once = seen = 0
    while not ended.done():
        await asyncio.sleep(0)
        at_once, seen = max(at_once, len(notebooks.seen) - seen), len(notebooks.seen)
    assert (await ended).outcome is Outcome.SUCCESS
    assert seen == MANY
    assert at_once <= 2
    await ops.runs.close()
    ops.store.close()
