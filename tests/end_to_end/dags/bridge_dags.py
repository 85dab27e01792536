"""The DAGs of the end-to-end tests: one small DAG for each way to use the provider, started by the tests."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, task

from databricks_bridge import (
    DatabricksIncrementalRunOperator,
    DatabricksSubscriptionSensor,
    DatabricksTriggeredRunSensor,
    DeltaTable,
    DeltaVersionSensor,
    Subscription,
    TriggeredRuns,
)

SECOND = timedelta(seconds=1)
TABLE = "main.silver.flights"

TABLE_MOVES = "main.moving.flights"

WAYS = {
    "poke": {"mode": "poke", "deferrable": False},
    "reschedule": {"mode": "reschedule", "deferrable": False},
    "deferrable": {"deferrable": True},
}


def subscription(name: str, table: str = TABLE, conn_id: str = "ops") -> Subscription:
    return Subscription(name, [DeltaTable(table, databricks_conn_id=conn_id, alias="flights")], start="earliest")


for way, how in WAYS.items():
    by_way = subscription(f"versions_{way}")
    with DAG(f"versions_{way}", schedule=None):
        sensor = DatabricksSubscriptionSensor(task_id="wait", subscription=by_way, poke_interval=1, **how)
        sensor >> DatabricksIncrementalRunOperator(
            task_id="consume",
            subscription=by_way,
            databricks_conn_id="gold",
            job_name=f"consume-{way}",
            poll_interval=SECOND,
            deferrable=how["deferrable"],
            retries=2,
            retry_delay=SECOND,
        )

    with DAG(f"moves_{way}", schedule=None):
        DeltaVersionSensor(task_id="wait", table=TABLE_MOVES, databricks_conn_id="ops", poke_interval=1, **how)

    with DAG(f"runs_{way}", schedule=None):
        DatabricksTriggeredRunSensor(
            task_id="wait",
            databricks_conn_id="ops",
            job_name="by-file",
            triggers={"FILE_ARRIVAL"},
            poke_interval=1,
            **how,
        )

after_runs = Subscription(
    "after_runs",
    TriggeredRuns(job_name="by-file", databricks_conn_id="ops", triggers={"FILE_ARRIVAL"}),
    start="earliest",
)
with DAG("after_runs", schedule=None):
    DatabricksSubscriptionSensor(task_id="wait", subscription=after_runs, poke_interval=1) >> (
        DatabricksIncrementalRunOperator(
            task_id="consume",
            subscription=after_runs,
            databricks_conn_id="gold",
            job_name="consume-runs",
            poll_interval=SECOND,
        )
    )

by_asset = Subscription(
    "by_asset",
    DeltaTable("main.watched.flights", databricks_conn_id="ops"),
    start="earliest",
    poll_interval=SECOND,
    resend_after=timedelta(seconds=5),
)
with DAG("by_asset", schedule=by_asset.asset, max_active_runs=1):
    DatabricksIncrementalRunOperator(
        task_id="consume",
        subscription=by_asset,
        databricks_conn_id="gold",
        job_name="consume-asset",
        poll_interval=SECOND,
    )

stored = Subscription(
    "stored",
    DeltaTable("main.stored.flights", databricks_conn_id="ops"),
    start="earliest",
    ledger=os.environ["BRIDGE_TEST_LEDGER"],
    poll_interval=SECOND,
)
with DAG("stored", schedule=stored.asset, max_active_runs=1):
    DatabricksIncrementalRunOperator(
        task_id="consume",
        subscription=stored,
        databricks_conn_id="gold",
        job_name="consume-store",
        poll_interval=SECOND,
        deferrable=True,
    )

around = Subscription("around", DeltaTable("main.around.flights", databricks_conn_id="ops"), start="earliest")


@task
def export(claimed: dict) -> list[str]:
    given = claimed["parameters"]
    return [given["flights_table"], given["flights_start"], given["flights_end"], claimed["claim"]]


with DAG("around", schedule=None, max_active_runs=1):
    export(around.claim()) >> around.commit()

MISTAKES = {
    "wrong_token": (subscription("wrong_token", conn_id="ops_wrong_token"), "consume-poke"),
    "missing_table": (subscription("missing_table", table="main.silver.nowhere"), "consume-poke"),
    "missing_job": (subscription("missing_job"), "no-such-job"),
    "missing_connection": (subscription("missing_connection", conn_id="nowhere"), "consume-poke"),
}
for mistake, (wrong, job_name) in MISTAKES.items():
    with DAG(f"mistake_{mistake}", schedule=None):
        DatabricksIncrementalRunOperator(
            task_id="consume",
            subscription=wrong,
            databricks_conn_id="gold",
            job_name=job_name,
            poll_interval=SECOND,
        )
