"""Airflow's own task runner and our triggers, as worker and triggerer run them: only the API server is stood in for."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
import structlog
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.api.datamodels._generated import DagRun, TIRunContext
from airflow.sdk.execution_time import comms, task_runner
from airflow.sdk.execution_time.comms import DeferTask, RescheduleTask
from airflow.sdk.serde import deserialize

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MOST_POKES = 200


@dataclass
class Supervisor:
    """Answers what the task runner asks its supervisor for, and keeps what it was told."""

    first_start: datetime
    told: list[Any] = field(default_factory=list)

    def send(self, msg: Any) -> Any:
        self.told.append(msg)
        if isinstance(msg, comms.GetTaskRescheduleStartDate):
            return comms.TaskRescheduleStartDate(start_date=self.first_start)
        if isinstance(msg, comms.ValidateInletsAndOutlets):
            return comms.InactiveAssetsResult(inactive_assets=[])
        return None


@dataclass
class Worker:
    """Takes a task through its tries, with `retries` and both callbacks as Airflow decides them."""

    monkeypatch: pytest.MonkeyPatch
    retries: int = 2
    on_retry: Callable[[], object] = lambda: None
    states: list[str] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    callbacks: list[str] = field(default_factory=list)

    def take(self, task: BaseOperator) -> str:
        """The state in which Airflow leaves the task, after all its tries."""
        task.retries = self.retries
        task.on_failure_callback = [lambda context: self.callbacks.append("failure")]
        task.on_retry_callback = [lambda context: self.callbacks.append("retry"), lambda context: self.on_retry()]
        began = datetime.now(UTC)
        for number in range(1, self.retries + 2):
            state = self._one_try(task, number, began)
            self.states.append(state)
            if state != "up_for_retry":
                return state
        return self.states[-1]

    def _one_try(self, task: BaseOperator, number: int, began: datetime) -> str:
        resumed = None
        for pokes in range(MOST_POKES):
            state, message, error = self._run(task, number, pokes, began, resumed)
            if error is not None:
                self.errors.append(error)
            if isinstance(message, DeferTask):
                event = asyncio.run(_event_of(message))
                self.events.append(event)
                resumed = {"next_method": message.next_method, "next_kwargs": {"event": event}}
            elif isinstance(message, RescheduleTask):
                asyncio.run(asyncio.sleep((message.reschedule_date - datetime.now(UTC)).total_seconds()))
            else:
                return state
        raise AssertionError(f"still not done after {MOST_POKES} times in a worker")

    def _run(
        self, task: BaseOperator, number: int, pokes: int, began: datetime, resumed: dict[str, Any] | None
    ) -> tuple[str, Any, BaseException | None]:
        dag_run = DagRun(
            dag_id=task.dag_id,
            run_id="r",
            logical_date=None,
            data_interval_start=None,
            data_interval_end=None,
            run_after=NOON,
            start_date=NOON,
            end_date=None,
            run_type="manual",
            state="running",
            consumed_asset_events=[],
            partition_key=None,
        )
        more = len(self.states) < self.retries
        server = TIRunContext(
            dag_run=dag_run, max_tries=self.retries, should_retry=more, task_reschedule_count=pokes, **(resumed or {})
        )
        ti = task_runner.RuntimeTaskInstance.model_construct(
            id=uuid.uuid4(),
            task_id=task.task_id,
            dag_id=task.dag_id,
            run_id="r",
            try_number=number,
            max_tries=self.retries,
            map_index=-1,
            task=task,
            start_date=began,
            hostname="here",
        )
        ti._ti_context_from_server = server
        log = structlog.get_logger()
        on_term, environment = signal.getsignal(signal.SIGTERM), dict(os.environ)
        with self.monkeypatch.context() as patched:
            patched.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(began), raising=False)
            context = ti.get_template_context()
            state, message, error = task_runner.run(ti, context, log)
            task_runner.finalize(ti, state, context, log, error)
        signal.signal(signal.SIGTERM, on_term)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        return str(state.value), message, error


async def _event_of(message: DeferTask) -> dict[str, Any]:
    """The trigger from what was stored, run as the triggerer runs it: to its first event, then cleaned up."""
    module, _, name = message.classpath.rpartition(".")
    arguments: Any = deserialize(message.trigger_kwargs)
    trigger = getattr(import_module(module), name)(**arguments)
    try:
        async for event in trigger.run():
            payload: dict[str, Any] = event.payload
            return payload
    finally:
        await trigger.cleanup()
    raise AssertionError("the trigger ended without an event")


def in_a_dag(task: BaseOperator) -> BaseOperator:
    """The task in a DAG of its own."""
    DAG("d", schedule=None).add_task(task)
    return task
