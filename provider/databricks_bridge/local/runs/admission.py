"""How a run comes to be: whether it gets a slot, its parameters, and the attempts of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.ends import keep_end, run_finished
from databricks_bridge.local.runs.model import SLOT_PHASES, Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.plan import Task, upstream_keys
from databricks_bridge.local.runs.records import put_attempt, put_run, runs_in
from databricks_bridge.local.runs.references import resolve_all, time_values
from databricks_bridge.local.store import Store


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is asked for: a run of a job, or of `settings` alone (`job_id` None)."""

    job_id: int | None
    settings: Mapping[str, Any]
    trigger: str = "ONE_TIME"
    context: Mapping[str, str] = field(default_factory=dict)
    trigger_info: Mapping[str, Any] = field(default_factory=dict)
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    notebook_params: Mapping[str, str] = field(default_factory=dict)
    python_params: tuple[str, ...] = ()
    queue: bool | None = None


def admit(*, slots_taken: int, max_concurrent_runs: int, queue_enabled: bool) -> Phase:
    """The phase of a new run; DONE means that it is skipped."""
    if slots_taken < max_concurrent_runs:
        return Phase.PENDING
    return Phase.QUEUED if queue_enabled and max_concurrent_runs > 0 else Phase.DONE


def max_concurrent_runs(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_concurrent_runs", 1))


def queue_enabled(settings: Mapping[str, Any]) -> bool:
    """Off unless the job says otherwise, as it is for jobs that are made by the API."""
    return bool(settings.get("queue", {}).get("enabled", False))


def slots_taken(store: Store, job_id: int) -> int:
    return len(runs_in(store, SLOT_PHASES, job_id))


def create_run(store: Store, workspace: Workspace, order: Order) -> Run:
    """Write the run and the first attempt of each task; in the caller's transaction, if there is one."""
    at = int(workspace.now() * 1000)
    with store.transaction():
        phase = Phase.PENDING
        if order.job_id is not None:
            wants_queue = queue_enabled(order.settings) if order.queue is None else order.queue
            phase = admit(
                slots_taken=slots_taken(store, order.job_id),
                max_concurrent_runs=max_concurrent_runs(order.settings),
                queue_enabled=wants_queue,
            )
        run = Run(
            run_id=store.next_run_id(),
            workspace=workspace.name,
            job_id=order.job_id,
            run_type="SUBMIT_RUN" if order.job_id is None else "JOB_RUN",
            name=str(order.settings.get("name", "Untitled")),
            creator=workspace.user_name,
            trigger=order.trigger,
            trigger_info=order.trigger_info,
            context=order.context,
            settings=order.settings,
            start_time=at,
            phase=Phase.PENDING if phase is Phase.DONE else phase,
            notebook_params=order.notebook_params,
            python_params=order.python_params,
        )
        run = with_parameters(run, workspace, order.job_parameters)
        if phase is Phase.DONE:
            limit = max_concurrent_runs(order.settings)
            run = run.ended(Outcome.NO_SLOT, f"The maximum of {limit} concurrent runs is reached.", at)
            keep_end(store, run_finished(workspace, run))
            return put_run(store, run)
        put_run(store, run)
        add_attempts(store, run, order.settings.get("tasks", ()), {})
        return run


def with_parameters(run: Run, workspace: Workspace, overrides: Mapping[str, str]) -> Run:
    """The run with its job parameters: the declared ones, then what was given over and above them, resolved.

    Whether Databricks takes parameters that the job does not declare is not documented; here they are kept.
    """
    values = reference_values(run, workspace)
    declared = {item["name"]: item.get("default", "") for item in run.settings.get("parameters", ())}
    resolved = resolve_all({**declared, **overrides}, values)
    entries = []
    for name, value in resolved.items():
        default = {"default": declared[name]} if name in declared else {}
        entries.append({"name": name, **default, "value": value})
    return replace(run, parameters=tuple(entries))


def reference_values(run: Run, workspace: Workspace) -> dict[str, str]:
    """The values of all references that are known when a run is created."""
    return {
        "job.id": "" if run.job_id is None else str(run.job_id),
        "job.name": run.name,
        "job.run_id": str(run.run_id),
        "job.repair_count": str(run.round),
        "workspace.id": workspace.workspace_id,
        "workspace.url": workspace.host,
        **time_values("job.start_time", run.start_time),
        **{f"job.trigger.{name}": value for name, value in run.context.items()},
    }


def add_attempts(store: Store, run: Run, tasks: Iterable[Task], numbers: Mapping[str, int]) -> list[Attempt]:
    """A waiting attempt for each task of this round; `numbers` holds the attempt numbers that are not 0."""
    wanted = list(tasks)
    return [
        put_attempt(
            store,
            Attempt(
                run_id=run_id,
                job_run_id=run.run_id,
                task_key=task["task_key"],
                number=numbers.get(task["task_key"], 0),
                round=run.round,
                phase=Phase.BLOCKED if upstream_keys(task) else Phase.PENDING,
            ),
        )
        for run_id, task in zip(store.next_run_ids(len(wanted)), wanted, strict=True)
    ]
