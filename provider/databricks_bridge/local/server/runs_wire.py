"""How runs look on the wire (Jobs API 2.2: Run, BaseRun, RunTask, RunOutput, RepairHistoryItem)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.admission import max_concurrent_runs
from databricks_bridge.local.runs.endings import JOB_ENDINGS, TASK_ENDINGS, Ending
from databricks_bridge.local.runs.model import Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.plan import task_of
from databricks_bridge.local.runs.starts import starts
from databricks_bridge.local.runs.work import kind_of
from databricks_bridge.local.server import pages
from databricks_bridge.local.texts import whole_text

OUTPUT_LIMIT = 5 * 1024 * 1024
"""Bytes of notebook output that get-output shows."""
_STATUS_WORDS = {Phase.WAITING_FOR_RETRY: "WAITING"}
"""Where `status.state` says another word than `state.life_cycle_state`."""


def run_body(workspace: Workspace, run: Run) -> dict[str, Any]:
    """What runs/get and runs/list have in common: a run without its tasks."""
    body: dict[str, Any] = {
        "job_id": _job_id(run),
        "run_id": run.run_id,
        "number_in_job": run.run_id,
        "original_attempt_run_id": run.run_id,
        "attempt_number": 0,
        "run_name": run.name,
        "run_type": run.run_type,
        "run_page_url": page_url(workspace, run),
        "creator_user_name": run.creator,
        "format": "MULTI_TASK",
        "trigger": run.trigger,
        "start_time": run.start_time,
        "end_time": run.end_time,
        "setup_duration": 0,
        "execution_duration": 0,
        "cleanup_duration": 0,
        "run_duration": run.end_time - run.start_time if run.end_time else 0,
        "queue_duration": run.slot_at - run.start_time if run.slot_at else 0,
        "job_parameters": list(run.parameters),
        **_states(run, JOB_ENDINGS),
    }
    if run.trigger == "PERIODIC" and (schedule := _schedule(run)):
        body["schedule"] = schedule
    if run.trigger_info:
        body["trigger_info"] = run.trigger_info
    overriding = {"notebook_params": run.notebook_params, "python_params": list(run.python_params)}
    if any(overriding.values()):
        body["overriding_parameters"] = {name: value for name, value in overriding.items() if value}
    return body


def _schedule(run: Run) -> dict[str, Any] | None:
    """The cron schedule that started the run, as CronSchedule; None for a periodic trigger."""
    for start in starts(run.settings):
        if start.get("schedule"):
            return {"pause_status": start["pause_status"], **start["schedule"]}
    return None


def full_run(
    workspace: Workspace, run: Run, attempts: Sequence[Attempt], *, start: int, history: bool, resolved: bool
) -> dict[str, Any]:
    """runs/get: the arrays from element `start` on, a page of them."""
    repairs = repair_history(run, attempts) if history else []
    body = run_body(workspace, run)
    tasks = [task_body(workspace, run, attempt, resolved=resolved) for attempt in pages.page(attempts, start)]
    body |= {"tasks": tasks, "job_parameters": pages.page(run.parameters, start)}
    if history:
        body["repair_history"] = pages.page(repairs, start)
    return body | pages.next_token("run", start, attempts, run.parameters, repairs)


def task_body(workspace: Workspace, run: Run, attempt: Attempt, *, resolved: bool = False) -> dict[str, Any]:
    """One element of `tasks`: an attempt of a task, with the task's settings."""
    settings = task_of(run, attempt)
    duration = attempt.end_time - attempt.start_time if attempt.end_time else 0
    body = {
        **settings,
        "run_id": attempt.run_id,
        "attempt_number": attempt.number,
        "run_page_url": page_url(workspace, run, attempt.run_id),
        "start_time": attempt.start_time,
        "end_time": attempt.end_time,
        "setup_duration": 0,
        "execution_duration": duration,
        "cleanup_duration": 0,
        "run_duration": duration,
        **_states(attempt, TASK_ENDINGS, queued=run.phase is Phase.QUEUED and attempt.phase is Phase.PENDING),
    }
    if attempt.condition is not None:
        body["condition_task"] = {**settings["condition_task"], "outcome": attempt.condition}
    if resolved and attempt.start_time:
        body["resolved_values"] = attempt.resolved or {"notebook_task": {"base_parameters": attempt.base_parameters}}
    return body


def full_task_run(
    workspace: Workspace, run: Run, attempt: Attempt, iterations: Sequence[Attempt], *, start: int, resolved: bool
) -> dict[str, Any]:
    """runs/get for the id of a task run: the arrays from element `start` on, a page of them.

    `iterations` are those of a for each task from `start` on: a page, and one more where there are more.
    """
    body = task_run_body(workspace, run, attempt)
    tasks = [task_body(workspace, run, attempt, resolved=resolved)]
    body |= {"tasks": pages.page(tasks, start), "job_parameters": pages.page(run.parameters, start)}
    if "for_each_task" in body:
        shown = iterations[: pages.PAGE]
        body["iterations"] = [task_body(workspace, run, one, resolved=resolved) for one in shown]
    beyond = len(iterations) > pages.PAGE or len(run.parameters) > start + pages.PAGE
    return {**body, "next_page_token": pages.encode("run", start + pages.PAGE)} if beyond else body


def task_run_body(workspace: Workspace, run: Run, attempt: Attempt) -> dict[str, Any]:
    """A task run as a run of its own, as runs/get shows it for the task's run id."""
    retried = {"trigger": "RETRY"} if attempt.original else {}
    return {
        **run_body(workspace, run),
        **task_body(workspace, run, attempt),
        **retried,
        "number_in_job": attempt.run_id,
        "job_run_id": run.run_id,
        "original_attempt_run_id": attempt.original or attempt.run_id,
    }


def repair_history(run: Run, attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """The original attempt and each repair, with the task runs that each of them made."""
    rounds: list[tuple[dict[str, Any], int, int, Outcome | None, str]] = [
        ({"type": "ORIGINAL"}, run.start_time, run.original_end_time, run.original_outcome, run.original_message)
    ]
    for repair in run.repairs:
        head = {"type": "REPAIR", "id": repair.repair_id}
        rounds.append((head, repair.start_time, repair.end_time, repair.outcome, repair.message))
    return [
        {
            **head,
            "start_time": began,
            "end_time": ended,
            **(_states(run, JOB_ENDINGS) if outcome is None else _ended(JOB_ENDINGS[outcome], outcome, message)),
            "task_run_ids": [attempt.run_id for attempt in attempts if attempt.round == number],
        }
        for number, (head, began, ended, outcome, message) in enumerate(rounds)
    ]


def output_body(workspace: Workspace, run: Run, attempt: Attempt) -> dict[str, Any]:
    """runs/get-output of one task run."""
    body: dict[str, Any] = {"metadata": task_run_body(workspace, run, attempt)}
    kind = kind_of(task_of(run, attempt))
    if kind == "notebook_task":
        body["notebook_output"] = {}
    if kind == "sql_task" and attempt.output:
        warehouse = task_of(run, attempt)["sql_task"]["warehouse_id"]
        query = {"query_text": attempt.output["query_text"], "warehouse_id": warehouse}
        body["sql_output"] = {"query_output": query}
    if kind == "run_job_task" and attempt.child_run_id:
        body["run_job_output"] = {"run_id": attempt.child_run_id}
    if kind == "spark_python_task":
        log = workspace.layout.run_folder(workspace.name, attempt.run_id) / "output.log"
        raw = log.read_bytes() if log.is_file() else b""
        body["logs"] = raw[-OUTPUT_LIMIT:].decode(errors="replace")
        body["logs_truncated"] = len(raw) > OUTPUT_LIMIT
    if attempt.exit_value is not None:
        raw = whole_text(attempt.exit_value).encode()
        shown = raw[:OUTPUT_LIMIT].decode(errors="ignore")
        body["notebook_output"] = {"result": shown, "truncated": len(raw) > OUTPUT_LIMIT}
    if attempt.error is not None:
        body["error"] = attempt.error
    if attempt.error_trace is not None:
        body["error_trace"] = attempt.error_trace
    return body


def page_url(workspace: Workspace, run: Run, task_run_id: int | None = None) -> str:
    """A page of this local server; it says that it is not Databricks."""
    return f"{workspace.host}/?o={workspace.workspace_id}#job/{_job_id(run)}/run/{task_run_id or run.run_id}"


def _job_id(run: Run) -> int:
    # A submitted run has a job id on Databricks too, of a job that nobody can get; ids come from one space here.
    return run.run_id if run.job_id is None else run.job_id


def _states(run: Run | Attempt, endings: Mapping[Outcome, Ending], *, queued: bool = False) -> dict[str, Any]:
    if run.phase is Phase.DONE:
        assert run.outcome is not None, f"run {run.run_id} has ended without an outcome"
        return _ended(endings[run.outcome], run.outcome, run.message)
    phase = Phase.QUEUED if queued else run.phase
    state: dict[str, Any] = {"life_cycle_state": phase.value, "state_message": "", "user_cancelled_or_timedout": False}
    status: dict[str, Any] = {"state": _STATUS_WORDS.get(phase, phase.value)}
    if phase is Phase.QUEUED and isinstance(run, Run):
        limit = max_concurrent_runs(run.settings)
        reason = f"Queued due to reaching the maximum of {limit} concurrent runs of the job."
        state["queue_reason"] = reason
        status["queue_details"] = {"code": "MAX_CONCURRENT_RUNS_REACHED", "message": reason}
    return {"state": state, "status": status}


def _ended(ending: Ending, outcome: Outcome, message: str) -> dict[str, Any]:
    state: dict[str, Any] = {
        "life_cycle_state": ending.life_cycle_state,
        "result_state": ending.result_state,
        "state_message": message,
        "user_cancelled_or_timedout": outcome in (Outcome.CANCELED, Outcome.TIMEDOUT),
    }
    details = {"code": ending.code, "type": ending.type, "message": message}
    return {"state": state, "status": {"state": "TERMINATED", "termination_details": details}}
