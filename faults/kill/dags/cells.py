"""One DAG for each cell, started by the harness. Only the triggerer, the scheduler and the workspace die in deferred ones."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from databricks_bridge import DatabricksIncrementalRunOperator, DeltaTable, Subscription
from faults.kill import gate
from faults.kill.cells import CELLS

gate.install()


def holds(ranges: object, run_id: int) -> bool:
    return True


for cell in CELLS:
    source = DeltaTable(cell.table, databricks_conn_id="ops", alias="t0")
    subscription = Subscription(cell.name, [source], start="earliest")
    with DAG(cell.name, schedule=None, max_active_runs=1):
        DatabricksIncrementalRunOperator(
            task_id="consume",
            subscription=subscription,
            databricks_conn_id="ops",
            job_name=cell.name,
            poll_interval=timedelta(seconds=1),
            deferrable=cell.deferrable,
            postcondition=holds,
            retries=6,
            retry_delay=timedelta(seconds=1),
        )
