"""DAGs that are paused while something is waited for."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from databricks_bridge import DatabricksIncrementalRunOperator, DatabricksSubscriptionSensor, DeltaTable, Subscription

SECOND = timedelta(seconds=1)

watched = Subscription(
    "paused_watched",
    DeltaTable("main.paused.flights", databricks_conn_id="ops"),
    start="earliest",
    poll_interval=SECOND,
    resend_after=timedelta(seconds=5),
)
with DAG("paused_watched", schedule=watched.asset, max_active_runs=1):
    DatabricksIncrementalRunOperator(
        task_id="consume",
        subscription=watched,
        databricks_conn_id="gold",
        job_name="consume-paused-watched",
        poll_interval=SECOND,
    )

awaited = Subscription(
    "paused_deferred", DeltaTable("main.deferred.flights", databricks_conn_id="ops"), start="earliest"
)
with DAG("paused_deferred", schedule=None, max_active_runs=1):
    DatabricksSubscriptionSensor(
        task_id="wait", subscription=awaited, deferrable=True, poke_interval=1, timeout=600
    ) >> (
        DatabricksIncrementalRunOperator(
            task_id="consume",
            subscription=awaited,
            databricks_conn_id="gold",
            job_name="consume-paused-deferred",
            poll_interval=SECOND,
        )
    )
