"""Operations on jobs."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.openapi.job_settings import settings
from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import (
    Operation,
    Operations,
    anything,
    fields,
    flag,
    listing,
    ref,
    tagged,
    text,
    under,
    whole,
)
from databricks_bridge.local.server.requests import JOBS_VERSIONS

_PAGE_TOKEN = text(description="next_page_token or prev_page_token of another answer.")


def _notebook_job(known: Known, name: str) -> dict[str, Any]:
    task = {"task_key": "main", "notebook_task": {"notebook_path": known.notebook or "/Shared/main"}}
    return {"name": name, "tasks": [task], "parameters": [{"name": "date", "default": "2026-11-29"}]}


def operations() -> Operations:
    """All of them, under each version of the Jobs API."""
    changed = fields(**settings())
    of_job = {"job_id": whole(1)}
    found: Operations = {
        ("POST", "create"): Operation(
            "Make a job",
            body=settings(),
            answer=fields("job_id", job_id=whole(1)),
            example=lambda known: _notebook_job(known, "made-by-example"),
        ),
        ("GET", "get"): Operation(
            "One job, its long lists a hundred elements at a time",
            query={
                **of_job,
                "page_token": _PAGE_TOKEN,
                "include_trigger_state": flag(),
                "include_trigger_history": flag(),
            },
            required=("job_id",),
            answer=ref("Job"),
            example=lambda known: {"job_id": known.job, "include_trigger_state": True},
        ),
        ("GET", "list"): Operation(
            "The jobs of the workspace, newest first",
            query={
                "limit": whole(1, 100),
                "offset": whole(0, 10**6),
                "page_token": _PAGE_TOKEN,
                "name": text(),
                "expand_tasks": flag(),
            },
            answer=fields("has_more", has_more=flag(), jobs=listing(ref("Job")), next_page_token=text()),
            example=lambda known: {"limit": 5, "expand_tasks": True},
        ),
        ("POST", "update"): Operation(
            "Change a job: top-level fields are replaced, tasks merged by their key",
            body={**of_job, "new_settings": changed, "fields_to_remove": listing(text())},
            required=("job_id",),
            answer=anything(),
            example=lambda known: {"job_id": known.job, "new_settings": {"max_concurrent_runs": 2}},
        ),
        ("POST", "reset"): Operation(
            "Set all of a job's settings anew",
            body={**of_job, "new_settings": changed},
            required=("job_id",),
            answer=anything(),
            example=lambda known: {"job_id": known.job, "new_settings": _notebook_job(known, "reset-by-example")},
        ),
        ("POST", "delete"): Operation(
            "Delete a job; its runs stay",
            body=of_job,
            required=("job_id",),
            answer=anything(),
            example=lambda known: {"job_id": known.job},
        ),
    }
    return tagged("jobs", under(tuple(f"/api/{version}/jobs" for version in JOBS_VERSIONS), found))
