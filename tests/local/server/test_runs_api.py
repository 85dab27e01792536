"""Runs over HTTP: run-now, submit, what a success and a failure look like, parameters, output, tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.engine.model import NotebookResult
from tests.local.local_kit import Api, Notebooks, client, failure, write_notebook

MakeJob = Callable[..., int]


def test_the_sdk_runs_a_job_and_reads_its_output(ops: Any, notebooks: Notebooks, make_job: MakeJob) -> None:
    from databricks.sdk.service import jobs

    notebooks.functions["main"] = lambda request: NotebookResult(True, '{"rows": 3}', None, None)
    run = ops.jobs.run_now(make_job()).result()
    assert run.state.life_cycle_state is jobs.RunLifeCycleState.TERMINATED
    assert run.state.result_state is jobs.RunResultState.SUCCESS
    assert run.status.termination_details.code is jobs.TerminationCodeCode.SUCCESS
    assert run.trigger is jobs.TriggerType.ONE_TIME
    assert run.run_type is jobs.RunType.JOB_RUN
    assert run.start_time <= run.end_time
    assert run.tasks[0].run_id != run.run_id
    assert ops.jobs.get_run_output(run.tasks[0].run_id).notebook_output.result == '{"rows": 3}'
    assert ops.jobs.get_run_output(run.run_id).notebook_output.result == '{"rows": 3}'


def test_a_failed_notebook_has_the_shape_of_the_cloud(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.functions["main"] = lambda request: failure("BridgeReaderBehind: version 3 of 5")
    run = api.ended(api.post("run-now", job_id=make_job())["run_id"])
    message = "Task main failed with message: Workload failed, see run output for details."
    assert run["state"] == {
        "life_cycle_state": "INTERNAL_ERROR",
        "result_state": "FAILED",
        "state_message": message,
        "user_cancelled_or_timedout": False,
    }
    assert run["status"] == {
        "state": "TERMINATED",
        "termination_details": {"code": "RUN_EXECUTION_ERROR", "type": "CLIENT_ERROR", "message": message},
    }
    task = run["tasks"][0]
    assert (task["state"]["life_cycle_state"], task["state"]["result_state"]) == ("TERMINATED", "FAILED")
    output = api.get("runs/get-output", run_id=task["run_id"])
    assert output["error"] == "BridgeReaderBehind: version 3 of 5"
    assert output["error_trace"].startswith("Traceback")
    assert output["metadata"]["job_run_id"] == run["run_id"]


def test_parameters_reach_the_notebook_resolved(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    base = {"day": "from the task", "who": "{{job.name}}/{{task.name}}", "run": "{{job.run_id}}", "odd": "{{a.b}}"}
    job_id = make_job(
        parameters=[{"name": "day", "default": "2013-01-01"}, {"name": "me", "default": "{{job.id}}"}],
        tasks={"main": {"notebook_task": {"notebook_path": "/Shared/main", "base_parameters": base}}},
    )
    run_id = api.post("run-now", job_id=job_id, job_parameters={"day": "2013-02-02", "new": "x"})["run_id"]
    run = api.ended(run_id, include_resolved_values="true")
    assert notebooks.seen[0].parameters == {
        "day": "2013-02-02",
        "me": str(job_id),
        "new": "x",
        "who": "job/main",
        "run": str(run_id),
        "odd": "{{a.b}}",
    }
    assert run["job_parameters"] == [
        {"name": "day", "default": "2013-01-01", "value": "2013-02-02"},
        {"name": "me", "default": "{{job.id}}", "value": str(job_id)},
        {"name": "new", "value": "x"},
    ]
    resolved = run["tasks"][0]["resolved_values"]["notebook_task"]["base_parameters"]
    assert resolved["who"] == "job/main"
    assert "resolved_values" not in api.run(run_id)["tasks"][0]


def test_notebook_params_go_over_base_parameters(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    base = {"a": "1", "b": "2"}
    job_id = make_job({"main": {"notebook_task": {"notebook_path": "/Shared/main", "base_parameters": base}}})
    run = api.ended(api.post("run-now", job_id=job_id, notebook_params={"b": "3"})["run_id"])
    assert notebooks.seen[0].parameters == {"a": "1", "b": "3"}
    assert run["overriding_parameters"] == {"notebook_params": {"b": "3"}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"notebook_params": {"a": "1"}}, "give job_parameters, not notebook_params"),
        ({"jar_params": ["a"]}, "jar_params cannot be given"),
        ({"job_parameters": {"a": 1}}, "job_parameters.a must be text, not a number"),
        ({"job_parameters": {"a": "{{job.nothing}}"}}, "job.nothing"),
        ({"idempotency_token": "t" * 65}, "at most 64 characters, not 65"),
        ({"only": ["nowhere"]}, "has no task nowhere"),
        ({"python_params": ["a"]}, "the job has no spark_python_task"),
    ],
)
def test_run_now_refuses_what_it_would_not_do(api: Api, make_job: MakeJob, given: dict[str, Any], message: str) -> None:
    from databricks.sdk.errors import BadRequest

    job_id = make_job(parameters=[{"name": "a", "default": ""}])
    with pytest.raises(BadRequest, match=message):
        api.post("run-now", job_id=job_id, **given)
    assert "runs" not in api.get("runs/list")


def test_tasks_run_in_order_and_an_upstream_failure_is_named(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.functions["second"] = lambda request: failure("ValueError: no")
    job_id = make_job(
        {
            "third": {"depends_on": [{"task_key": "second"}]},
            "second": {"depends_on": [{"task_key": "first"}]},
            "first": {},
            "always": {"depends_on": [{"task_key": "second"}], "run_if": "ALL_DONE"},
        }
    )
    run = api.ended(api.post("run-now", job_id=job_id)["run_id"])
    results = {task["task_key"]: task["state"]["result_state"] for task in run["tasks"]}
    assert results == {"first": "SUCCESS", "second": "FAILED", "third": "UPSTREAM_FAILED", "always": "SUCCESS"}
    assert [request.task_key for request in notebooks.seen] == ["first", "second", "always"]
    assert run["state"]["state_message"].startswith("Task second failed with message: ")


def test_a_task_is_retried_as_a_new_attempt(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    fails = iter([True, False])
    notebooks.functions["main"] = lambda request: (
        failure("ValueError: once") if next(fails) else NotebookResult(True, "second", None, None)
    )
    run = api.ended(api.post("run-now", job_id=make_job({"main": {"max_retries": 2}}))["run_id"])
    assert run["state"]["result_state"] == "SUCCESS"
    assert [(task["attempt_number"], task["state"]["result_state"]) for task in run["tasks"]] == [
        (0, "FAILED"),
        (1, "SUCCESS"),
    ]
    assert api.get("runs/get-output", run_id=run["run_id"])["notebook_output"]["result"] == "second"
    first, second = (task["run_id"] for task in run["tasks"])
    assert [api.run(task_run)["original_attempt_run_id"] for task_run in (first, second)] == [first, first]
    assert [api.run(one)["trigger"] for one in (run["run_id"], first, second)] == ["ONE_TIME", "ONE_TIME", "RETRY"]


def test_a_task_that_takes_too_long_is_killed(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    run = api.ended(api.post("run-now", job_id=make_job({"main": {"timeout_seconds": 1}}))["run_id"])
    assert run["tasks"][0]["state"]["result_state"] == "TIMEDOUT"
    assert run["state"]["result_state"] == "FAILED"
    assert len(notebooks.killed) == 1


def test_a_run_that_takes_too_long_is_timed_out(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    run = api.ended(api.post("run-now", job_id=make_job(timeout_seconds=1))["run_id"])
    assert run["state"]["result_state"] == "TIMEDOUT"
    assert run["state"]["user_cancelled_or_timedout"] is True
    assert len(notebooks.killed) == 1


def test_an_engine_that_breaks_is_the_workspace_s_fault(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    def broken(request: object) -> NotebookResult:
        raise OSError("the JVM is gone")

    notebooks.functions["main"] = broken
    run = api.ended(api.post("run-now", job_id=make_job())["run_id"])
    assert run["status"]["termination_details"]["type"] == "INTERNAL_ERROR"
    assert "OSError: the JVM is gone" in run["state"]["state_message"]


def test_a_token_stands_for_one_run_in_its_workspace(deployment: Deployment, ops: Any, make_job: MakeJob) -> None:
    job_id, token = make_job(), "t" * 64
    first = ops.jobs.run_now(job_id, idempotency_token=token).run_id
    assert ops.jobs.run_now(job_id, idempotency_token=token).run_id == first
    assert ops.jobs.run_now(job_id, idempotency_token="other").run_id != first
    assert len(list(ops.jobs.list_runs(job_id=job_id))) == 2
    met = client(deployment, "met")
    write_notebook(deployment, "met", "main")
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/main"}}
    there = Api(met).post("create", name="there", tasks=[task])["job_id"]
    assert met.jobs.run_now(there, idempotency_token=token).run_id != first


def test_racers_with_one_token_get_one_run(ops: Any, api: Api, make_job: MakeJob) -> None:
    job_id = make_job(max_concurrent_runs=9)
    with ThreadPoolExecutor(8) as racers:
        found = set(racers.map(lambda _: ops.jobs.run_now(job_id, idempotency_token="race").run_id, range(16)))
    assert [run["run_id"] for run in api.get("runs/list", job_id=job_id)["runs"]] == list(found)


def test_a_notebook_that_the_engine_drops_is_not_a_cancelled_run(
    api: Api, notebooks: Notebooks, make_job: MakeJob
) -> None:
    def dropped(request: object) -> NotebookResult:
        raise asyncio.CancelledError

    notebooks.functions["main"] = dropped
    run = api.ended(api.post("run-now", job_id=make_job())["run_id"])
    assert run["state"]["result_state"] == "FAILED"
    assert run["status"]["termination_details"]["code"] == "INTERNAL_ERROR"


def test_a_token_stands_for_a_failed_run_and_is_an_error_once_that_is_deleted(
    api: Api, notebooks: Notebooks, make_job: MakeJob
) -> None:
    from databricks.sdk.errors import InvalidParameterValue, ResourceDoesNotExist

    notebooks.functions["main"] = lambda request: failure("ValueError: no")
    job_id = make_job()
    run_id = api.post("run-now", job_id=job_id, idempotency_token="once")["run_id"]
    api.ended(run_id)
    assert api.post("run-now", job_id=job_id, idempotency_token="once")["run_id"] == run_id
    api.post("runs/delete", run_id=run_id)
    with pytest.raises(ResourceDoesNotExist, match=f"Run {run_id} does not exist"):
        api.run(run_id)
    with pytest.raises(InvalidParameterValue, match="was deleted"):
        api.post("run-now", job_id=job_id, idempotency_token="once")


def test_an_active_run_cannot_be_deleted(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    from databricks.sdk.errors import BadRequest

    notebooks.block("main")
    run_id = api.running(api.post("run-now", job_id=make_job())["run_id"])["run_id"]
    with pytest.raises(BadRequest, match="is active"):
        api.post("runs/delete", run_id=run_id)


def test_a_run_is_submitted_without_a_job(deployment: Deployment, ops: Any, api: Api) -> None:
    from databricks.sdk.service import jobs

    path = write_notebook(deployment, "ops", "once")
    task = jobs.SubmitTask(task_key="once", notebook_task=jobs.NotebookTask(notebook_path=path))
    run = ops.jobs.submit(run_name="by hand", tasks=[task], idempotency_token="s").result()
    assert (run.run_type, run.run_name) == (jobs.RunType.SUBMIT_RUN, "by hand")
    assert ops.jobs.submit(run_name="by hand", tasks=[task], idempotency_token="s").run_id == run.run_id
    assert [item["run_id"] for item in api.get("runs/list", run_type="SUBMIT_RUN")["runs"]] == [run.run_id]


def test_a_task_run_can_be_read_as_a_run(api: Api, make_job: MakeJob) -> None:
    run = api.ended(api.post("run-now", job_id=make_job())["run_id"])
    task_run = api.run(run["tasks"][0]["run_id"])
    assert task_run["job_run_id"] == run["run_id"]
    assert task_run["tasks"][0]["task_key"] == "main"


def test_the_output_of_several_tasks_is_asked_for_task_by_task(api: Api, make_job: MakeJob) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    run = api.ended(api.post("run-now", job_id=make_job({"a": {}, "b": {}}))["run_id"])
    with pytest.raises(InvalidParameterValue, match="multiple tasks"):
        api.get("runs/get-output", run_id=run["run_id"])
