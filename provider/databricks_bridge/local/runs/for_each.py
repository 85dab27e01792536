"""for_each_task: one nested task for each element of a list, several at a time (Jobs API, ForEachTask)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from databricks_bridge.local.runs.means import Ended, Means, stop
from databricks_bridge.local.runs.model import Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.plan import Task
from databricks_bridge.local.runs.records import all_attempts_of, put_attempt

INPUT_LIMIT = 5_000
"""Elements of the list."""

Perform = Callable[[Attempt], Awaitable[Attempt | None]]
"""Runs an attempt to its end; the one that is to follow, if it is tried again."""


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
    with means.store.transaction():
        iterations = [
            put_attempt(
                means.store,
                Attempt(
                    run_id=means.store.next_run_id(),
                    job_run_id=run.run_id,
                    task_key=str(loop["task"]["task_key"]),
                    number=0,
                    round=run.round,
                    phase=Phase.PENDING,
                    parent=attempt.run_id,
                    iteration=number,
                    input=json.dumps(value),
                ),
            )
            for number, value in enumerate(inputs)
        ]
    free = asyncio.Semaphore(int(loop.get("concurrency", 1)))

    async def iterate(one: Attempt) -> None:
        async with free:
            following: Attempt | None = one
            while following is not None:
                following = await perform(following)

    tasks = [asyncio.create_task(iterate(one)) for one in iterations]
    try:
        # Not awaited one by one: a cancel would end the first, whose place the next would take at once.
        if tasks:
            await asyncio.wait(tasks)
        for finished in tasks:
            finished.result()
    finally:
        await stop(tasks)
    failed = sum(1 for last in last_of_each(means, run, attempt) if last.outcome is not Outcome.SUCCESS)
    if failed:
        return Ended(Outcome.FAILED, f"{failed} of {len(inputs)} iterations failed.")
    return Ended(Outcome.SUCCESS)


def stop_iterations(means: Means, run: Run, attempt: Attempt) -> None:
    """End what a for each task left behind that ran out of time."""
    with means.store.transaction():
        for one in all_attempts_of(means.store, run.run_id):
            if one.parent == attempt.run_id and one.phase is not Phase.DONE:
                message = "The for each task exceeded its timeout_seconds."
                put_attempt(means.store, one.ended(Outcome.CANCELED, message, means.now_ms()))


def last_of_each(means: Means, run: Run, attempt: Attempt) -> list[Attempt]:
    """The newest attempt of each iteration of a for each task's attempt."""
    return list(newest_iterations(all_attempts_of(means.store, run.run_id), attempt.run_id))


def newest_iterations(attempts: list[Attempt], parent: int) -> list[Attempt]:
    """The newest of each iteration of the attempt `parent`, in their order."""
    newest = {one.iteration: one for one in attempts if one.parent == parent}
    return [newest[number] for number in sorted(newest, key=lambda number: number or 0)]
