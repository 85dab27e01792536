"""What the Jobs API answers, here and on Databricks."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.contract.conftest import Contract, unique

JOBS = "/api/2.2/jobs"
NOBODY = 999_999_999_999_999


def refused(call: Any, kind: str) -> Any:
    from databricks.sdk import errors

    with pytest.raises(getattr(errors, kind)) as caught:
        call()
    return caught.value


def start(workspace: Contract, job_id: int, **more: Any) -> int:
    return int(workspace.call("POST", f"{JOBS}/run-now", job_id=job_id, **more)["run_id"])


def test_a_job_is_made_read_listed_changed_and_deleted(workspace: Contract) -> None:
    sdk, name = workspace.client, unique()
    job_id = workspace.job(name=name, tags={"made": "contract"})
    found = sdk.jobs.get(job_id)
    assert (found.job_id, found.settings.name, found.settings.tags) == (job_id, name, {"made": "contract"})
    assert found.settings.tasks[0].task_key == "compare"
    assert found.settings.tasks[0].condition_task.op.value == "EQUAL_TO"
    assert found.creator_user_name == sdk.current_user.me().user_name
    assert [job.job_id for job in sdk.jobs.list(name=name)] == [job_id]
    workspace.call("POST", f"{JOBS}/update", job_id=job_id, new_settings={"max_concurrent_runs": 3})
    assert (sdk.jobs.get(job_id).settings.max_concurrent_runs, sdk.jobs.get(job_id).settings.name) == (3, name)
    sdk.jobs.delete(job_id)
    assert list(sdk.jobs.list(name=name)) == []
    assert str(refused(lambda: sdk.jobs.get(job_id), "ResourceDoesNotExist")) == f"Job {job_id} does not exist."


def test_a_job_and_a_run_that_are_not_there(workspace: Contract) -> None:
    sdk = workspace.client
    for call in (lambda: sdk.jobs.get(NOBODY), lambda: sdk.jobs.run_now(NOBODY), lambda: sdk.jobs.delete(NOBODY)):
        assert "does not exist" in str(refused(call, "DatabricksError"))
    for call in (lambda: sdk.jobs.get_run(NOBODY), lambda: sdk.jobs.cancel_run(NOBODY)):
        assert "does not exist" in str(refused(call, "DatabricksError"))


def test_a_run_and_its_words(workspace: Contract) -> None:
    job_id = workspace.job(parameters=[{"name": "day", "default": "1"}, {"name": "kept", "default": "x"}])
    run = workspace.ended(start(workspace, job_id, job_parameters={"day": "2"}))
    assert (run["job_id"], run["run_type"], run["trigger"]) == (job_id, "JOB_RUN", "ONE_TIME")
    assert (run["state"]["life_cycle_state"], run["state"]["result_state"]) == ("TERMINATED", "SUCCESS")
    assert (run["status"]["termination_details"]["code"], run["status"]["termination_details"]["type"]) == (
        "SUCCESS",
        "SUCCESS",
    )
    assert 0 < run["start_time"] <= run["end_time"]
    values = {one["name"]: (one["default"], one["value"]) for one in run["job_parameters"]}
    assert values == {"day": ("1", "2"), "kept": ("x", "x")}
    (task,) = run["tasks"]
    assert (task["task_key"], task["state"]["result_state"], task["attempt_number"]) == ("compare", "SUCCESS", 0)
    assert task["condition_task"]["outcome"] == "true"
    assert task["run_id"] != run["run_id"]


def test_one_token_is_one_run(workspace: Contract) -> None:
    job_id, token = workspace.job(), unique()
    first = start(workspace, job_id, idempotency_token=token)
    assert start(workspace, job_id, idempotency_token=token) == first
    workspace.ended(first)
    assert start(workspace, job_id, idempotency_token=token) == first
    assert start(workspace, job_id, idempotency_token=unique()) != first
    refused(lambda: start(workspace, job_id, idempotency_token="x" * 65), "BadRequest")


def test_a_job_without_slots_skips_its_runs(workspace: Contract) -> None:
    run = workspace.ended(start(workspace, workspace.job(max_concurrent_runs=0)))
    assert run["state"]["life_cycle_state"] == "SKIPPED"
    assert run["status"]["termination_details"]["code"] == "MAX_CONCURRENT_RUNS_EXCEEDED"


def test_a_cancel_of_what_has_ended_changes_nothing(workspace: Contract) -> None:
    run_id = start(workspace, workspace.job())
    before = workspace.ended(run_id)
    workspace.call("POST", f"{JOBS}/runs/cancel", run_id=run_id)
    assert workspace.run(run_id)["state"] == before["state"]


def test_runs_are_listed_newest_first_in_pages(workspace: Contract) -> None:
    job_id = workspace.job()
    made = []
    for _ in range(3):
        made.append(start(workspace, job_id))
        workspace.ended(made[-1])
    found, pages, token = [], 0, ""
    while True:
        more = {"page_token": token} if token else {}
        page = workspace.call("GET", f"{JOBS}/runs/list", job_id=job_id, limit=2, **more)
        found += [run["run_id"] for run in page.get("runs", ())]
        pages += 1
        token = page.get("next_page_token", "")
        if not token:
            break
        assert page["has_more"] is True
    assert (found, pages) == (made[::-1], 2)
    assert [run.run_id for run in workspace.client.jobs.list_runs(job_id=job_id, completed_only=True)] == made[::-1]
    assert list(workspace.client.jobs.list_runs(job_id=job_id, active_only=True)) == []
    middle = workspace.run(made[1])["start_time"]
    since = workspace.client.jobs.list_runs(job_id=job_id, start_time_from=middle)
    assert [run.run_id for run in since] == made[:0:-1]


def test_a_page_token_that_nobody_gave(workspace: Contract) -> None:
    for path in ("list", "runs/list"):
        refused(functools.partial(workspace.call, "GET", f"{JOBS}/{path}", page_token="nobody-gave-this"), "BadRequest")
