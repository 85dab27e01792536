"""for_each_task: one nested task for each element of a list, several at a time (Jobs API, ForEachTask)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from databricks_bridge.local.runs.means import Ended, Means, stop
from databricks_bridge.local.runs.model import Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.plan import Task
from databricks_bridge.local.runs.records import put_attempt, unfinished_attempts_of
from databricks_bridge.local.texts import whole_texts

INPUT_LIMIT = 5_000
"""Elements of the list."""

BATCH = 100
"""Iterations that are written at a time, so that a long list keeps nobody waiting."""

Perform = Callable[[Attempt], Awaitable[Attempt]]
"""Runs an attempt to its end; that, or the one that is to follow, if it is tried again."""


def parsed_inputs(text: str) -> list[Any]:
    """The elements. Raises ValueError, with a message for the run."""
    try:
        inputs = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"The inputs of the for each task are not JSON: {text[:200]!r}") from None
    if not isinstance(inputs, list) or len(inputs) > INPUT_LIMIT:
        raise ValueError(f"The inputs of the for each task must be a JSON list of at most {INPUT_LIMIT} elements")
    return inputs


async def run_iterations(means: Means, run: Run, task: Task, attempt: Attempt, perform: Perform) -> Ended:
    """Run all iterations; one that fails keeps no other from running, and fails the task."""
    loop = task["for_each_task"]
    try:
        inputs = parsed_inputs(attempt.resolved["for_each_task"]["inputs"])
    except ValueError as error:
        return Ended(Outcome.FAILED, str(error), {"error": str(error)})
    iterations: list[Attempt] = []
    for start in range(0, len(inputs), BATCH):
        iterations += _written(means, run, attempt, loop["task"]["task_key"], start, inputs[start : start + BATCH])
        await asyncio.sleep(0)
    waiting = iter(iterations)
    ended: list[Attempt] = []

    async def iterate() -> None:
        for one in waiting:
            newest = one
            while newest.phase is not Phase.DONE:
                newest = await perform(newest)
            ended.append(newest)

    tasks = [asyncio.create_task(iterate()) for _ in range(min(int(loop.get("concurrency", 1)), len(inputs)))]
    try:
        if tasks:
            await asyncio.wait(tasks)
        for finished in tasks:
            finished.result()
    finally:
        await stop(tasks)
    failed = sum(1 for last in ended if last.outcome is not Outcome.SUCCESS)
    if failed:
        return Ended(Outcome.FAILED, f"{failed} of {len(inputs)} iterations failed.")
    return Ended(Outcome.SUCCESS)


def _written(means: Means, run: Run, attempt: Attempt, task_key: str, start: int, inputs: list[Any]) -> list[Attempt]:
    """A waiting attempt for each of these inputs, of which the first has the number `start`."""
    with means.store.transaction():
        return [
            put_attempt(
                means.store,
                Attempt(
                    run_id=run_id,
                    job_run_id=run.run_id,
                    task_key=task_key,
                    number=0,
                    round=run.round,
                    phase=Phase.PENDING,
                    parent=attempt.run_id,
                    iteration=number,
                    input=json.dumps(whole_texts(value)),
                ),
            )
            for number, (run_id, value) in enumerate(
                zip(means.store.next_run_ids(len(inputs)), inputs, strict=True), start
            )
        ]


def stop_iterations(means: Means, run: Run, attempt: Attempt, message: str) -> None:
    """End what a for each task left behind that ran out of time or was cancelled."""
    with means.store.transaction():
        for one in unfinished_attempts_of(means.store, run.run_id):
            if one.parent == attempt.run_id:
                put_attempt(means.store, one.ended(Outcome.CANCELED, message, means.now_ms()))


def newest_iterations(attempts: list[Attempt], parent: int) -> list[Attempt]:
    """The newest of each iteration of the attempt `parent`, in their order."""
    newest = {one.iteration: one for one in attempts if one.parent == parent}
    return [newest[number] for number in sorted(newest, key=lambda number: number or 0)]
