"""DAGs for what a person, or another triggerer, does to a waiting task, and for mapped backfills."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from databricks_bridge import DatabricksIncrementalRunOperator, DeltaTable, Subscription

SECOND = timedelta(seconds=1)

for name, deferrable in (("marked_followed", False), ("marked_deferred", True), ("kept", True)):
    table = DeltaTable("main.marked.flights", databricks_conn_id="ops")
    subscription = Subscription(name, table, start="earliest")
    with DAG(name, schedule=None):
        DatabricksIncrementalRunOperator(
            task_id="consume",
            subscription=subscription,
            databricks_conn_id="gold",
            job_name=f"consume-{name.replace('_', '-')}",
            poll_interval=SECOND,
            deferrable=deferrable,
            retries=1,
            retry_delay=SECOND,
        )

replayed = Subscription("replayed", DeltaTable("main.marked.flights", databricks_conn_id="ops"), start="latest")
with DAG("replayed", schedule=None):
    DatabricksIncrementalRunOperator.partial(
        task_id="consume",
        subscription=replayed,
        databricks_conn_id="gold",
        job_name="consume-replayed",
        poll_interval=SECOND,
        inlets=[replayed.asset],
    ).expand(range=[{"flights": [-1, 0]}, {"flights": ["{{ 0 }}", "{{ 1 }}"]}])
