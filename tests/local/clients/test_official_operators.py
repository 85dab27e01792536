"""The operators and sensors of the official Airflow provider that work over REST, unmodified.

Those that need Thrift (DatabricksSqlOperator, DatabricksCopyIntoOperator, DatabricksCopyIntoAssetOperator,
DatabricksSqlSensor, DatabricksPartitionSensor) have nothing to talk to here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.server.warehouses import warehouse_id
from databricks_bridge.local.testing import connection_to
from tests.local.clients.fake_sql import FakeSql
from tests.local.local_kit import OK, Api, Notebooks, client, failure, write_notebook

pytestmark = pytest.mark.usefixtures("connection")
MakeJob = Callable[..., int]
CONTEXT: dict[str, Any] = {"ti": None}


@pytest.fixture
def warehouse(deployment: Deployment) -> str:
    return warehouse_id(deployment.workspaces["ops"])


def settings(**more: Any) -> dict[str, Any]:
    return {"task_id": "it", "databricks_conn_id": "ops", "polling_period_seconds": 1, "do_xcom_push": False, **more}


def test_submit_run(deployment: Deployment, api: Api, notebooks: Notebooks) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator

    path = write_notebook(deployment, "ops", "main")
    tasks = [{"task_key": "main", "notebook_task": {"notebook_path": path, "base_parameters": {"day": "2026-03-01"}}}]
    DatabricksSubmitRunOperator(**settings(tasks=tasks, run_name="once")).execute(CONTEXT)
    (run,) = api.get("runs/list")["runs"]
    assert (run["run_name"], run["run_type"], run["state"]["result_state"]) == ("once", "SUBMIT_RUN", "SUCCESS")
    assert notebooks.seen[0].parameters == {"day": "2026-03-01"}


def test_submit_run_on_the_listed_cluster(deployment: Deployment, ops: Any, notebooks: Notebooks) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator

    (cluster,) = ops.clusters.list()
    task = {"notebook_path": write_notebook(deployment, "ops", "main")}
    DatabricksSubmitRunOperator(**settings(notebook_task=task, existing_cluster_id=cluster.cluster_id)).execute(CONTEXT)
    assert len(notebooks.seen) == 1


def test_create_jobs_makes_a_job_and_then_resets_it(deployment: Deployment, ops: Any) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksCreateJobsOperator

    def create(description: str, *access: dict[str, str]) -> int:
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "main")}}
        body = {"name": "made", "tasks": [task], "description": description, "access_control_list": list(access)}
        operator = DatabricksCreateJobsOperator(task_id="it", databricks_conn_id="ops", json=body)
        return int(operator.execute(CONTEXT))

    job_id = create("first")
    assert create("second", {"group_name": "analysts", "permission_level": "CAN_VIEW"}) == job_id
    shown = ops.permissions.get("jobs", str(job_id)).access_control_list
    held = [one for one in shown if one.group_name != "admins"]
    assert [(one.user_name or one.group_name, one.all_permissions[0].permission_level.value) for one in held] == [
        ("local-workspace", "IS_OWNER"),
        ("analysts", "CAN_VIEW"),
    ]
    assert ops.jobs.get(job_id).settings.description == "second"


def test_run_now_with_a_token_runs_once(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator

    job_id = make_job()
    DatabricksRunNowOperator(**settings(job_id=job_id, idempotency_token="once")).execute(CONTEXT)
    DatabricksRunNowOperator(**settings(job_id=job_id, idempotency_token="once")).execute(CONTEXT)
    assert len(api.get("runs/list")["runs"]) == 1


def test_notebook_operator(deployment: Deployment, ops: Any, notebooks: Notebooks) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksNotebookOperator

    (cluster,) = ops.clusters.list()
    operator = DatabricksNotebookOperator(
        **settings(
            notebook_path=write_notebook(deployment, "ops", "main"),
            source="WORKSPACE",
            existing_cluster_id=cluster.cluster_id,
            notebook_params={"day": "2026-03-01"},
        )
    )
    notebooks.functions["main"] = lambda request: failure("ValueError: no such column")
    with pytest.raises(Exception, match="no such column"):
        operator.execute(CONTEXT)
    del notebooks.functions["main"]
    operator.execute(CONTEXT)
    assert [request.parameters for request in notebooks.seen] == [{"day": "2026-03-01"}] * 2


def test_task_operator(deployment: Deployment, api: Api, ops: Any, notebooks: Notebooks) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksTaskOperator

    (cluster,) = ops.clusters.list()
    task = {
        "notebook_path": write_notebook(deployment, "ops", "main"),
        "source": "WORKSPACE",
        "base_parameters": {"day": "2026-03-01"},
    }
    config = {"notebook_task": task, "existing_cluster_id": cluster.cluster_id}

    def execute(**more: Any) -> None:
        more = settings(task_config=config, existing_cluster_id=cluster.cluster_id, **more)
        DatabricksTaskOperator(**more).execute(CONTEXT)

    execute()
    failures = iter([failure("ValueError: no such column")])
    notebooks.functions["main"] = lambda request: next(failures, OK)
    execute(max_retries=1, min_retry_interval_millis=0)
    notebooks.functions["main"] = lambda request: failure("ValueError: no such column")
    with pytest.raises(Exception, match="no such column"):
        execute()
    states = [run["state"].get("result_state") for run in api.get("runs/list")["runs"]]
    assert states == ["FAILED", "SUCCESS", "SUCCESS"]
    assert [request.parameters for request in notebooks.seen] == [{"day": "2026-03-01"}] * 4


class TaskInstance:
    def xcom_push(self, *given: Any, **named: Any) -> None:
        """Links alone are pushed."""


def test_workflow_task_group(deployment: Deployment, api: Api, ops: Any, notebooks: Notebooks) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksNotebookOperator, DatabricksTaskOperator
    from airflow.providers.databricks.operators.databricks_workflow import DatabricksWorkflowTaskGroup
    from airflow.sdk import DAG

    (cluster,) = ops.clusters.list()
    paths = {name: write_notebook(deployment, "ops", name) for name in ("first", "second", "third")}
    common = {"databricks_conn_id": "ops", "existing_cluster_id": cluster.cluster_id, "polling_period_seconds": 1}
    named: dict[str, Any] = {"databricks_conn_id": "ops", "notebook_params": {"day": "2026-03-01"}}
    with DAG("flights", schedule=None), DatabricksWorkflowTaskGroup(group_id="group", **named):
        first = DatabricksNotebookOperator(
            task_id="first", notebook_path=paths["first"], source="WORKSPACE", databricks_task_key="first", **common
        )
        second, third = (
            DatabricksTaskOperator(
                task_id=name,
                task_config={"notebook_task": {"notebook_path": paths[name], "source": "WORKSPACE"}},
                databricks_task_key=name,
                trigger_rule=rule,
                **common,
            )
            for name, rule in (("second", "all_success"), ("third", "all_done"))
        )
        first >> second >> third
    launch = first.dag.get_task("group.launch")

    def run() -> dict[str, Any]:
        """The group's run; it must not have ended when the launch asks for it."""
        notebooks.block("first")
        launched = launch.execute(context)
        notebooks.unblock("first")
        for task in (first, second, third):
            task.workflow_run_metadata = launched  # in a DAG run, the launch's XCom
        return api.ended(launched["run_id"])

    context: dict[str, Any] = {"ti": TaskInstance()}
    done = run()
    assert [task["task_key"] for task in done["tasks"]] == ["first", "second", "third"]
    assert [request.parameters for request in notebooks.seen] == [{"day": "2026-03-01"}] * 3
    for task in (first, second, third):
        task.execute(context)

    notebooks.functions["second"] = lambda request: failure("ValueError: no such column")
    again = run()
    assert again["job_id"] == done["job_id"]  # found by its name, and reset
    assert again["run_id"] != done["run_id"]
    first.execute(context)
    with pytest.raises(Exception, match="no such column"):
        second.execute(context)
    third.execute(context)
    assert ops.jobs.get(done["job_id"]).settings.name == "flights.group"


def test_the_statements_operator(warehouse: str, fake_sql: FakeSql) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksSQLStatementsOperator

    def run(statement: str, **more: Any) -> None:
        DatabricksSQLStatementsOperator(
            **settings(statement=statement, warehouse_id=warehouse, include_airflow_query_tags=False, **more)
        ).execute(CONTEXT)

    run("SELECT :n", parameters=[{"name": "n", "value": "1", "type": "BIGINT"}], catalog="main", schema="silver")
    (request,) = fake_sql.seen
    assert (request.catalog, request.schema, request.parameters[0].value) == ("main", "silver", "1")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("SELECT * FROM nothing_there")


async def test_the_statements_operator_and_sensor_defer(warehouse: str, fake_sql: FakeSql) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksSQLStatementsOperator
    from airflow.providers.databricks.sensors.databricks import DatabricksSQLStatementsSensor
    from airflow.sdk.exceptions import TaskDeferred

    events = []
    for kind in (DatabricksSQLStatementsOperator, DatabricksSQLStatementsSensor):
        task = kind(
            **settings(
                statement="SELECT 1 -- WAIT",
                warehouse_id=warehouse,
                deferrable=True,
                include_airflow_query_tags=False,
            )
        )
        with pytest.raises(TaskDeferred) as deferred:
            await asyncio.to_thread(task.execute, CONTEXT)
        trigger = deferred.value.trigger
        trigger.polling_period_seconds = 0.1
        waiting = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(0)
        assert not waiting.done()
        fake_sql.go.set()
        events.append(await asyncio.wait_for(waiting, 30))
        fake_sql.go.clear()
    assert [json.loads(event.payload["state"])["state"] for event in events] == ["SUCCEEDED", "SUCCEEDED"]


def test_killing_the_statements_operator_cancels_the_statement(warehouse: str, fake_sql: FakeSql, ops: Any) -> None:
    from airflow.providers.databricks.operators.databricks import DatabricksSQLStatementsOperator

    task = DatabricksSQLStatementsOperator(
        **settings(
            statement="SELECT 1 -- WAIT",
            warehouse_id=warehouse,
            wait_for_termination=False,
            include_airflow_query_tags=False,
        )
    )
    task.execute(CONTEXT)
    task.on_kill()
    assert ops.statement_execution.get_statement(task.statement_id).status.state.value == "CANCELED"


def test_warehouses_are_started_and_stopped(warehouse: str, ops: Any) -> None:
    from airflow.providers.databricks.operators.warehouse import (
        DatabricksStartWarehouseOperator,
        DatabricksStopWarehouseOperator,
    )

    DatabricksStopWarehouseOperator(**settings(warehouse_id=warehouse)).execute(CONTEXT)
    assert ops.warehouses.get(warehouse).state.value == "STOPPED"
    DatabricksStartWarehouseOperator(**settings(warehouse_id=warehouse)).execute(CONTEXT)
    assert ops.warehouses.get(warehouse).state.value == "RUNNING"


def test_the_connection_is_tested() -> None:
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    assert DatabricksHook("ops").test_connection() == (True, "Connection successfully tested")


def test_the_hook_s_oauth_token_is_taken(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook asks for it at https and port 443, where nothing listens: here the token comes from the SDK."""
    from airflow.providers.databricks.hooks.databricks import DatabricksHook
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.core import Config

    known = deployment.workspaces["ops"].credentials
    config = Config(host=deployment.host("ops"), client_id=known.client_id, client_secret=known.client_secret)
    token = WorkspaceClient(config=config).config.authenticate()["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("AIRFLOW_CONN_ISSUED", connection_to(deployment.host("ops"), token))
    assert DatabricksHook("issued").list_jobs() == []
    client(deployment, "ops").api_client.do("POST", "/local/faults", body={"kind": "expire_tokens"})
    with pytest.raises(Exception, match="403"):
        DatabricksHook("issued", retry_limit=1).list_jobs()
