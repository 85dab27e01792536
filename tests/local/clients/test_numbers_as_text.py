"""The official operators send every number as text; each place that takes a number takes it so, and shows a number."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import OK, Api, Notebooks, failure, write_notebook

pytestmark = pytest.mark.usefixtures("connection")
CONTEXT: dict[str, Any] = {"ti": None}
TIMERS = {"min_time_between_triggers_seconds": 60, "wait_after_last_change_seconds": 120}


@pytest.fixture
def task(deployment: Deployment) -> dict[str, Any]:
    return {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "main")}}


CREATED: dict[str, dict[str, Any]] = {
    "of the job": {"max_concurrent_runs": 2, "timeout_seconds": 600},
    "of a period": {"trigger": {"periodic": {"interval": 2, "unit": "HOURS"}}},
    "of a file arrival": {"trigger": {"file_arrival": {"url": "/Volumes/main/s/v/", **TIMERS}}},
    "of a table update": {"trigger": {"table_update": {"table_names": ["a.b.c"], **TIMERS}}},
    "of a list of triggers": {"triggers": [{"periodic": {"interval": 2, "unit": "HOURS"}}]},
    "of health rules": {"health": {"rules": [{"metric": "RUN_DURATION_SECONDS", "op": "GREATER_THAN", "value": 10}]}},
    "of job clusters": {"job_clusters": [{"job_cluster_key": "c", "new_cluster": {"num_workers": 2}}]},
}


def holds(shown: Any, given: Any) -> bool:
    """Whether all that was given is shown, with its type."""
    if isinstance(given, dict):
        return all(holds(shown[name], value) for name, value in given.items())
    if isinstance(given, list):
        return all(map(holds, shown, given))
    return type(shown) is type(given) and bool(shown == given)


@pytest.mark.parametrize("case", CREATED)
def test_create_jobs_takes_numbers(case: str, ops: Any, api: Api, task: dict[str, Any]) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksCreateJobsOperator

    for _ in ("made", "reset"):
        body = {"name": "made", "tasks": [task], **CREATED[case]}
        operator = DatabricksCreateJobsOperator(task_id="it", databricks_conn_id="ops", json=body)
        job_id = int(operator.execute(CONTEXT))
        assert holds(api.get("get", job_id=job_id)["settings"], CREATED[case])
    assert [job.job_id for job in ops.jobs.list(expand_tasks=True)] == [job_id]


def test_create_jobs_takes_numbers_of_tasks(ops: Any, api: Api, task: dict[str, Any]) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksCreateJobsOperator

    other = ops.jobs.create(name="other").job_id
    numbers = {"max_retries": 2, "min_retry_interval_millis": 5, "timeout_seconds": 600}
    tasks = [
        {**task, **numbers},
        {"task_key": "loop", "for_each_task": {"inputs": "[1]", "concurrency": 3, "task": {**task, "task_key": "in"}}},
        {"task_key": "run", "run_job_task": {"job_id": other}},
        {
            **task,
            "task_key": "alone",
            "new_cluster": {"num_workers": 1, "autoscale": {"min_workers": 1, "max_workers": 2}},
        },
    ]
    operator = DatabricksCreateJobsOperator(task_id="it", databricks_conn_id="ops", json={"name": "n", "tasks": tasks})
    settings = api.get("get", job_id=operator.execute(CONTEXT))["settings"]
    assert holds(settings["tasks"], tasks)


@pytest.mark.parametrize("form", ["tasks", "2.0"])
def test_submit_run_takes_numbers(form: str, api: Api, notebooks: Notebooks, task: dict[str, Any]) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator

    tried = iter([failure("ValueError: once")])
    notebooks.functions["main"] = lambda request: next(tried, OK)
    given: dict[str, Any] = {"tasks": [{**task, "max_retries": 1, "timeout_seconds": 60}]}
    if form == "2.0":
        tried = iter([])
        given = {"notebook_task": task["notebook_task"], "new_cluster": {"num_workers": 2}}
    common = {"task_id": "it", "databricks_conn_id": "ops", "polling_period_seconds": 1, "do_xcom_push": False}
    DatabricksSubmitRunOperator(timeout_seconds=600, **given, **common).execute(CONTEXT)
    assert api.get("runs/list")["runs"][0]["state"]["result_state"] == "SUCCESS"


def test_run_now_takes_numbers(api: Api, notebooks: Notebooks, make_job: Callable[..., int]) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator

    job_id = make_job(parameters=[{"name": "day", "default": ""}])
    DatabricksRunNowOperator(
        task_id="it",
        databricks_conn_id="ops",
        job_id=job_id,
        job_parameters={"day": 3},
        polling_period_seconds=1,
        do_xcom_push=False,
    ).execute(CONTEXT)
    assert notebooks.seen[0].parameters == {"day": "3"}


def test_run_now_changes_settings_before_a_repair(api: Api, notebooks: Notebooks, make_job: Callable[..., int]) -> None:
    """What the operator does when a run fails with one of its reasons: update, then repair, by its own functions."""
    from airflow.providers.databricks.hooks.databricks import DatabricksHook
    from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator, update_job_for_repair
    from airflow.providers.databricks.utils.databricks import normalise_json_content

    job_id = make_job()
    notebooks.functions["main"] = lambda request: failure("ValueError: once")
    failed = api.ended(api.post("run-now", job_id=job_id)["run_id"])
    new_settings = {"max_concurrent_runs": 2, "timeout_seconds": 900}
    operator = DatabricksRunNowOperator(
        task_id="it",
        databricks_conn_id="ops",
        job_id=job_id,
        repair_run=True,
        databricks_repair_reason_new_settings={"Workload failed": new_settings},
    )
    hook = DatabricksHook("ops")
    update_job_for_repair(operator, hook, job_id, SimpleNamespace(state_message="Workload failed, see output."))
    assert holds(api.get("get", job_id=job_id)["settings"], new_settings)
    del notebooks.functions["main"]
    repair = normalise_json_content({"run_id": failed["run_id"], "rerun_all_failed_tasks": True})
    first = hook.repair_run(repair)
    api.ended(failed["run_id"])
    assert api.run(failed["run_id"], include_history=True)["repair_history"][-1]["id"] == first


def test_the_notebook_and_task_operators_take_numbers(
    deployment: Deployment, api: Api, ops: Any, task: dict[str, Any], notebooks: Notebooks
) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksNotebookOperator, DatabricksTaskOperator

    (cluster,) = ops.clusters.list()
    common: dict[str, Any] = {
        "task_id": "it",
        "databricks_conn_id": "ops",
        "existing_cluster_id": cluster.cluster_id,
        "polling_period_seconds": 1,
        "do_xcom_push": False,
    }
    config = {"notebook_task": task["notebook_task"], "timeout_seconds": "600", "max_retries": 1}
    DatabricksTaskOperator(task_config=config, **common).execute(CONTEXT)
    path = task["notebook_task"]["notebook_path"]
    DatabricksNotebookOperator(notebook_path=path, source="WORKSPACE", **common).execute(CONTEXT)
    assert [run["state"]["result_state"] for run in api.get("runs/list")["runs"]] == ["SUCCESS", "SUCCESS"]


def test_a_workflow_task_group_takes_numbers(deployment: Deployment, api: Api, ops: Any, task: dict[str, Any]) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksTaskOperator
    from airflow.providers.databricks.operators.databricks_workflow import DatabricksWorkflowTaskGroup
    from airflow.sdk import DAG

    (cluster,) = ops.clusters.list()
    more = {"max_concurrent_runs": 3, "extra_job_params": {"timeout_seconds": 600, "max_concurrent_runs": 2}}
    clusters = [{"job_cluster_key": "c", "new_cluster": {"num_workers": 2}}]
    with (
        DAG("numbers", schedule=None),
        DatabricksWorkflowTaskGroup(group_id="group", databricks_conn_id="ops", job_clusters=clusters, **more),
    ):
        one = DatabricksTaskOperator(
            task_id="one",
            databricks_conn_id="ops",
            databricks_task_key="one",
            existing_cluster_id=cluster.cluster_id,
            task_config={"notebook_task": task["notebook_task"], "max_retries": 1, "timeout_seconds": 600},
        )
    launched = one.dag.get_task("group.launch").execute({"ti": SimpleNamespace(xcom_push=lambda *a, **k: None)})
    settings = api.get("get", job_id=launched["job_id"])["settings"]
    assert (settings["timeout_seconds"], settings["max_concurrent_runs"]) == (600, 2)
    assert settings["job_clusters"][0]["new_cluster"]["num_workers"] == 2
    assert settings["tasks"][0]["max_retries"] == 1
