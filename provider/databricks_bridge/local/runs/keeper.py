"""All runs of a deployment: made, carried out, queued, cancelled, repaired, and taken up again after a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from databricks_bridge.local.engine.model import Engine
from databricks_bridge.local.ports import Clock, RunFinished, Workspace
from databricks_bridge.local.runs import admission
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.ends import keep_end, run_finished
from databricks_bridge.local.runs.execution import execute
from databricks_bridge.local.runs.holds import Holds
from databricks_bridge.local.runs.means import (
    BeforeRun,
    Ended,
    Means,
    Sleep,
    cancel_attempts,
    end_attempt,
    latest_attempts,
)
from databricks_bridge.local.runs.model import SLOT_PHASES, Attempt, Outcome, Phase, Repair, Run
from databricks_bridge.local.runs.plan import Conclude, task_of, upstream_keys
from databricks_bridge.local.runs.pruning import prune
from databricks_bridge.local.runs.records import get_run, put_attempt, put_run, runs_in, unfinished_attempts_of
from databricks_bridge.local.runs.work import kind_of
from databricks_bridge.local.store import Store

QUEUE_SECONDS = 48 * 3600
"""How long a run may wait in the queue (Databricks docs, "Job queueing")."""
CANCELED_MESSAGE = "Run cancelled."
RESTARTED_MESSAGE = "The local workspace was restarted while this task ran."
RESUMED_KINDS = ("run_job_task", "condition_task")
"""Tasks that go on after a restart, as no process of theirs was lost with it."""

log = logging.getLogger(__name__)


class RunKeeper:
    """Owner of every active run. To be used on the event loop's thread."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        *,
        now: Clock,
        sleep: Sleep,
        time_scale: float,
        before_run: BeforeRun,
    ) -> None:
        self.store = store
        self.holds = Holds(store)
        self._means = Means(store, engine, self.holds, now, sleep, time_scale, before_run, self)
        self._workspaces: dict[str, Workspace] = {}
        self._under_way: dict[int, asyncio.Task[Conclude]] = {}
        self._waiting: dict[int, list[asyncio.Future[Run]]] = {}
        self._listeners: list[Callable[[RunFinished], None]] = []
        self._closing = False

    @property
    def workspaces(self) -> Mapping[str, Workspace]:
        return self._workspaces

    def open(self, workspaces: Sequence[Workspace]) -> None:
        """Host these workspaces and take up their unfinished runs: queued ones stay queued, what ran has failed."""
        self._workspaces = {workspace.name: workspace for workspace in workspaces}
        self.holds.release_all_holding()
        for run in self._hosted(runs_in(self.store, SLOT_PHASES)):
            self._settle_after_restart(run)
            if run.phase is Phase.TERMINATING:
                self._end(run.run_id, Conclude(Outcome.CANCELED, CANCELED_MESSAGE))
            else:
                self._spawn(run.run_id)
        for job_id in {run.job_id for run in self._hosted(runs_in(self.store, {Phase.QUEUED}))}:
            self.promote(job_id)

    def _settle_after_restart(self, run: Run) -> None:
        """What ran has failed, except where nothing of it is lost: the run of a run job task is taken up too."""
        if run.phase is not Phase.RUNNING:
            return
        for attempt in unfinished_attempts_of(self.store, run.run_id):
            if attempt.parent:
                put_attempt(self.store, attempt.ended(Outcome.BROKEN, RESTARTED_MESSAGE, self._means.now_ms()))
                continue
            task = task_of(run, attempt)
            if attempt.phase is Phase.RUNNING and kind_of(task) in RESUMED_KINDS:
                put_attempt(self.store, replace(attempt, phase=Phase.PENDING))
            elif attempt.phase is Phase.RUNNING:
                broken = Ended(Outcome.BROKEN, RESTARTED_MESSAGE, {"error": RESTARTED_MESSAGE})
                end_attempt(self._means, run, task, attempt, broken)

    async def close(self) -> None:
        """Stop all notebooks. Their runs stay as they are in the store, for the next start to take up."""
        self._closing = True
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_forever(self) -> None:
        """Skip runs that have waited in the queue for too long, and delete old ones."""
        while True:
            await self._means.sleep(60 * self._means.time_scale)
            prune(self.store, self._workspaces, self._means.now_ms())
            limit = QUEUE_SECONDS * self._means.time_scale * 1000
            for run in self._hosted(runs_in(self.store, {Phase.QUEUED})):
                queued_at = run.repairs[-1].start_time if run.repairs else run.start_time
                if self._means.now_ms() - queued_at > limit:
                    self._end(run.run_id, Conclude(Outcome.NO_SLOT, "The run waited in the queue for 48 hours."))

    def on_run_finished(self, listener: Callable[[RunFinished], None]) -> None:
        self._listeners.append(listener)

    def create(self, workspace: Workspace, order: Order) -> Run:
        """Create a run and let it start. Inside a transaction it starts only after that is committed."""
        run = admission.create_run(self.store, workspace, order)
        asyncio.get_running_loop().call_soon(self._announce, run.run_id)
        return run

    def cancel(self, run_id: int) -> None:
        """Ask a run to stop, unless everything stops anyway. A queued one ends here; an active one is TERMINATING until its notebooks are gone."""
        run = get_run(self.store, run_id)
        if self._closing or run is None or run.phase in (Phase.DONE, Phase.TERMINATING):
            return
        task = self._under_way.get(run_id)
        if run.phase is Phase.QUEUED or task is None:
            self._end(run_id, Conclude(Outcome.CANCELED, CANCELED_MESSAGE))
            return
        put_run(self.store, run.moved(Phase.TERMINATING))
        task.cancel()

    def cancel_task(self, attempt: Attempt) -> None:
        """Ask one task run to stop; the other tasks of its run go on. One that has ended stays as it is."""
        if not self._closing and attempt.phase is not Phase.DONE:
            self._means.cancels.ask(attempt.run_id)

    async def until_ended(self, run_id: int) -> Run:
        """Wait for the end of a run that exists; the run as it ended."""
        run = get_run(self.store, run_id)
        if run is not None and run.phase is Phase.DONE:
            return run
        ended: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, []).append(ended)
        return await ended

    def repair(self, run: Run, task_keys: Iterable[str], parameters: Mapping[str, str]) -> int:
        """Run some tasks of an ended run again, with the job's present settings; the repair's id.

        The run's own job parameters stay, `parameters` go over them.
        """
        at = self._means.now_ms()
        with self.store.transaction():
            job = None if run.job_id is None else self.store.job(run.job_id)
            settings = run.settings if job is None else _with_present_tasks(run.settings, job.settings)
            phase = Phase.PENDING
            if run.job_id is not None:
                taken = admission.slots_taken(self.store, run.job_id)
                limit = admission.max_concurrent_runs(settings)
                # A repair that finds no slot waits for one: ending it as skipped would overwrite the run's result.
                phase = admission.admit(slots_taken=taken, max_concurrent_runs=max(limit, 1), queue_enabled=True)
            repair = Repair(self.store.next_run_id(), at)
            changed = replace(
                run.moved(phase), settings=settings, outcome=None, message="", end_time=0, round=run.round + 1
            )
            changed = replace(changed, repairs=(*run.repairs, repair))
            kept = {item["name"]: item["value"] for item in run.parameters}
            changed = admission.with_parameters(changed, self._workspaces[run.workspace], {**kept, **parameters})
            wanted = set(task_keys)
            numbers = {key: attempt.number + 1 for key, attempt in latest_attempts(self.store, run).items()}
            tasks = [task for task in settings["tasks"] if task["task_key"] in wanted]
            put_run(self.store, changed)
            admission.add_attempts(self.store, changed, tasks, numbers)
        if phase is Phase.PENDING:
            asyncio.get_running_loop().call_soon(self._spawn, run.run_id)
        return repair.repair_id

    def promote(self, job_id: int | None) -> None:
        """Give free slots of a job to its oldest queued runs."""
        if job_id is None:
            return
        for run in self._hosted(runs_in(self.store, {Phase.QUEUED}, job_id)):
            job = self.store.job(job_id)
            settings = run.settings if job is None else job.settings
            if admission.slots_taken(self.store, job_id) >= admission.max_concurrent_runs(settings):
                return
            put_run(self.store, run.moved(Phase.PENDING, slot_at=self._means.now_ms()))
            self._spawn(run.run_id)

    def _announce(self, run_id: int) -> None:
        # Read again: the transaction that made the run may have been rolled back since, or the run been cancelled.
        run = get_run(self.store, run_id)
        if run is not None and run.outcome is Outcome.NO_SLOT:
            self._tell(run)
        else:
            self._spawn(run_id)

    def _hosted(self, runs: Iterable[Run]) -> list[Run]:
        return [run for run in runs if run.workspace in self._workspaces]

    def _spawn(self, run_id: int) -> None:
        run = get_run(self.store, run_id)
        if self._closing or run_id in self._under_way or run is None or run.phase not in SLOT_PHASES:
            return
        work = execute(self._means, self._workspaces[run.workspace], run_id)
        task = asyncio.get_running_loop().create_task(work, name=f"run {run_id}")
        self._under_way[run_id] = task
        # A callback, not a try around the call: a task that is cancelled before its first step runs no code at all.
        task.add_done_callback(lambda task: self._carried(run_id, task))

    def _carried(self, run_id: int, task: asyncio.Task[Conclude]) -> None:
        del self._under_way[run_id]
        if task.cancelled():
            run = get_run(self.store, run_id)
            if run is not None and run.phase is Phase.TERMINATING:
                self._end(run_id, Conclude(Outcome.CANCELED, CANCELED_MESSAGE))
            elif not self._closing:
                self._end(run_id, Conclude(Outcome.BROKEN, "The engine gave up the notebook, and nobody had asked."))
        elif error := task.exception():
            log.error("run %s broke", run_id, exc_info=error)
            message = f"The local workspace broke: {type(error).__name__}: {error}"
            self._end(run_id, Conclude(Outcome.BROKEN, message))
        else:
            self._end(run_id, task.result())

    def _end(self, run_id: int, end: Conclude) -> None:
        at = self._means.now_ms()
        with self.store.transaction():
            run = get_run(self.store, run_id)
            assert run is not None, f"run {run_id} has no record"
            cancel_attempts(self.store, run, end.outcome, end.message, at)
            run = put_run(self.store, run.ended(end.outcome, end.message, at))
            self.holds.drop(run_id)
            keep_end(self.store, run_finished(self._workspaces[run.workspace], run))
        self._tell(run)
        self.promote(run.job_id)

    def _tell(self, run: Run) -> None:
        for waiter in self._waiting.pop(run.run_id, ()):
            if not waiter.done():
                waiter.set_result(run)
        end = run_finished(self._workspaces[run.workspace], run)
        for listener in self._listeners:
            listener(end)


def _with_present_tasks(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The job's present settings, for the tasks that the run has: tasks added since have no place in an old run."""
    present = {task["task_key"]: task for task in new.get("tasks", ())}
    keys = {task["task_key"] for task in old["tasks"]}
    tasks = [present.get(task["task_key"], task) for task in old["tasks"]]
    fitting = [task if keys.issuperset(upstream_keys(task)) else None for task in tasks]
    return {**new, "tasks": [task or was for task, was in zip(fitting, old["tasks"], strict=True)]}
