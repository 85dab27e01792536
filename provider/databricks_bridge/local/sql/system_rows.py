"""The rows of the system tables, from the jobs, runs and attempts that the store holds. Pure; times are epoch ms.

The words are the tables' own, which are not the REST API's: a run by hand is ONETIME, a schedule CRON, success SUCCEEDED.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from databricks_bridge.local.runs.endings import JOB_ENDINGS, TASK_ENDINGS, Ending
from databricks_bridge.local.runs.model import Attempt, Outcome, Run
from databricks_bridge.local.runs.starts import is_paused, starts
from databricks_bridge.local.store import JobChange

HOUR_MS = 3_600_000
ACCOUNT_ID = str(uuid.uuid5(uuid.NAMESPACE_URL, "databricks-bridge/local/account"))
USER_ID = "1"
_METASTORES = uuid.uuid5(uuid.NAMESPACE_URL, "databricks-bridge/local/metastore")
RESULTS: Mapping[Outcome, str] = {
    Outcome.SUCCESS: "SUCCEEDED",
    Outcome.SUCCESS_WITH_FAILURES: "SUCCEEDED",
    Outcome.FAILED: "FAILED",
    Outcome.NO_NOTEBOOK: "FAILED",
    Outcome.BROKEN: "ERROR",
    Outcome.CANCELED: "CANCELLED",
    Outcome.TIMEDOUT: "TIMED_OUT",
    Outcome.UPSTREAM_FAILED: "BLOCKED",
    Outcome.UPSTREAM_CANCELED: "BLOCKED",
    Outcome.EXCLUDED: "SKIPPED",
    Outcome.DISABLED: "SKIPPED",
    Outcome.NO_SLOT: "SKIPPED",
}
# A kind of a start in the settings: the word of jobs.trigger_type.
_JOB_TRIGGERS = {"schedule": "CRON", "table_update": "TABLE_UPDATE"}
_KINDS = ("schedule", "periodic", "file_arrival", "table_update", "continuous", "model", "job_completion")
Row = dict[str, Any]


def job_rows(changes: Iterable[JobChange], ids: Mapping[str, str], user_name: str) -> list[Row]:
    """`jobs`: one row for each change of a job, the last of them with `delete_time` once it is deleted.

    `ids` holds the workspace id of each workspace that is shown.
    """
    rows, created = [], dict[int, int]()
    for change in changes:
        created.setdefault(change.job_id, change.at)
        if change.workspace not in ids:
            continue
        settings = change.settings
        present = starts(settings)
        triggers = [_trigger(start) for start in present]
        types = [_trigger_type(start) for start in present]
        rows.append(
            {
                **_job(ids[change.workspace], change.job_id),
                "name": settings.get("name"),
                "description": settings.get("description"),
                "creator_id": USER_ID,
                "tags": settings.get("tags", {}),
                "change_time": time_text(change.at),
                "delete_time": time_text(change.at) if change.deleted else None,
                "run_as": USER_ID,
                "trigger": triggers[0] if len(triggers) == 1 else None,
                "triggers": triggers,
                "trigger_type": "MULTIPLE" if len(types) > 1 else types[0] if types else None,
                "run_as_user_name": user_name,
                "creator_user_name": user_name,
                "paused": bool(present) and all(map(is_paused, present)),
                "timeout_seconds": settings.get("timeout_seconds"),
                "health_rules": (settings.get("health") or {}).get("rules", []),
                "deployment": settings.get("deployment"),
                "create_time": time_text(created[change.job_id]),
            }
        )
    return rows


def task_rows(changes: Iterable[JobChange], ids: Mapping[str, str]) -> list[Row]:
    """`job_tasks`: a row for each task whenever it has changed; with `delete_time` when it or its job has gone."""
    rows, before = [], dict[int, dict[str, Mapping[str, Any]]]()
    for change in changes:
        known = before.get(change.job_id, {})
        tasks = {str(task["task_key"]): task for task in change.settings.get("tasks", ())}
        gone = dict(tasks) if change.deleted else {key: task for key, task in known.items() if key not in tasks}
        changed = {} if change.deleted else {key: task for key, task in tasks.items() if known.get(key) != task}
        before[change.job_id] = tasks
        if change.workspace not in ids:
            continue
        for key, task in (changed | gone).items():
            rows.append(
                {
                    **_job(ids[change.workspace], change.job_id),
                    "task_key": key,
                    "depends_on_keys": [upstream["task_key"] for upstream in task.get("depends_on", ())],
                    "change_time": time_text(change.at),
                    "delete_time": time_text(change.at) if key in gone else None,
                    "timeout_seconds": task.get("timeout_seconds"),
                    "health_rules": (task.get("health") or {}).get("rules", []),
                }
            )
    return rows


def run_rows(runs: Sequence[Run], attempts: Mapping[int, Attempt], ids: Mapping[str, str], now: int) -> list[Row]:
    """`job_run_timeline`: one row for each hour of the clock that a run, or a repair of it, took part of."""
    known = {run.run_id: run for run in runs}
    rows = []
    for run in runs:
        source = run.trigger_info.get("run_id")
        fixed = {
            **_job(ids[run.workspace], job_id_of(run)),
            "run_id": str(run.run_id),
            "trigger_type": _run_trigger(run),
            "run_type": run.run_type,
            "run_name": run.name,
            "compute_ids": [],
            "compute": [],
            "job_parameters": {item["name"]: item["value"] for item in run.parameters},
            "source_task_run_id": None if source is None else str(source),
            "root_task_run_id": _root(source, attempts, known),
        }
        queued = (run.slot_at - run.start_time) // 1000 if run.slot_at else 0
        for start, end, outcome in _rounds(run):
            whole = {"queue_duration_seconds": queued, "run_duration_seconds": (end - start) // 1000}
            rows += [{**fixed, **part} for part in _slices(start, end, outcome, JOB_ENDINGS, now, whole)]
    return rows


def task_run_rows(runs: Sequence[Run], attempts: Iterable[Attempt], ids: Mapping[str, str], now: int) -> list[Row]:
    """`job_task_run_timeline`: the same for the attempts of tasks that have begun, iterations among them."""
    known = {run.run_id: run for run in runs}
    rows = []
    for attempt in attempts:
        run = known.get(attempt.job_run_id)
        if run is None or not attempt.start_time:
            continue
        fixed = {
            **_job(ids[run.workspace], job_id_of(run)),
            "run_id": str(attempt.run_id),
            "task_key": attempt.task_key,
            "compute_ids": [],
            "compute": [],
            "job_run_id": str(run.run_id),
            "parent_run_id": str(attempt.parent or run.run_id),
        }
        start, end = attempt.start_time, attempt.end_time
        whole = {"execution_duration_seconds": (end - start) // 1000}
        rows += [{**fixed, **part} for part in _slices(start, end, attempt.outcome, TASK_ENDINGS, now, whole)]
    return rows


def metastore_id(metastore: str) -> str:
    """The id of the metastore of this name."""
    return str(uuid.uuid5(_METASTORES, metastore))


def job_id_of(run: Run) -> str:
    """The job of a run; a run that was submitted without one stands for it."""
    return str(run.run_id if run.job_id is None else run.job_id)


def time_text(at: int) -> str:
    """The time as the tables' views read it, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


def _job(workspace_id: str, job_id: int | str) -> Row:
    return {"account_id": ACCOUNT_ID, "workspace_id": workspace_id, "job_id": str(job_id)}


def _rounds(run: Run) -> Iterator[tuple[int, int, Outcome | None]]:
    """Start, end (0 while it goes on) and outcome of the run itself and of each repair."""
    if not run.repairs:
        yield run.start_time, run.end_time, run.outcome
        return
    yield run.start_time, run.original_end_time, run.original_outcome
    for repair in run.repairs:
        yield repair.start_time, repair.end_time, repair.outcome


def _slices(
    start: int, end: int, outcome: Outcome | None, endings: Mapping[Outcome, Ending], now: int, whole: Row
) -> Iterator[Row]:
    """The hours from `start` to `end`; of what goes on, those that are over. How it ended is in the last row alone."""
    at = start
    while (hour := (at // HOUR_MS + 1) * HOUR_MS) < (end or now + 1):
        yield {"period_start_time": time_text(at), "period_end_time": time_text(hour)}
        at = hour
    if outcome is not None and end:
        ending = endings[outcome]
        yield {
            "period_start_time": time_text(at),
            "period_end_time": time_text(end),
            "result_state": RESULTS[outcome],
            "termination_code": ending.code,
            "termination_type": ending.type,
            "setup_duration_seconds": 0,
            "cleanup_duration_seconds": 0,
            "execution_duration_seconds": 0,
            **whole,
        }


def _trigger(start: Mapping[str, Any]) -> Row:
    return {kind: start[kind] for kind in _KINDS if start.get(kind) is not None}


def _trigger_type(start: Mapping[str, Any]) -> str:
    kind = next((kind for kind in _KINDS if start.get(kind) is not None), "")
    return _JOB_TRIGGERS.get(kind, kind.upper())


def _run_trigger(run: Run) -> str:
    if run.trigger == "PERIODIC":
        return "CRON" if any(start.get("schedule") for start in starts(run.settings)) else "PERIODIC"
    return {"ONE_TIME": "ONETIME"}.get(run.trigger, run.trigger)


def _root(source: int | None, attempts: Mapping[int, Attempt], runs: Mapping[int, Run]) -> str | None:
    """The run job task at the top of a chain of jobs that run jobs."""
    root = source
    while source is not None:
        root = source
        attempt = attempts.get(source)
        above = None if attempt is None else runs.get(attempt.job_run_id)
        source = None if above is None else above.trigger_info.get("run_id")
    return None if root is None else str(root)
