"""What running a run takes, and the writing down of how an attempt ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from databricks_bridge.local.engine.model import Engine
from databricks_bridge.local.ports import Clock, Workspace
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.holds import Holds
from databricks_bridge.local.runs.model import Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.plan import Task, retry_pause, task_of
from databricks_bridge.local.runs.records import all_attempts_of, attempts_of, put_attempt
from databricks_bridge.local.store import Store

Sleep = Callable[[float], Awaitable[None]]
BeforeRun = Callable[[str], Awaitable[None]]
"""Called with the workspace's name before each notebook starts; what it does is seen by the notebook."""

T = TypeVar("T")


class Children(Protocol):
    """What a run_job_task asks of the keeper of all runs."""

    def create(self, workspace: Workspace, order: Order) -> Run:
        """Create a run and let it start; inside a transaction after that is committed."""

    def cancel(self, run_id: int) -> None:
        """Ask a run to stop."""

    async def until_ended(self, run_id: int) -> Run:
        """Wait for the end of a run; the run as it ended."""


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
    children: Children

    def now_ms(self) -> int:
        return int(self.now() * 1000)


@dataclass(frozen=True)
class Ended:
    """How the work of an attempt ended. `changes` are fields of the attempt."""

    outcome: Outcome
    message: str = ""
    changes: dict[str, Any] = field(default_factory=dict)


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
        await stop([task, alarm])


async def stop(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel them and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def latest_attempts(store: Store, run: Run) -> dict[str, Attempt]:
    """The newest attempt of each task."""
    return {attempt.task_key: attempt for attempt in attempts_of(store, run.run_id)}


def end_attempt(means: Means, run: Run, attempt: Attempt, ended: Ended) -> Attempt | None:
    """Write how an attempt ended and, if it is tried again, the attempt that follows; both or neither. That attempt."""
    task: Task = task_of(run, attempt)
    at = means.now_ms()
    with means.store.transaction():
        put_attempt(means.store, attempt.ended(ended.outcome, ended.message, at, **ended.changes))
        alike = [
            other
            for other in all_attempts_of(means.store, run.run_id)
            if (other.round, other.task_key, other.parent, other.iteration)
            == (run.round, attempt.task_key, attempt.parent, attempt.iteration)
        ]
        pause = retry_pause(run, task, ended.outcome, len(alike))
        if pause is None:
            return None
        return put_attempt(
            means.store,
            Attempt(
                run_id=means.store.next_run_id(),
                job_run_id=run.run_id,
                task_key=attempt.task_key,
                number=attempt.number + 1,
                round=run.round,
                phase=Phase.WAITING_FOR_RETRY,
                not_before=at + int(pause * means.time_scale),
                parent=attempt.parent,
                iteration=attempt.iteration,
                input=attempt.input,
                original=attempt.original or attempt.run_id,
            ),
        )


def cancel_attempts(store: Store, run: Run, outcome: Outcome, message: str, at: int) -> None:
    """End all attempts that have not ended. Nothing is retried."""
    for attempt in all_attempts_of(store, run.run_id):
        if attempt.phase is not Phase.DONE:
            put_attempt(store, attempt.ended(outcome, message, at))
