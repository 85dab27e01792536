"""One run from PENDING to its end: its tasks in order, their retries, time limits and holds.

The time scale shortens waits (the pause before a retry), not work: notebooks run no faster, so `timeout_seconds` holds
as it is written.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.for_each import run_iterations, stop_iterations
from databricks_bridge.local.runs.means import Ended, Means, end_attempt, latest_attempts, stop, within
from databricks_bridge.local.runs.model import WAITING_PHASES, Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.plan import Conclude, Settle, Start, Task, next_acts, task_of
from databricks_bridge.local.runs.records import get_attempt, get_run, put_attempt, put_run
from databricks_bridge.local.runs.work import resolved_attempt, work_of

log = logging.getLogger(__name__)


async def execute(means: Means, workspace: Workspace, run_id: int) -> Conclude:
    """Carry the run on from where the store says it is; how it shall end. The caller writes that end.

    Cancelling the call stops its notebooks before it returns; what was RUNNING is still RUNNING in the store then.
    """
    run = _begin(means, run_id)
    seconds = _remaining(means, run)
    try:
        return await within(seconds, _all_tasks(means, workspace, run), means.sleep)
    except TimeoutError:
        return Conclude(Outcome.TIMEDOUT, f"The run exceeded its timeout_seconds ({run.settings['timeout_seconds']}).")


def _begin(means: Means, run_id: int) -> Run:
    with means.store.transaction():
        run = get_run(means.store, run_id)
        assert run is not None, f"run {run_id} has no record"
        if run.phase is Phase.RUNNING:
            return run
        run = run.moved(Phase.RUNNING, began_at=run.began_at or means.now_ms())
        means.holds.assign(run.workspace, run.name, run.run_id)
        return put_run(means.store, run)


def _remaining(means: Means, run: Run) -> float | None:
    limit = float(run.settings.get("timeout_seconds", 0))
    if limit <= 0:
        return None
    started = run.repairs[-1].start_time if run.repairs else run.began_at
    return max(0.0, limit - (means.now_ms() - started) / 1000)


async def _all_tasks(means: Means, workspace: Workspace, run: Run) -> Conclude:
    under_way: dict[int, asyncio.Task[Attempt | None]] = {}
    try:
        while True:
            settled = False
            for act in next_acts(run.settings["tasks"], latest_attempts(means.store, run)):
                match act:
                    case Conclude():
                        return act
                    case Settle(attempt, outcome, message):
                        put_attempt(means.store, attempt.ended(outcome, message, means.now_ms()))
                        settled = True
                    case Start(attempt) if attempt.run_id not in under_way:
                        work = _attempt(means, workspace, run, attempt)
                        under_way[attempt.run_id] = asyncio.create_task(work, name=f"task run {attempt.run_id}")
            running = [task for task in under_way.values() if not task.done()]
            if running:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            elif not settled:
                raise RuntimeError(f"run {run.run_id} has nothing to do and has not ended")
    finally:
        await stop([*under_way.values()])


async def _attempt(means: Means, workspace: Workspace, run: Run, attempt: Attempt) -> Attempt | None:
    """Perform one attempt and write how it ended; the attempt that is to follow, if it is tried again."""
    task = task_of(run, attempt)
    if (pause := attempt.not_before - means.now_ms()) > 0:
        await means.sleep(pause / 1000)
    attempt = _start_attempt(means, workspace, run, task, attempt)
    if not attempt.parent:
        await means.holds.stop(run.run_id, "after_start")
    ended = await _performed(means, workspace, run, task, attempt)
    current = get_attempt(means.store, attempt.run_id)
    assert current is not None, f"task run {attempt.run_id} has no record"
    return end_attempt(means, run, current, ended)


async def _performed(means: Means, workspace: Workspace, run: Run, task: Task, attempt: Attempt) -> Ended:
    limit = float(task.get("timeout_seconds", 0))
    if "for_each_task" in task:
        work = run_iterations(means, run, task, attempt, lambda one: _attempt(means, workspace, run, one))
    else:
        work = work_of(means, workspace, run, task, attempt)
    try:
        return await within(limit if limit > 0 else None, work, means.sleep)
    except TimeoutError:
        stop_iterations(means, run, attempt)
        return Ended(Outcome.TIMEDOUT, f"The task exceeded its timeout_seconds ({task['timeout_seconds']}).")
    except Exception as error:
        log.exception("task run %s could not be run", attempt.run_id)
        message = f"The local workspace could not run the task: {type(error).__name__}: {error}"
        return Ended(Outcome.BROKEN, message, {"error": message})


def _start_attempt(means: Means, workspace: Workspace, run: Run, task: Task, attempt: Attempt) -> Attempt:
    latest = list(latest_attempts(means.store, run).values())
    current = get_attempt(means.store, attempt.run_id)
    assert current is not None, f"task run {attempt.run_id} has no record"
    assert current.phase in WAITING_PHASES, f"task run {attempt.run_id} is {current.phase}"
    started = current.moved(Phase.RUNNING, start_time=current.start_time or means.now_ms())
    return put_attempt(means.store, replace(started, **resolved_attempt(run, task, attempt, latest, workspace)))
