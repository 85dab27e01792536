"""How many tasks a job may have, and what runs/get shows of many iterations."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.server.task_settings import MOST_TASKS
from tests.local.local_kit import Api, write_notebook

ITERATIONS = 230


def tasks(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"task_key": f"t{number}", "notebook_task": {"notebook_path": "/Shared/main"}}
        for number in range(first, first + count)
    ]


def test_no_call_makes_more_than_a_thousand_tasks(api: Api, http: httpx.Client) -> None:
    assert MOST_TASKS == 1000
    job_id = api.post("create", name="most", tasks=tasks(0, MOST_TASKS))["job_id"]
    more = tasks(0, MOST_TASKS + 1)
    for path, body in (
        ("create", {"name": "more", "tasks": more}),
        ("reset", {"job_id": job_id, "new_settings": {"name": "more", "tasks": more}}),
        ("update", {"job_id": job_id, "new_settings": {"tasks": tasks(MOST_TASKS, 1)}}),
        ("runs/submit", {"run_name": "more", "tasks": more}),
    ):
        answer = http.post(f"/api/2.2/jobs/{path}", json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE"), path
        assert answer.json()["message"] == "tasks may have at most 1000 elements, not 1001"
    assert api.get("get", job_id=job_id)["settings"]["name"] == "most"
    assert api.get("list", name="more") == {"has_more": False}
    api.post("update", job_id=job_id, new_settings={"tasks": tasks(0, 1)})


@pytest.fixture
def loop(deployment: Deployment, api: Api) -> int:
    """The task run id of a loop that has ended, after a job parameter was given to its run."""
    nested = {"task_key": "one", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "one")}}
    each = {"inputs": json.dumps([*range(ITERATIONS)]), "concurrency": 20, "task": nested}
    parameters = [{"name": "p", "default": "v"}]
    job = {"name": "job", "tasks": [{"task_key": "loop", "for_each_task": each}], "parameters": parameters}
    run_id = api.post("run-now", **api.post("create", **job))["run_id"]
    return int(api.ended(run_id)["tasks"][0]["run_id"])


def test_iterations_are_shown_a_hundred_at_a_time(api: Api, loop: int) -> None:
    pages = [api.run(loop)]
    while token := pages[-1].get("next_page_token"):
        pages.append(api.run(loop, page_token=token))
    assert [len(page["iterations"]) for page in pages] == [100, 100, 30]
    shown = [one["run_id"] for page in pages for one in page["iterations"]]
    assert shown == sorted(set(shown))
    # Arrays without more elements are empty on later pages.
    assert [[task["task_key"] for task in page["tasks"]] for page in pages] == [["loop"], [], []]
    assert [len(page["job_parameters"]) for page in pages] == [1, 0, 0]
    assert api.run(shown[0])["tasks"][0]["run_id"] == shown[0]


def test_the_sdk_gathers_all_iterations(ops: Any, loop: int) -> None:
    run = ops.jobs.get_run(loop)
    assert len({one.run_id for one in run.iterations}) == len(run.iterations) == ITERATIONS
    assert [task.task_key for task in run.tasks] == ["loop"]
    assert [(parameter.name, parameter.value) for parameter in run.job_parameters] == [("p", "v")]
