"""Being asked to stop: what Airflow's own task state says about it, and the work that goes on unless a person marked it.

Facts (Airflow 3.3.2): the worker's SIGTERM handler calls `on_kill` in the main thread and then the task goes on, until
SIGKILL 5 s later; a trigger's `on_kill` is called for a mark, a clear, and when another triggerer took over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from databricks_bridge.core.cancelling import Pulse, marked_by_person

T = TypeVar("T")

log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0


@dataclass(frozen=True)
class Tried:
    """A try of a task instance, as plain values: a trigger stores them."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    retries_left: bool
    fail_fast: bool

    @classmethod
    def of(cls, context: Any) -> Tried:
        ti = context["ti"]
        retries = int(getattr(ti.task, "retries", 0) or 0)
        map_index = -1 if ti.map_index is None else ti.map_index
        left = retries > 0 and ti.try_number <= ti.max_tries
        fail_fast = bool(getattr(context["dag"], "fail_fast", True))
        return cls(ti.dag_id, ti.run_id, ti.task_id, map_index, left, fail_fast)

    @classmethod
    def from_json(cls, value: object) -> Tried | None:
        """Inverse of `to_json`; None for what was not stored by us."""
        try:
            return cls(**value) if isinstance(value, Mapping) else None
        except TypeError:
            return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def mark(self, *, steady: bool) -> str | None:
        """The state that a person has set, None where that is not certain. Blocks for one call to Airflow."""
        try:
            state = self._state()
        except Exception:
            log.warning("Airflow does not tell the state of %s; the run goes on", self.task_id, exc_info=True)
            return None
        marked = marked_by_person(state, retries_left=self.retries_left, fail_fast=self.fail_fast, steady=steady)
        if marked is None:
            log.info(
                "asked to stop, and nothing shows that a person marked the task (it is %s); the run goes on", state
            )
        return marked

    def _state(self) -> str | None:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        states = RuntimeTaskInstance.get_task_states(
            dag_id=self.dag_id, task_ids=[self.task_id], run_ids=[self.run_id], map_index=self.map_index
        )
        name = self.task_id if self.map_index < 0 else f"{self.task_id}_{self.map_index}"
        state = states.get(self.run_id, {}).get(name)
        return None if state is None else str(getattr(state, "value", state))


class Marked(Exception):
    """A person marked the task while its work went on; the work is ended. `state` is what it was marked."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


@dataclass
class Stopping:
    """Runs work on an event loop, and may be asked to stop it from a signal handler."""

    tried: Callable[[], Tried]
    pulse: Pulse = field(default_factory=Pulse)
    _loop: asyncio.AbstractEventLoop | None = None
    _asked: asyncio.Event | None = None

    def ask(self) -> None:
        """Safe in a signal handler: it only wakes the loop."""
        if self._loop is not None and self._asked is not None:
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._asked.set)

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Raises Marked, with the work cancelled, once a person has marked the task."""
        self._loop, self._asked = asyncio.get_running_loop(), asyncio.Event()
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                self.pulse.beat()
                waiter = asyncio.ensure_future(self._asked.wait())
                await asyncio.wait({task, waiter}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
                if self._asked.is_set() and not task.done():
                    self._asked.clear()
                    self.pulse.beat()
                    state = self.tried().mark(steady=self.pulse.steady)
                    if state is not None:
                        raise Marked(state)
            return await task
        finally:
            self._loop = self._asked = None
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
