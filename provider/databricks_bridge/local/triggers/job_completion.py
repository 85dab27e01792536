"""When a job completion trigger fires: every upstream job has a new completion of the wanted kind.

The last completion of each job counts; there is no matching by date or batch (job completion triggers, Beta).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from databricks_bridge.local.triggers.outcome import Fire, Held, Outcome, State
from databricks_bridge.local.triggers.settings import JobCompletion

SUCCESSES = frozenset({"SUCCESS", "SUCCESS_WITH_FAILURES"})


@dataclass(frozen=True)
class Completion:
    """A run of an upstream job that has ended. `code` is its termination code, `end_time` epoch milliseconds."""

    workspace_id: str
    job_id: str
    run_id: int
    code: str
    end_time: int


def decide_job_completion(settings: JobCompletion, ended: Sequence[Completion], state: State | None) -> Outcome:
    """Decide from the completions since the last evaluation, oldest first."""
    seen: dict[str, dict[str, Any]] = {} if state is None else dict(state["jobs"])
    for completion in ended:
        key = f"{completion.workspace_id}/{completion.job_id}"
        if (completion.workspace_id, completion.job_id) not in settings.jobs:
            continue
        if _matches(settings.if_status, completion.code):
            seen[key] = {
                "run_id": completion.run_id,
                "code": completion.code,
                "end_time": completion.end_time,
                "new": True,
            }
        else:
            seen[key] = {**seen.get(key, {"new": False}), "non_matching": completion.code}
    waiting = [f"{w}/{j}" for w, j in settings.jobs if not seen.get(f"{w}/{j}", {}).get("new")]
    if waiting:
        return Held("no new completion of job " + ", ".join(waiting), {"jobs": seen})
    completed = [_completed(workspace, job, seen[f"{workspace}/{job}"]) for workspace, job in settings.jobs]
    at_rest = {key: {**job, "new": False} for key, job in seen.items()}
    return Fire(
        "JOB_COMPLETION",
        "every upstream job has completed",
        {"jobs": at_rest},
        context={"type": "job_completion"},
        info={"job_completion": {"completed_jobs": completed}},
    )


def api_state(settings: JobCompletion, state: State | None) -> dict[str, Any]:
    """`trigger_state` as jobs/get shows it."""
    seen = {} if state is None else state["jobs"]
    return {
        "job_completion": {
            "monitored_job_states": [_monitored(w, j, seen.get(f"{w}/{j}", {})) for w, j in settings.jobs]
        }
    }


def _matches(if_status: str, code: str) -> bool:
    return if_status == "DONE" or (code in SUCCESSES) == (if_status == "SUCCESS")


def _completed(workspace: str, job: str, seen: dict[str, Any]) -> dict[str, Any]:
    return {
        "workspace_id": workspace,
        "job_id": job,
        "run_id": str(seen["run_id"]),
        "termination_code": seen["code"],
        "completion_time": _timestamp(seen["end_time"]),
    }


def _monitored(workspace: str, job: str, seen: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {
        "workspace_id": workspace,
        "job_id": job,
        "has_seen_completion": bool(seen.get("new")),
    }
    if "run_id" in seen:
        state["last_seen_run_id"] = str(seen["run_id"])
        state["last_seen_result"] = seen["code"]
        state["last_seen_completion_time"] = _timestamp(seen["end_time"])
    if "non_matching" in seen:
        state["latest_non_matching_result"] = seen["non_matching"]
    return state


def _timestamp(ms: int) -> str:
    """The API's `Timestamp`: RFC 3339 text, where other times are milliseconds."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
