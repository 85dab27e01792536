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
from databricks_bridge.local.runs.plan import Task, retry_pause
from databricks_bridge.local.runs.records import attempts_of, get_attempt, put_attempt, unfinished_attempts_of
from databricks_bridge.local.store import Store
from databricks_bridge.local.texts import whole_text, whole_texts

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


class Turns:
    """Lets one attempt after another have the event loop, and between two of them all else that waits for it.

    Many that can go on at once would otherwise keep the server from answering until the last of them has.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        async with self._lock:
            await asyncio.sleep(0)


class Cancels:
    """Task runs that a person cancels one by one, while the other tasks of their run go on."""

    def __init__(self) -> None:
        self._asked: set[int] = set()
        self._under_way: dict[int, asyncio.Task[Ended]] = {}

    def ask(self, attempt_id: int) -> None:
        """Cancel the work of this attempt; where it has not begun, it ends when its turn comes."""
        self._asked.add(attempt_id)
        if work := self._under_way.get(attempt_id):
            work.cancel()

    async def carry_out(self, attempt_id: int, work: Coroutine[Any, Any, Ended]) -> Ended:
        """The work of an attempt, or that it was cancelled. Cancelling the call itself cancels the work and raises."""
        if attempt_id in self._asked:
            work.close()
            self._asked.discard(attempt_id)
            return CANCELED
        task = self._under_way[attempt_id] = asyncio.ensure_future(work)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if attempt_id in self._asked and not (current and current.cancelling()):
                return CANCELED
            await stop([task])
            raise
        finally:
            self._asked.discard(attempt_id)
            del self._under_way[attempt_id]


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
    turns: Turns = field(default_factory=Turns)
    cancels: Cancels = field(default_factory=Cancels)

    def now_ms(self) -> int:
        return int(self.now() * 1000)


@dataclass(frozen=True)
class Ended:
    """How the work of an attempt ended. `changes` are fields of the attempt."""

    outcome: Outcome
    message: str = ""
    changes: dict[str, Any] = field(default_factory=dict)


CANCELED = Ended(Outcome.CANCELED, "Run cancelled.")


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


def end_attempt(means: Means, run: Run, task: Task, attempt: Attempt, ended: Ended) -> Attempt:
    """Write how an attempt ended and, if it is tried again, the attempt that follows; both or neither. The newer one."""
    at = means.now_ms()
    changes = whole_texts(ended.changes)
    with means.store.transaction():
        last = put_attempt(means.store, attempt.ended(ended.outcome, whole_text(ended.message), at, **changes))
        pause = retry_pause(run, task, ended.outcome, _tries(means.store, attempt))
        if pause is None:
            return last
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


def _tries(store: Store, attempt: Attempt) -> int:
    """How often its task was tried in this round: retries are numbered on from the first."""
    first = get_attempt(store, attempt.original) if attempt.original else attempt
    assert first is not None, f"task run {attempt.original} has no record"
    return attempt.number - first.number + 1


def cancel_attempts(store: Store, run: Run, outcome: Outcome, message: str, at: int) -> None:
    """End all attempts that have not ended. Nothing is retried."""
    for attempt in unfinished_attempts_of(store, run.run_id):
        put_attempt(store, attempt.ended(outcome, message, at))
