"""The official Airflow provider against a local workspace, unmodified: hook, operator and trigger."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.testing import connection_to
from tests.local.local_kit import Api, Notebooks, failure

MakeJob = Callable[..., int]


@pytest.fixture(autouse=True)
def connection(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> str:
    """A connection to ops, as the official hook wants it."""
    monkeypatch.setenv("AIRFLOW_CONN_OPS", connection_to(deployment.host("ops"), deployment.token("ops")))
    return "ops"


def operator(**arguments: Any) -> Any:
    from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator

    return DatabricksRunNowOperator(
        task_id="run", databricks_conn_id="ops", polling_period_seconds=1, do_xcom_push=False, **arguments
    )


def test_the_hook_finds_lists_and_runs_jobs(api: Api, make_job: MakeJob) -> None:
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    job_id = make_job(name="delays-by-weather")
    hook = DatabricksHook("ops")
    assert hook.find_job_id_by_name("delays-by-weather") == job_id
    assert [job["job_id"] for job in hook.list_jobs()] == [job_id]
    run_id = hook.run_now({"job_id": job_id})
    api.ended(run_id)
    assert hook.get_run_state(run_id).is_successful
    assert hook.get_job_id(run_id) == job_id
    assert hook.get_run_page_url(run_id).endswith(f"/run/{run_id}")


def test_the_operator_runs_a_job_to_its_end(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    make_job(name="wanted", parameters=[{"name": "day", "default": ""}])
    operator(job_name="wanted", job_parameters={"day": "2013-01-01"}).execute({"ti": None})
    assert notebooks.seen[0].parameters == {"day": "2013-01-01"}
    assert api.get("runs/list")["runs"][0]["state"]["result_state"] == "SUCCESS"


def test_the_operator_fails_with_the_notebook_s_error(notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.functions["main"] = lambda request: failure("ValueError: no such column")
    with pytest.raises(Exception, match="ValueError: no such column"):
        operator(job_id=make_job()).execute({"ti": None})


async def test_the_operator_defers_and_its_trigger_sees_the_end(
    api: Api, notebooks: Notebooks, make_job: MakeJob
) -> None:
    import asyncio

    from airflow.sdk.exceptions import TaskDeferred

    notebooks.block("main")
    job_id = make_job()
    with pytest.raises(TaskDeferred) as deferred:
        await asyncio.to_thread(operator(job_id=job_id, deferrable=True).execute, {"ti": None})
    trigger = deferred.value.trigger
    trigger.polling_period_seconds = 0.1
    waiting = asyncio.ensure_future(anext(trigger.run()))
    await asyncio.sleep(0)
    notebooks.unblock("main")
    event = await asyncio.wait_for(waiting, 30)
    assert event.payload["run_id"] == api.get("runs/list", job_id=job_id)["runs"][0]["run_id"]
    assert json.loads(event.payload["run_state"])["result_state"] == "SUCCESS"


async def test_the_trigger_brings_the_errors_of_failed_tasks(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    from airflow.providers.databricks.triggers.databricks import DatabricksExecutionTrigger

    notebooks.functions["main"] = lambda request: failure("ValueError: no")
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    trigger = DatabricksExecutionTrigger(run_id=run_id, databricks_conn_id="ops", polling_period_seconds=1)
    event = await anext(trigger.run())
    assert event.payload["errors"] == [{"task_key": "main", "run_id": run_id + 1, "error": "ValueError: no"}]
