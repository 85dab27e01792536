"""One DAG for each cell, started by the harness. Only the triggerer, the scheduler and the workspace die in deferred ones."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from databricks_bridge import DatabricksIncrementalRunOperator, DeltaTable, Subscription
from faults.kill import gate
from faults.kill.cells import CELLS

gate.install()
RETRIES: dict[str, Any] = {"retries": 6, "retry_delay": timedelta(seconds=1)}


def holds(ranges: object, run_id: int) -> bool:
    return True


@task(**RETRIES)
def after() -> None:
    """Runs only when what comes before it succeeded, and was not skipped."""


@task(**RETRIES)
def work(claimed: dict[str, Any]) -> None:
    """External work that is idempotent by the claim's id: the last thing written under an id counts."""
    cell, folder = claimed["subscription"], Path(os.environ[gate.FOLDER])
    with (folder / f"{cell}.works").open("a") as works:
        works.write(json.dumps(claimed) + "\n")
    gate.stop(cell, "work", folder)


for cell in CELLS:
    source = DeltaTable(cell.table, databricks_conn_id="ops", alias="t0")
    subscription = Subscription(cell.name, [source], start="earliest")
    with DAG(cell.name, schedule=None, max_active_runs=1, default_args=RETRIES):
        if cell.around:
            claimed = subscription.claim()
            work(claimed) >> subscription.commit() >> after()
        else:
            consume = DatabricksIncrementalRunOperator(
                task_id="consume",
                subscription=subscription,
                databricks_conn_id="ops",
                job_name=cell.name,
                poll_interval=timedelta(seconds=1),
                deferrable=cell.deferrable,
                postcondition=holds,
            )
            if cell.step == "end":
                consume >> after()
