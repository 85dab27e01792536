"""Tasks of the official provider beside ours."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator
from airflow.sdk import DAG

from databricks_bridge import DatabricksIncrementalRunOperator, DeltaTable, Subscription

written = Subscription("written", DeltaTable("main.official.flights", databricks_conn_id="ops"), start="earliest")
with DAG("official_upstream", schedule=None, max_active_runs=1):
    DatabricksRunNowOperator(
        task_id="write", databricks_conn_id="ops", job_name="append-official", polling_period_seconds=1
    ) >> DatabricksIncrementalRunOperator(
        task_id="consume",
        subscription=written,
        databricks_conn_id="gold",
        job_name="consume-official",
        poll_interval=timedelta(seconds=1),
    )

between = Subscription("between", DeltaTable("main.between.flights", databricks_conn_id="ops"), start="earliest")
CLAIMED = "{{ ti.xcom_pull('claim_between')['parameters']['%s'] }}"
with DAG("official_between", schedule=None, max_active_runs=1):
    (
        between.claim()
        >> DatabricksRunNowOperator(
            task_id="export",
            databricks_conn_id="gold",
            job_name="export-official",
            job_parameters={name: CLAIMED % name for name in ("flights_start", "flights_end")},
            polling_period_seconds=1,
        )
        >> between.commit()
    )
