"""Two DAGs of one shape: the event of an asset's watcher starts one task."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetWatcher

from benchmarks.bare_watch import BareWatchTrigger, NoteOperator
from databricks_bridge import DatabricksIncrementalRunOperator, DeltaTable, Subscription

FOLDER = os.environ["BENCH_FOLDER"]

bare = Asset("bare", watchers=[AssetWatcher(name="bare", trigger=BareWatchTrigger(folder=FOLDER))])
with DAG("bare", schedule=bare, max_active_runs=1):
    NoteOperator(task_id="note", folder=FOLDER)

lagged = Subscription(
    "lagged",
    DeltaTable("main.silver.flights", databricks_conn_id="ops"),
    start="earliest",
    poll_interval=timedelta(seconds=float(os.environ["BENCH_POLL_SECONDS"])),
)
with DAG("ours", schedule=lagged.asset, max_active_runs=1):
    DatabricksIncrementalRunOperator(
        task_id="consume",
        subscription=lagged,
        databricks_conn_id="ops",
        job_name="consume",
        poll_interval=timedelta(seconds=1),
    )
