"""A downstream job after a run that Databricks fired itself.

The job `bronze-flights` in the workspace ops starts when files arrive; Airflow does not start it. This DAG waits for its
next successful run of trigger FILE_ARRIVAL, then runs the job `bronze-audit` with that run's id, by the official
operator. The sensor remembers nothing, so two DAG runs may see the same bronze run; the token makes it one audit for each.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator
from airflow.sdk import DAG
from bridge_timers import timers

from databricks_bridge import DatabricksTriggeredRunSensor

short_or_long = timers()

# The start date is needed: without one, "@continuous" in Airflow 3.3.2 gives its first two runs the same logical date, and
# never starts the second.
with DAG(
    "after_bronze",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
    tags=["databricks-bridge"],
):
    bronze_landed = DatabricksTriggeredRunSensor(
        task_id="bronze_landed",
        databricks_conn_id="ops",
        job_name="bronze-flights",
        triggers={"FILE_ARRIVAL"},
        deferrable=True,
        poke_interval=short_or_long.poll,
        retries=3,
        retry_delay=short_or_long.retry,
    )
    audit = DatabricksRunNowOperator(
        task_id="audit",
        databricks_conn_id="ops",
        job_name="bronze-audit",
        job_parameters={"bronze_run_id": "{{ ti.xcom_pull('bronze_landed')['run_id'] }}"},
        idempotency_token="bronze-audit-{{ ti.xcom_pull('bronze_landed')['run_id'] }}",
        polling_period_seconds=int(short_or_long.poll.total_seconds()),
        retries=2,
        retry_delay=short_or_long.retry,
    )
    bronze_landed >> audit
