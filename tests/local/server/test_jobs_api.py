"""Jobs over HTTP with the official SDK: create, get, list, update, reset, delete, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import Api, client, write_notebook


def notebook_task(key: str = "main", **extra: Any) -> dict[str, Any]:
    return {"task_key": key, "notebook_task": {"notebook_path": f"/Shared/{key}"}, **extra}


def test_a_created_job_is_shown_with_its_defaults(ops: Any) -> None:
    from databricks.sdk.service import jobs

    created = ops.jobs.create(
        name="bronze-flights",
        tasks=[jobs.Task(task_key="load", notebook_task=jobs.NotebookTask(notebook_path="/Shared/bronze"))],
        trigger=jobs.TriggerSettings(
            file_arrival=jobs.FileArrivalTriggerConfiguration(
                url="/Volumes/main/landing/flights/", min_time_between_triggers_seconds=60
            )
        ),
        queue=jobs.QueueSettings(enabled=True),
    )
    job = ops.jobs.get(created.job_id)
    assert job.settings.name == "bronze-flights"
    assert job.settings.max_concurrent_runs == 1
    assert job.settings.format is jobs.Format.MULTI_TASK
    assert job.settings.trigger.pause_status is jobs.PauseStatus.UNPAUSED
    assert job.settings.trigger.file_arrival.url == "/Volumes/main/landing/flights/"
    assert job.settings.tasks[0].run_if is jobs.RunIf.ALL_SUCCESS
    assert job.settings.queue.enabled is True
    assert created.job_id > 100_000_000_000


def test_job_ids_differ_between_workspaces_and_are_not_seen_across_them(deployment: Deployment, ops: Any) -> None:
    from databricks.sdk.errors import ResourceDoesNotExist

    met = client(deployment, "met")
    here, there = ops.jobs.create(name="one").job_id, met.jobs.create(name="one").job_id
    assert here != there
    with pytest.raises(ResourceDoesNotExist, match=f"Job {there} does not exist"):
        ops.jobs.get(there)


def test_every_api_version_answers_alike(ops: Any, make_job: Callable[..., int]) -> None:
    job_id = make_job()
    answers = [
        ops.api_client.do("GET", f"/api/{version}/jobs/get", query={"job_id": job_id})
        for version in ("2.0", "2.1", "2.2")
    ]
    assert answers[0] == answers[1] == answers[2]


def test_sixty_jobs_are_listed_newest_first_over_pages(ops: Any, api: Api) -> None:
    made = [ops.jobs.create(name=f"job-{number}").job_id for number in range(60)]
    assert [job.job_id for job in ops.jobs.list(limit=25)] == made[::-1]
    first = api.get("list", limit=25)
    second = api.get("list", limit=25, page_token=first["next_page_token"])
    back = api.get("list", limit=25, page_token=second["prev_page_token"])
    assert first["has_more"] is True
    assert back["jobs"] == first["jobs"]
    assert "prev_page_token" not in first


def test_a_name_is_found_whatever_its_case_and_nothing_else_is(ops: Any, make_job: Callable[..., int]) -> None:
    wanted = make_job(name="Delays-By-Weather")
    make_job(name="delays-by-weather-2")
    assert [job.job_id for job in ops.jobs.list(name="delays-by-weather")] == [wanted]
    assert list(ops.jobs.list(name="nothing")) == []


def test_tasks_are_listed_only_when_asked_for(api: Api, make_job: Callable[..., int]) -> None:
    make_job(parameters=[{"name": "day", "default": ""}])
    assert not {"tasks", "parameters"} & api.get("list")["jobs"][0]["settings"].keys()
    assert len(api.get("list", expand_tasks="true")["jobs"][0]["settings"]["tasks"]) == 1


def test_more_than_a_hundred_tasks_come_in_pages(ops: Any, api: Api) -> None:
    from databricks.sdk.service import jobs

    tasks = [
        jobs.Task(task_key=f"t{number}", notebook_task=jobs.NotebookTask(notebook_path="/Shared/x"))
        for number in range(130)
    ]
    job_id = ops.jobs.create(name="wide", tasks=tasks).job_id
    assert [task.task_key for task in ops.jobs.get(job_id).settings.tasks] == [f"t{number}" for number in range(130)]
    assert len(api.get("get", job_id=job_id)["settings"]["tasks"]) == 100
    assert api.get("list", expand_tasks="true")["jobs"][0]["has_more"] is True


def test_update_replaces_fields_merges_tasks_and_removes_fields(api: Api) -> None:
    trigger = {"table_update": {"table_names": ["main.bronze.flights"]}}
    job_id = api.post("create", name="j", tasks=[notebook_task("a"), notebook_task("b")], trigger=trigger)["job_id"]
    changes = {"name": "renamed", "tasks": [notebook_task("b", max_retries=2), notebook_task("c")]}
    api.post("update", job_id=job_id, new_settings=changes, fields_to_remove=["trigger", "tasks/a"])
    settings = api.get("get", job_id=job_id)["settings"]
    assert settings["name"] == "renamed"
    assert "trigger" not in settings
    assert [(task["task_key"], task.get("max_retries")) for task in settings["tasks"]] == [("b", 2), ("c", None)]


def test_reset_replaces_everything(api: Api) -> None:
    job_id = api.post("create", name="j", tasks=[notebook_task()], tags={"team": "ops"})["job_id"]
    api.post("reset", job_id=job_id, new_settings={"name": "k"})
    settings = api.get("get", job_id=job_id)["settings"]
    assert settings["name"] == "k"
    assert settings.get("tasks", []) == []
    assert "tags" not in settings


def test_a_deleted_job_does_not_exist(ops: Any, make_job: Callable[..., int]) -> None:
    from databricks.sdk.errors import InvalidParameterValue, ResourceDoesNotExist

    job_id = make_job()
    ops.jobs.delete(job_id)
    with pytest.raises(ResourceDoesNotExist):
        ops.jobs.get(job_id)
    with pytest.raises(InvalidParameterValue, match=f"Job {job_id} does not exist"):
        ops.api_client.do("POST", "/api/2.2/jobs/run-now", body={"job_id": job_id})


def test_the_old_name_of_table_update_is_taken_and_not_shown(api: Api) -> None:
    job_id = api.post("create", name="j", trigger={"table": {"table_names": ["main.bronze.flights"]}})["job_id"]
    trigger = api.get("get", job_id=job_id)["settings"]["trigger"]
    assert trigger == {
        "pause_status": "UNPAUSED",
        "table_update": {"table_names": ["main.bronze.flights"]},
    }


def test_trigger_state_is_shown_only_when_asked_for(api: Api) -> None:
    job_id = api.post("create", name="j", trigger={"table_update": {"table_names": ["main.bronze.flights"]}})["job_id"]
    assert "trigger_state" not in api.get("get", job_id=job_id)
    shown = api.get("get", job_id=job_id, include_trigger_state="true")
    assert shown["trigger_state"]["pause_status"] == "UNPAUSED"


def test_unknown_fields_are_ignored_as_databricks_ignores_them(api: Api) -> None:
    job_id = api.post("create", name="j", something_new={"a": 1}, queue={"enabled": True, "newer": 1})["job_id"]
    settings = api.get("get", job_id=job_id)["settings"]
    assert "something_new" not in settings
    assert settings["queue"] == {"enabled": True}


def test_settings_that_cannot_work_are_refused_and_nothing_is_made(ops: Any, api: Api) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    trigger = {"table_update": {"table_names": ["a.b.c"], "min_time_between_triggers_seconds": 59}}
    with pytest.raises(InvalidParameterValue, match="must be at least 60; it is 59"):
        api.post("create", name="j", trigger=trigger)
    assert "jobs" not in api.get("list")


def test_a_notebook_may_be_written_after_its_job(deployment: Deployment, api: Api) -> None:
    job_id = api.post("create", name="j", tasks=[notebook_task()])["job_id"]
    lost = api.ended(api.post("run-now", job_id=job_id)["run_id"])
    assert lost["state"]["result_state"] == "FAILED"
    assert "Unable to access the notebook '/Shared/main'" in lost["state"]["state_message"]
    assert lost["tasks"][0]["status"]["termination_details"]["code"] == "RESOURCE_NOT_FOUND"
    write_notebook(deployment, "ops", "main")
    assert api.ended(api.post("run-now", job_id=job_id)["run_id"])["state"]["result_state"] == "SUCCESS"
