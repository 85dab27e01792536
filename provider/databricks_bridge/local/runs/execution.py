"""One run from PENDING to its end: its tasks in order, their retries, time limits and holds.

The time scale shortens waits (the pause before a retry), not work: notebooks run no faster, so `timeout_seconds` holds
as it is written.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.for_each import run_iterations, stop_iterations
from databricks_bridge.local.runs.means import Ended, Means, end_attempt, stop, within
from databricks_bridge.local.runs.model import WAITING_PHASES, Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.plan import Conclude, Settle, Start, Task
from databricks_bridge.local.runs.progress import Progress
from databricks_bridge.local.runs.records import attempts_of, get_attempt, get_run, put_attempt, put_run
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
    progress = Progress(run.settings["tasks"], attempts_of(means.store, run.run_id))
    under_way: set[asyncio.Task[Attempt]] = set()
    finished: asyncio.Queue[asyncio.Task[Attempt]] = asyncio.Queue()
    try:
        while True:
            acts = progress.acts()
            for act in acts:
                match act:
                    case Conclude():
                        return act
                    case Settle(attempt, outcome, message):
                        progress.take(put_attempt(means.store, attempt.ended(outcome, message, means.now_ms())))
                    case Start(attempt):
                        (task,) = [task for task, _ in progress.of([attempt.task_key])]
                        work = _attempt(means, workspace, run, progress, task, attempt)
                        started = asyncio.create_task(work, name=f"task run {attempt.run_id}")
                        started.add_done_callback(finished.put_nowait)
                        under_way.add(started)
            if not acts and not under_way:
                raise RuntimeError(f"run {run.run_id} has nothing to do and has not ended")
            if acts:
                await means.turns.next()
            else:
                done = await finished.get()
                under_way.remove(done)
                done.result()
    finally:
        await stop([*under_way])


async def _attempt(
    means: Means, workspace: Workspace, run: Run, progress: Progress, task: Task, attempt: Attempt
) -> Attempt:
    """Perform one attempt and write how it ended; that, or the attempt that is to follow, if it is tried again."""
    if (pause := attempt.not_before - means.now_ms()) > 0:
        await means.sleep(pause / 1000)
    await means.turns.next()
    attempt = _start_attempt(means, workspace, run, progress, task, attempt)
    if not attempt.parent:
        await means.holds.stop(run.run_id, "after_start")
    work = _performed(means, workspace, run, progress, task, attempt)
    ended = await means.cancels.carry_out(attempt.run_id, work)
    if ended.outcome is Outcome.CANCELED and "for_each_task" in task:
        stop_iterations(means, run, attempt, ended.message)
    current = get_attempt(means.store, attempt.run_id)
    assert current is not None, f"task run {attempt.run_id} has no record"
    newest = end_attempt(means, run, task, current, ended)
    if not attempt.parent:
        # Here, not where the end of this call is awaited: what others start meanwhile knows of it.
        progress.take(newest)
    return newest


async def _performed(
    means: Means, workspace: Workspace, run: Run, progress: Progress, task: Task, attempt: Attempt
) -> Ended:
    limit = float(task.get("timeout_seconds", 0))
    if "for_each_task" in task:
        nested = task["for_each_task"]["task"]
        work = run_iterations(means, run, task, attempt, partial(_attempt, means, workspace, run, progress, nested))
    else:
        work = work_of(means, workspace, run, progress, task, attempt)
    try:
        return await within(limit if limit > 0 else None, work, means.sleep)
    except TimeoutError:
        stop_iterations(means, run, attempt, "The for each task exceeded its timeout_seconds.")
        return Ended(Outcome.TIMEDOUT, f"The task exceeded its timeout_seconds ({task['timeout_seconds']}).")
    except Exception as error:
        log.exception("task run %s could not be run", attempt.run_id)
        message = f"The local workspace could not run the task: {type(error).__name__}: {error}"
        return Ended(Outcome.BROKEN, message, {"error": message})


def _start_attempt(
    means: Means, workspace: Workspace, run: Run, progress: Progress, task: Task, attempt: Attempt
) -> Attempt:
    current = get_attempt(means.store, attempt.run_id)
    assert current is not None, f"task run {attempt.run_id} has no record"
    assert current.phase in WAITING_PHASES, f"task run {attempt.run_id} is {current.phase}"
    started = current.moved(Phase.RUNNING, start_time=current.start_time or means.now_ms())
    return put_attempt(means.store, replace(started, **resolved_attempt(run, task, attempt, progress, workspace)))
