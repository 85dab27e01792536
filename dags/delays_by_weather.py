"""Gold follows two silver tables in two other workspaces, once for each range of new versions.

Databricks fills `main.silver.flights` (workspace ops) and `main.silver.weather` (workspace met) by itself, with jobs
that start on file arrival and table update. This DAG waits on both tables' Delta versions and runs the job
`delays-by-weather` in the workspace analytics, which reads them through the shared catalogs `ops_share` and `met_share`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG
from bridge_timers import timers

from databricks_bridge import DatabricksIncrementalRunOperator, DatabricksSubscriptionSensor, DeltaTable, Subscription

short_or_long = timers()

delays = Subscription(
    "delays_by_weather",
    sources=[
        DeltaTable("main.silver.flights", databricks_conn_id="ops", read_as="ops_share.silver.flights"),
        DeltaTable("main.silver.weather", databricks_conn_id="met", read_as="met_share.silver.weather"),
    ],
    start="earliest",
    condition="ANY_UPDATED",
    min_time_between_triggers=short_or_long.between,
    wait_after_last_change=short_or_long.settle,
)

# The start date is needed: without one, "@continuous" in Airflow 3.3.2 gives its first two runs the same logical date, and
# never starts the second.
with DAG(
    "delays_by_weather",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
    tags=["databricks-bridge"],
):
    silver_changed = DatabricksSubscriptionSensor(
        task_id="silver_changed",
        subscription=delays,
        deferrable=True,
        poke_interval=short_or_long.poll,
        retries=3,
        retry_delay=short_or_long.retry,
    )
    build_gold = DatabricksIncrementalRunOperator(
        task_id="build_gold",
        subscription=delays,
        databricks_conn_id="analytics",
        job_name="delays-by-weather",
        poll_interval=short_or_long.poll,
        retries=3,
        retry_delay=short_or_long.retry,
    )
    silver_changed >> build_gold
