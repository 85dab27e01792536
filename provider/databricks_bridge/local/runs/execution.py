"""One run from PENDING to its end: its tasks in order, their retries, time limits, holds and the notebooks.

The time scale shortens waits (the pause before a retry), not work: notebooks run no faster, so `timeout_seconds` holds
as it is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from databricks_bridge.local.engine.model import Engine, NotebookResult
from databricks_bridge.local.ports import Clock, Workspace
from databricks_bridge.local.runs.holds import Holds
from databricks_bridge.local.runs.model import WAITING_PHASES, Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.notebooks import find_notebook, notebook_run, parameters_of
from databricks_bridge.local.runs.plan import FAILED_MESSAGE, Conclude, Settle, Start, Task, next_acts, retry_allowed
from databricks_bridge.local.runs.records import attempts_of, get_attempt, get_run, put_attempt, put_run
from databricks_bridge.local.store import Store

Sleep = Callable[[float], Awaitable[None]]
BeforeRun = Callable[[str], Awaitable[None]]
"""Called with the workspace's name before each notebook starts; what it does is seen by the notebook."""

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Means:
    """What running a run takes."""

    store: Store
    engine: Engine
    holds: Holds
    now: Clock
    sleep: Sleep
    time_scale: float
    before_run: BeforeRun

    def now_ms(self) -> int:
        return int(self.now() * 1000)


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


async def within(seconds: float | None, work: Coroutine[Any, Any, T], sleep: Sleep) -> T:
    """Await `work`, and cancel it after `seconds`. Raises TimeoutError then; None is no limit."""
    if seconds is None:
        return await work
    task: asyncio.Task[T] = asyncio.create_task(work)
    alarm = asyncio.ensure_future(sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        await _stop([task, alarm])


def latest_attempts(store: Store, run: Run) -> dict[str, Attempt]:
    """The newest attempt of each task."""
    return {attempt.task_key: attempt for attempt in attempts_of(store, run.run_id)}


def end_attempt(means: Means, run: Run, attempt: Attempt, outcome: Outcome, message: str, **changes: Any) -> None:
    """Write how an attempt ended and, if its task is tried again, the attempt that follows; both or neither."""
    task = next(task for task in run.settings["tasks"] if task["task_key"] == attempt.task_key)
    at = means.now_ms()
    with means.store.transaction():
        put_attempt(means.store, attempt.ended(outcome, message, at, **changes))
        of_round = [a for a in attempts_of(means.store, run.run_id) if a.round == run.round]
        made = sum(1 for other in of_round if other.task_key == attempt.task_key)
        if retry_allowed(task, outcome, made):
            pause = int(task.get("min_retry_interval_millis", 0) * means.time_scale)
            put_attempt(
                means.store,
                Attempt(
                    run_id=means.store.next_run_id(),
                    job_run_id=run.run_id,
                    task_key=attempt.task_key,
                    number=attempt.number + 1,
                    round=run.round,
                    phase=Phase.WAITING_FOR_RETRY,
                    not_before=at + pause,
                ),
            )


def cancel_attempts(store: Store, run: Run, outcome: Outcome, message: str, at: int) -> None:
    """End all attempts that have not ended. Nothing is retried."""
    for attempt in attempts_of(store, run.run_id):
        if attempt.phase is not Phase.DONE:
            put_attempt(store, attempt.ended(outcome, message, at))


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
    under_way: dict[int, asyncio.Task[None]] = {}
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
        await _stop([*under_way.values()])


async def _attempt(means: Means, workspace: Workspace, run: Run, attempt: Attempt) -> None:
    task = next(task for task in run.settings["tasks"] if task["task_key"] == attempt.task_key)
    if (pause := attempt.not_before - means.now_ms()) > 0:
        await means.sleep(pause / 1000)
    attempt = _start_attempt(means, workspace, run, task, attempt)
    await means.holds.stop(run.run_id, "after_start")
    notebook_path = str(task["notebook_task"]["notebook_path"])
    notebook = find_notebook(workspace.layout.workspace_files(workspace.name), notebook_path)
    if notebook is None:
        message = (
            f"Unable to access the notebook {notebook_path!r} in the workspace. Either it does not exist, or the "
            "identity used to run this job lacks the required permissions."
        )
        end_attempt(means, run, attempt, Outcome.NO_NOTEBOOK, message, error=message)
        return
    limit = float(task.get("timeout_seconds", 0))
    try:
        await means.before_run(workspace.name)
        request = notebook_run(run, attempt, notebook, workspace)
        result: NotebookResult = await within(limit if limit > 0 else None, means.engine.run(request), means.sleep)
    except TimeoutError:
        message = f"The task exceeded its timeout_seconds ({task['timeout_seconds']})."
        end_attempt(means, run, attempt, Outcome.TIMEDOUT, message)
        return
    except Exception as error:
        log.exception("the engine could not run task run %s", attempt.run_id)
        message = f"The local workspace could not run the notebook: {type(error).__name__}: {error}"
        end_attempt(means, run, attempt, Outcome.BROKEN, message, error=message)
        return
    await means.holds.stop(run.run_id, "after_notebook")
    if result.succeeded:
        end_attempt(means, run, attempt, Outcome.SUCCESS, "", exit_value=result.exit_value)
    else:
        end_attempt(
            means, run, attempt, Outcome.FAILED, FAILED_MESSAGE, error=result.error, error_trace=result.error_trace
        )


def _start_attempt(means: Means, workspace: Workspace, run: Run, task: Task, attempt: Attempt) -> Attempt:
    latest = list(latest_attempts(means.store, run).values())
    widgets, base = parameters_of(run, task, attempt, latest, workspace)
    current = get_attempt(means.store, attempt.run_id)
    assert current is not None, f"task run {attempt.run_id} has no record"
    assert current.phase in WAITING_PHASES, f"task run {attempt.run_id} is {current.phase}"
    started = current.moved(Phase.RUNNING, start_time=means.now_ms())
    return put_attempt(means.store, replace(started, parameters=widgets, base_parameters=base))


async def _stop(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
