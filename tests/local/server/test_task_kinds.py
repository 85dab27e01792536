"""Tasks other than notebooks, over HTTP: conditions, loops, runs of other jobs, Python files; values between tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from tests.local.local_kit import OK, Api, Notebooks, eventually, failure, write_notebook

MakeJob = Callable[..., int]


@pytest.fixture
def notebook(deployment: Deployment) -> Callable[..., dict[str, Any]]:
    """A notebook task of this name, as the body of a task."""

    def body(name: str, **base: str) -> dict[str, Any]:
        return {"notebook_path": write_notebook(deployment, "ops", name), "base_parameters": base}

    return body


@pytest.fixture
def create(api: Api) -> Callable[..., int]:
    return lambda *tasks, **settings: int(api.post("create", **{"name": "j", "tasks": tasks, **settings})["job_id"])


def results(run: dict[str, Any]) -> dict[str, str]:
    return {task["task_key"]: task["state"].get("result_state", "") for task in run["tasks"]}


def start(api: Api, job_id: int, **more: Any) -> int:
    return int(api.post("run-now", job_id=job_id, **more)["run_id"])


def says(value: Any) -> Callable[[NotebookRun], NotebookResult]:
    return lambda request: replace(OK, task_values={"n": value})


@pytest.mark.parametrize(("value", "taken", "left"), [(5, "big", "small"), (2, "small", "big")])
def test_a_condition_on_a_task_value_takes_one_branch(
    api: Api, notebooks: Notebooks, create: Any, notebook: Any, value: int, taken: str, left: str
) -> None:
    notebooks.functions["count"] = says(value)
    condition = {"op": "GREATER_THAN", "left": "{{tasks.count.values.n}}", "right": "3"}
    job_id = create(
        {"task_key": "count", "notebook_task": notebook("count")},
        {"task_key": "check", "condition_task": condition, "depends_on": [{"task_key": "count"}]},
        {
            "task_key": "big",
            "notebook_task": notebook("big", n="{{tasks.count.values.n}}"),
            "depends_on": [{"task_key": "check", "outcome": "true"}],
        },
        {
            "task_key": "small",
            "notebook_task": notebook("small", n="{{tasks.count.values.n}}"),
            "depends_on": [{"task_key": "check", "outcome": "false"}],
        },
        {
            "task_key": "both",
            "notebook_task": notebook("both"),
            "depends_on": [{"task_key": "big"}, {"task_key": "small"}],
            "run_if": "NONE_FAILED",
        },
    )
    run = api.ended(start(api, job_id), include_resolved_values="true")
    assert results(run) == {
        "count": "SUCCESS",
        "check": "SUCCESS",
        taken: "SUCCESS",
        left: "EXCLUDED",
        "both": "SUCCESS",
    }
    assert run["state"]["result_state"] == "SUCCESS"
    check = next(task for task in run["tasks"] if task["task_key"] == "check")
    assert check["condition_task"]["outcome"] == ("true" if taken == "big" else "false")
    assert check["resolved_values"] == {"condition_task": {"left": str(value), "right": "3"}}
    assert notebooks.runs_of(taken)[0].parameters == {"n": str(value)}
    assert notebooks.runs_of("both")[0].task_values == {"count": {"n": value}}


@pytest.mark.parametrize(
    ("op", "left", "right", "outcome"),
    [
        ("EQUAL_TO", "a", "a", "true"),
        ("EQUAL_TO", "1", "1.0", "false"),
        ("NOT_EQUAL", "a", "b", "true"),
        ("GREATER_THAN", "10", "9", "true"),
        ("GREATER_THAN_OR_EQUAL", "9", "9.0", "true"),
        ("LESS_THAN", "10", "9", "false"),
        ("LESS_THAN_OR_EQUAL", "-1", "0", "true"),
        ("LESS_THAN", "a", "9", None),
    ],
)
def test_conditions_compare_text_or_numbers(
    api: Api, create: Any, op: str, left: str, right: str, outcome: str | None
) -> None:
    run = api.ended(start(api, create({"task_key": "c", "condition_task": {"op": op, "left": left, "right": right}})))
    (task,) = run["tasks"]
    assert task["condition_task"].get("outcome") == outcome
    assert task["state"]["result_state"] == ("FAILED" if outcome is None else "SUCCESS")


def test_a_loop_runs_its_task_for_each_element_some_at_a_time(
    api: Api, notebooks: Notebooks, create: Any, notebook: Any
) -> None:
    inputs = [{"day": f"d{n}", "n": n} for n in range(5)]
    notebooks.functions["list"] = says(inputs)
    notebooks.block("one")
    nested = {
        "task_key": "iteration",
        "notebook_task": notebook("one", day="{{input.day}}", all="{{input}}", n="{{input.n}}"),
    }
    job_id = create(
        {"task_key": "list", "notebook_task": notebook("list")},
        {
            "task_key": "loop",
            "depends_on": [{"task_key": "list"}],
            "for_each_task": {"inputs": "{{tasks.list.values.n}}", "concurrency": 2, "task": nested},
        },
    )
    run_id = start(api, job_id)
    eventually(lambda: len(notebooks.runs_of("one")) == 2)
    loop = next(task for task in api.run(run_id)["tasks"] if task["task_key"] == "loop")
    states = [one["state"]["life_cycle_state"] for one in api.run(loop["run_id"])["iterations"]]
    assert states == ["RUNNING", "RUNNING", "PENDING", "PENDING", "PENDING"]
    notebooks.unblock("one")
    run = api.ended(run_id)
    assert results(run) == {"list": "SUCCESS", "loop": "SUCCESS"}
    assert sorted(request.parameters["day"] for request in notebooks.runs_of("one")) == ["d0", "d1", "d2", "d3", "d4"]
    assert [json.loads(request.parameters["all"]) for request in notebooks.runs_of("one")[:2]] == inputs[:2]
    iterations = api.run(loop["run_id"])["iterations"]
    assert [one["state"]["result_state"] for one in iterations] == ["SUCCESS"] * 5
    assert len({one["run_id"] for one in iterations} | {run_id, loop["run_id"]}) == 7


def test_an_iteration_is_retried_and_one_that_fails_fails_the_loop(
    api: Api, notebooks: Notebooks, create: Any, notebook: Any
) -> None:
    def one(request: NotebookRun) -> NotebookResult:
        return failure("ValueError: two") if request.parameters["n"] == "2" else OK

    notebooks.functions["one"] = one
    nested = {"task_key": "it", "max_retries": 1, "notebook_task": notebook("one", n="{{input}}")}
    job_id = create({"task_key": "loop", "for_each_task": {"inputs": "[1, 2, 3]", "task": nested}})
    run = api.ended(start(api, job_id))
    assert [request.parameters["n"] for request in notebooks.seen] == ["1", "2", "2", "3"]
    assert run["state"]["state_message"] == "Task loop failed with message: 1 of 3 iterations failed."
    iterations = api.run(run["tasks"][0]["run_id"])["iterations"]
    assert [(one["attempt_number"], one["state"]["result_state"]) for one in iterations] == [
        (0, "SUCCESS"),
        (1, "FAILED"),
        (0, "SUCCESS"),
    ]
    assert api.get("runs/get-output", run_id=iterations[1]["run_id"])["error"] == "ValueError: two"


def test_a_loop_that_takes_too_long_ends_with_its_iterations(
    api: Api, notebooks: Notebooks, create: Any, notebook: Any
) -> None:
    notebooks.block("one")
    nested = {"task_key": "it", "notebook_task": notebook("one")}
    loop = {"task_key": "loop", "timeout_seconds": 1, "for_each_task": {"inputs": "[1, 2]", "task": nested}}
    after = {
        "task_key": "after",
        "notebook_task": notebook("after"),
        "depends_on": [{"task_key": "loop"}],
        "run_if": "ALL_DONE",
    }
    run = api.ended(start(api, create(loop, after)))
    assert results(run) == {"loop": "TIMEDOUT", "after": "SUCCESS"}
    assert run["state"]["result_state"] == "SUCCESS_WITH_FAILURES"
    task_run = next(task["run_id"] for task in run["tasks"] if task["task_key"] == "loop")
    ended = [one["state"]["result_state"] for one in api.run(task_run)["iterations"]]
    assert ended == ["CANCELED", "CANCELED"]
    assert len(notebooks.killed) == 1


def test_a_loop_over_what_is_no_list_fails_with_a_reason(
    api: Api, notebooks: Notebooks, create: Any, notebook: Any
) -> None:
    notebooks.functions["list"] = says("not a list")
    nested = {"task_key": "it", "notebook_task": notebook("one")}
    job_id = create(
        {"task_key": "list", "notebook_task": notebook("list")},
        {
            "task_key": "loop",
            "depends_on": [{"task_key": "list"}],
            "for_each_task": {"inputs": "{{tasks.list.values.n}}", "task": nested},
        },
    )
    run = api.ended(start(api, job_id))
    assert "inputs of the for each task are not JSON: 'not a list'" in run["state"]["state_message"]
    assert run["status"]["termination_details"]["code"] == "RUN_EXECUTION_ERROR"


def test_a_run_job_task_runs_another_job_with_parameters(
    api: Api, notebooks: Notebooks, create: Any, notebook: Any
) -> None:
    child = create(
        {"task_key": "work", "notebook_task": notebook("work")}, parameters=[{"name": "day", "default": "x"}]
    )
    call = {"job_id": child, "job_parameters": {"day": "{{job.parameters.when}}"}}
    parent = create({"task_key": "call", "run_job_task": call}, parameters=[{"name": "when", "default": "monday"}])
    run = api.ended(start(api, parent), include_resolved_values="true")
    (task,) = run["tasks"]
    assert task["state"]["result_state"] == "SUCCESS"
    assert task["resolved_values"] == {"run_job_task": {"job_parameters": {"day": "monday"}}}
    child_run = api.run(api.get("runs/get-output", run_id=task["run_id"])["run_job_output"]["run_id"])
    assert (child_run["job_id"], child_run["trigger"]) == (child, "RUN_JOB_TASK")
    assert child_run["trigger_info"] == {"run_id": task["run_id"]}
    assert notebooks.seen[0].parameters == {"day": "monday"}


def test_a_run_job_task_fails_with_its_run_and_is_cancelled_into_it(
    api: Api, notebooks: Notebooks, create: Any, notebook: Any
) -> None:
    child = create({"task_key": "work", "notebook_task": notebook("work")})
    parent = create({"task_key": "call", "run_job_task": {"job_id": child}})
    notebooks.functions["work"] = lambda request: failure("ValueError: no")
    failed = api.ended(start(api, parent))
    assert results(failed) == {"call": "FAILED"}
    assert f"of job {child} ended as FAILED" in failed["state"]["state_message"]
    notebooks.block("work")
    run_id = start(api, parent)
    inner = eventually(lambda: api.get("runs/list", job_id=child, active_only="true").get("runs"))[0]["run_id"]
    api.running(inner)
    api.post("runs/cancel", run_id=run_id)
    assert api.ended(run_id)["state"]["result_state"] == "CANCELED"
    assert api.ended(inner)["state"]["result_state"] == "CANCELED"


def test_a_job_that_would_run_itself_does_not(api: Api, create: Any) -> None:
    first = create({"task_key": "a", "run_job_task": {"job_id": 1}}, max_concurrent_runs=9)
    second = create({"task_key": "b", "run_job_task": {"job_id": first}}, max_concurrent_runs=9)
    api.post("update", job_id=first, new_settings={"tasks": [{"task_key": "a", "run_job_task": {"job_id": second}}]})
    run = api.ended(start(api, first))
    assert run["state"]["result_state"] == "FAILED"
    assert "would run itself" in run["state"]["state_message"]
    assert len(api.get("runs/list")["runs"]) == 2


def test_a_run_job_task_without_its_job_fails(api: Api, create: Any) -> None:
    run = api.ended(start(api, create({"task_key": "a", "run_job_task": {"job_id": 1}})))
    assert run["state"]["state_message"] == "Task a failed with message: Job 1 does not exist."


def test_a_python_file_gets_its_arguments_and_its_log_is_the_output(
    deployment: Deployment, api: Api, notebooks: Notebooks, create: Any
) -> None:
    def program(request: NotebookRun) -> NotebookResult:
        request.log.write_text("hello " + " ".join(request.arguments))
        return OK

    notebooks.functions["program"] = program
    write_notebook(deployment, "ops", "program")
    volume = deployment.layout.volume_path("ops", "/Volumes/main/code/files")
    volume.mkdir(parents=True)
    (volume / "program.py").touch()
    for path in ("/Workspace/Shared/program.py", "dbfs:/Volumes/main/code/files/program.py"):
        task = {"task_key": "p", "spark_python_task": {"python_file": path, "parameters": ["--job", "{{job.id}}"]}}
        job_id = create(task)
        run = api.ended(start(api, job_id))
        assert run["state"]["result_state"] == "SUCCESS"
        output = api.get("runs/get-output", run_id=run["run_id"])
        assert (output["logs"], output["logs_truncated"]) == (f"hello --job {job_id}", False)
        assert "notebook_output" not in output
        again = api.ended(start(api, job_id, python_params=["x"]))
        assert again["overriding_parameters"] == {"python_params": ["x"]}
        assert api.get("runs/get-output", run_id=again["run_id"])["logs"] == "hello x"


@pytest.mark.parametrize(
    ("only", "ran"),
    [(["b"], ["b"]), (["+b"], ["a", "b"]), (["b+"], ["b", "c"]), (["+b+"], ["a", "b", "c"]), (["a", "c"], ["a", "c"])],
)
def test_run_now_with_only_runs_those_tasks(
    api: Api, notebooks: Notebooks, make_job: MakeJob, only: list[str], ran: list[str]
) -> None:
    chain = {"a": {}, "b": {"depends_on": [{"task_key": "a"}]}, "c": {"depends_on": [{"task_key": "b"}]}}
    run = api.ended(start(api, make_job(chain), only=only))
    assert [task["task_key"] for task in run["tasks"]] == ran
    assert [request.task_key for request in notebooks.seen] == ran
    assert run["state"]["result_state"] == "SUCCESS"
