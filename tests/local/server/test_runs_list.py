"""runs/list: order, filters, pages in both directions, and its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.runs.records import get_run, put_run
from databricks_bridge.workspace.client import Workspace
from tests.local.local_kit import Api, Notebooks

MakeJob = Callable[..., int]


@pytest.fixture
def ended_runs(api: Api, make_job: MakeJob) -> tuple[int, list[int]]:
    """A job and its 9 runs, oldest first."""
    job_id = make_job(max_concurrent_runs=1000)
    run_ids = [api.post("run-now", job_id=job_id)["run_id"] for _ in range(9)]
    for run_id in run_ids:
        api.ended(run_id)
    return job_id, run_ids


def ids(answer: dict[str, Any]) -> list[int]:
    return [run["run_id"] for run in answer.get("runs", [])]


def test_pages_lead_through_all_runs_newest_first_and_back(api: Api, ended_runs: tuple[int, list[int]]) -> None:
    job_id, run_ids = ended_runs
    first = api.get("runs/list", job_id=job_id, limit=4)
    second = api.get("runs/list", job_id=job_id, limit=4, page_token=first["next_page_token"])
    third = api.get("runs/list", job_id=job_id, limit=4, page_token=second["next_page_token"])
    assert ids(first) + ids(second) + ids(third) == run_ids[::-1]
    assert [page["has_more"] for page in (first, second, third)] == [True, True, False]
    assert "next_page_token" not in third
    assert "prev_page_token" not in first
    back = api.get("runs/list", job_id=job_id, limit=4, page_token=third["prev_page_token"])
    assert ids(back) == ids(second)
    assert ids(api.get("runs/list", job_id=job_id, limit=4, page_token=back["prev_page_token"])) == ids(first)


def test_a_run_that_starts_between_two_pages_moves_nothing(api: Api, ended_runs: tuple[int, list[int]]) -> None:
    job_id, run_ids = ended_runs
    first = api.get("runs/list", job_id=job_id, limit=5)
    api.post("run-now", job_id=job_id)
    second = api.get("runs/list", job_id=job_id, limit=5, page_token=first["next_page_token"])
    assert ids(first) + ids(second) == run_ids[::-1]


def test_the_sdk_iterates_over_all_of_them(ops: Any, ended_runs: tuple[int, list[int]]) -> None:
    job_id, run_ids = ended_runs
    runs = list(ops.jobs.list_runs(job_id=job_id, expand_tasks=True, limit=4))
    assert [run.run_id for run in runs] == run_ids[::-1]
    assert runs[0].tasks[0].task_key == "main"


def test_both_start_time_bounds_are_inclusive(api: Api, ended_runs: tuple[int, list[int]]) -> None:
    job_id, run_ids = ended_runs
    starts = {run_id: api.run(run_id)["start_time"] for run_id in run_ids}
    low, high = starts[run_ids[3]], starts[run_ids[6]]
    found = ids(api.get("runs/list", job_id=job_id, start_time_from=low, start_time_to=high, limit=24))
    assert found == [run_id for run_id in run_ids[::-1] if low <= starts[run_id] <= high]
    assert {run_ids[3], run_ids[6]} <= set(found)


def test_active_and_completed_runs(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("slow")
    quick, slow = make_job({"quick": {}}), make_job({"slow": {}}, queue={"enabled": True})
    done = api.ended(api.post("run-now", job_id=quick)["run_id"])["run_id"]
    running, queued = (api.post("run-now", job_id=slow)["run_id"] for _ in range(2))
    assert ids(api.get("runs/list", active_only="true")) == [queued, running]
    assert ids(api.get("runs/list", completed_only="true")) == [done]
    assert ids(api.get("runs/list", job_id=slow, completed_only="true")) == []


def test_C10_tokens_lead_through_everything_and_offsets_end_with_an_error(
    deployment: Deployment, ops: Any, api: Api, make_job: MakeJob
) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    store, job_id = deployment.workspaces["ops"].store, make_job(name="one", max_concurrent_runs=0)
    run = get_run(store, api.post("run-now", job_id=job_id)["run_id"])
    assert run is not None
    with store.transaction():
        jobs = {store.add_job("ops", {"name": f"j{n}"}, n).job_id for n in range(1299)} | {job_id}
        runs = {run.run_id} | {put_run(store, replace(run, run_id=run.run_id + n)).run_id for n in range(1, 1200)}
    assert [job.job_id for job in ops.jobs.list(limit=100)] == sorted(jobs, reverse=True)
    assert [found.run_id for found in ops.jobs.list_runs(limit=24)] == sorted(runs, reverse=True)
    assert asyncio.run(_listed(deployment)) == sorted(runs, reverse=True)
    for version in ("2.1", "2.2"):
        path = f"/api/{version}/jobs/list"
        pages = [ops.api_client.do("GET", path, query={"limit": 100, "offset": n}) for n in range(0, 1001, 100)]
        assert (sum(len(page["jobs"]) for page in pages), pages[-1]["has_more"]) == (1100, True)
        with pytest.raises(InvalidParameterValue, match="use page_token beyond"):
            ops.api_client.do("GET", path, query={"limit": 100, "offset": 1100})
    with pytest.raises(InvalidParameterValue, match="use page_token beyond"):
        api.get("runs/list", offset=10_001)


async def _listed(deployment: Deployment) -> list[int]:
    """As this provider's own client lists them."""

    async def headers() -> dict[str, str]:
        return {"Authorization": f"Bearer {deployment.token('ops')}"}

    async with Workspace(deployment.host("ops"), headers) as workspace:
        return [run["run_id"] async for run in workspace.list_runs()]


def test_no_runs_is_no_field(api: Api, make_job: MakeJob) -> None:
    assert api.get("runs/list", job_id=make_job()) == {"has_more": False}


def test_arguments_may_come_as_a_json_body(ops: Any, ended_runs: tuple[int, list[int]]) -> None:
    job_id, run_ids = ended_runs
    answer = ops.api_client.do("GET", "/api/2.2/jobs/runs/list", body={"job_id": job_id, "limit": 1})
    assert ids(answer) == run_ids[:-2:-1]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"limit": 25}, "less than 25"),
        ({"limit": -1}, "greater than 0"),
        ({"limit": "many"}, "whole number"),
        ({"active_only": "true", "completed_only": "true"}, "cannot both be true"),
        ({"page_token": "nonsense"}, "Invalid page token"),
        ({"run_type": "OTHER"}, "use one of JOB_RUN"),
    ],
)
def test_what_is_refused(api: Api, query: dict[str, Any], message: str) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    with pytest.raises(InvalidParameterValue, match=message):
        api.get("runs/list", **query)


def test_limit_0_is_the_maximum(api: Api, make_job: MakeJob) -> None:
    job_id = make_job(max_concurrent_runs=0)
    for _ in range(25):
        api.post("run-now", job_id=job_id)
    answer = api.get("runs/list", limit=0)
    assert len(answer["runs"]) == 24
    assert answer["has_more"] is True
