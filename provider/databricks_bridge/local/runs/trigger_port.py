"""What the trigger scheduler sees of the jobs and runs: `ports.JobsPort` over the store and the run keeper."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from databricks_bridge.local.ports import RunFinished, TriggeredJob
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.ends import ended_runs
from databricks_bridge.local.runs.keeper import RunKeeper
from databricks_bridge.local.runs.model import SLOT_PHASES, Phase
from databricks_bridge.local.runs.records import runs_in
from databricks_bridge.local.runs.starts import is_paused, starting_part, starts
from databricks_bridge.local.store import Store


class TriggerPort:
    """The jobs of all hosted workspaces, as triggers need them."""

    def __init__(self, store: Store, runs: RunKeeper) -> None:
        self._store = store
        self._runs = runs

    def triggered_jobs(self) -> list[TriggeredJob]:
        jobs = []
        for job in reversed(self._store.jobs()):
            workspace = self._runs.workspaces.get(job.workspace)
            if workspace is not None and starting_part(job.settings):
                jobs.append(
                    TriggeredJob(
                        workspace=job.workspace,
                        workspace_id=workspace.workspace_id,
                        metastore=workspace.metastore,
                        job_id=job.job_id,
                        name=job.name,
                        settings=job.settings,
                        trigger_set_at=job.trigger_set_at,
                        trigger_revision=job.trigger_revision,
                    )
                )
        return jobs

    def trigger_state(self, job_id: int) -> dict[str, Any] | None:
        return self._store.trigger_state(job_id)

    def save_trigger_state(self, job_id: int, revision: int, state: Mapping[str, Any]) -> bool:
        return self._store.save_trigger_state(job_id, revision, state)

    def fire(
        self,
        job_id: int,
        revision: int,
        *,
        trigger: str,
        context: Mapping[str, str],
        state: Mapping[str, Any],
        trigger_info: Mapping[str, Any] | None = None,
    ) -> int | None:
        with self._store.transaction():
            job = self._store.job(job_id)
            if job is None or job.trigger_revision != revision or all(map(is_paused, starts(job.settings))):
                return None
            workspace = self._runs.workspaces[job.workspace]
            order = Order(
                job_id=job_id,
                settings=job.settings,
                trigger=trigger,
                context=dict(context),
                trigger_info=dict(trigger_info or {}),
            )
            run = self._runs.create(workspace, order)
            self._store.save_trigger_state(job_id, revision, state)
            return run.run_id

    def active_runs(self, job_id: int) -> list[int]:
        return [run.run_id for run in runs_in(self._store, {Phase.QUEUED, *SLOT_PHASES}, job_id)]

    def on_run_finished(self, listener: Callable[[RunFinished], None]) -> None:
        self._runs.on_run_finished(listener)

    def ended_runs(self, job_ids: Collection[int], *, after: int, since: int) -> list[tuple[int, RunFinished]]:
        return ended_runs(self._store, job_ids, after, since)
