"""Operations on runs."""

from __future__ import annotations

from databricks_bridge.local.openapi.job_settings import tasks
from databricks_bridge.local.openapi.model import (
    Operation,
    Operations,
    anything,
    fields,
    flag,
    listing,
    one_of,
    ref,
    tagged,
    text,
    texts_by_name,
    under,
    whole,
)
from databricks_bridge.local.server.requests import JOBS_VERSIONS
from databricks_bridge.local.server.runs_read import RUN_TYPES

_TOKEN = text(maxLength=64, description="One run in this workspace for each token.")
_RUN = {"run_id": whole(1)}


def operations() -> Operations:
    """All of them, under each version of the Jobs API."""
    found = {**_starting(), **_reading(), **_changing()}
    return tagged("runs", under(tuple(f"/api/{version}/jobs" for version in JOBS_VERSIONS), found))


def _starting() -> Operations:
    started = fields(run_id=whole(1), number_in_job=whole(1))  # empty for a continuous job
    return {
        ("POST", "run-now"): Operation(
            "Start a run of a job",
            body={
                "job_id": whole(1),
                "job_parameters": texts_by_name(),
                "notebook_params": texts_by_name(),
                "python_params": listing(text()),
                "only": listing(text(), most=3),
                "queue": fields(enabled=flag()),
                "idempotency_token": _TOKEN,
            },
            required=("job_id",),
            answer=started,
            example=lambda known: {"job_id": known.job, "queue": {"enabled": True}},
        ),
        ("POST", "runs/submit"): Operation(
            "Run tasks once, without a job",
            body={
                "run_name": text(maxLength=4096),
                "tasks": {**tasks(), "minItems": 1},
                "timeout_seconds": whole(0, 10**6),
                "idempotency_token": _TOKEN,
            },
            required=("tasks",),
            answer=fields("run_id", run_id=whole(1)),
            example=lambda known: {
                "run_name": "submitted-by-example",
                "tasks": [{"task_key": "main", "notebook_task": {"notebook_path": known.notebook or "/Shared/main"}}],
            },
        ),
    }


def _reading() -> Operations:
    token = text(description="next_page_token or prev_page_token of another answer.")
    return {
        ("GET", "runs/list"): Operation(
            "The runs of the workspace, newest start first",
            query={
                "job_id": whole(1),
                "active_only": flag(),
                "completed_only": flag(),
                "run_type": one_of(*RUN_TYPES),
                "start_time_from": whole(),
                "start_time_to": whole(),
                "expand_tasks": flag(),
                "limit": whole(0, 24),
                "offset": whole(0, 10**6),
                "page_token": token,
            },
            answer=fields(
                "has_more", has_more=flag(), runs=listing(ref("Run")), next_page_token=text(), prev_page_token=text()
            ),
            example=lambda known: {"completed_only": True, "expand_tasks": True, "limit": 5},
        ),
        ("GET", "runs/get"): Operation(
            "One run of a job, or of one of its tasks",
            query={
                **_RUN,
                "include_history": flag(),
                "include_resolved_values": flag(),
                "page_token": token,
            },
            required=("run_id",),
            answer=ref("Run"),
            example=lambda known: {"run_id": known.ended_run, "include_history": True},
        ),
        ("GET", "runs/get-output"): Operation(
            "What a task run gave back, or why it failed",
            query=_RUN,
            required=("run_id",),
            answer=fields("metadata", metadata=ref("Run"), notebook_output=anything(), error=text()),
            example=lambda known: {"run_id": known.task_run},
        ),
        ("GET", "runs/export"): Operation(
            "The notebook that ran, with what it printed",
            query={**_RUN, "views_to_export": one_of("CODE", "DASHBOARDS", "ALL")},
            required=("run_id",),
            answer=fields(views=listing(fields("content", "name", "type", content=text(), name=text(), type=text()))),
            example=lambda known: {"run_id": known.task_run, "views_to_export": "CODE"},
        ),
    }


def _changing() -> Operations:
    return {
        ("POST", "runs/cancel"): Operation(
            "Ask a run to stop",
            body=_RUN,
            required=("run_id",),
            answer=anything(),
            example=lambda known: {"run_id": known.ended_run},
        ),
        ("POST", "runs/cancel-all"): Operation(
            "Ask all runs of a job to stop, or all that are queued",
            body={"job_id": whole(1), "all_queued_runs": flag()},
            answer=anything(),
            example=lambda known: {"job_id": known.job},
        ),
        ("POST", "runs/repair"): Operation(
            "Run some tasks of an ended run again",
            body={
                **_RUN,
                "rerun_tasks": listing(text()),
                "rerun_all_failed_tasks": flag(),
                "rerun_dependent_tasks": flag(),
                "latest_repair_id": whole(1),
                "job_parameters": texts_by_name(),
            },
            required=("run_id",),
            answer=fields("repair_id", repair_id=whole(1)),
            example=lambda known: {"run_id": known.failed_run, "rerun_all_failed_tasks": True},
        ),
        ("POST", "runs/delete"): Operation(
            "Forget a run that has ended",
            body=_RUN,
            required=("run_id",),
            answer=anything(),
            example=lambda known: {"run_id": known.ended_run},
        ),
    }
