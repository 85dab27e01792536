"""What a DAG gets whose subscription was renamed or retired: one clear error from every task, before anything is looked at."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import DAG

from databricks_bridge import DatabricksSubscriptionSensor, DeltaTable, Subscription
from databricks_bridge.core.closing import renamed_away, retired
from databricks_bridge.core.errors import ConsumerMismatch
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.object_store import ObjectStoreKeep
from tests.core.builders import NOW, at

WHY = Reason("ada", "it is not about delays alone")
FIRST = Record("delays", "dag partner_file", {"flights": at(5)}).after(NOW, "started")
CLOSED = {
    "was renamed to 'late': use that name where it is defined": renamed_away(FIRST, "late", WHY, NOW),
    "is retired, nothing is processed for it any more": retired(FIRST, WHY, NOW),
}


@pytest.fixture(params=CLOSED)
def told(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What the task is to be told; the record is written."""

    async def write() -> None:
        ledger = ObjectStoreKeep(tmp_path.as_uri()).ledger("delays")
        await ledger.write(FIRST)
        await ledger.write(replace(CLOSED[request.param]))

    asyncio.run(write())
    return str(request.param)


@pytest.fixture
def tasks(tmp_path: Path) -> dict[str, Any]:
    """The sensor, and the tasks around others, by task id. No connection `ops` exists: nothing may be looked at."""
    subscription = Subscription(
        "delays", DeltaTable("main.silver.flights", "ops"), start="earliest", ledger=tmp_path.as_uri()
    )
    with DAG("partner_file", schedule=None) as dag:
        DatabricksSubscriptionSensor(task_id="wait", subscription=subscription)
        subscription.claim()
        subscription.commit()
    return {task.task_id: task for task in dag.tasks}


@pytest.mark.parametrize("task_id", ["wait", "claim_delays", "commit_delays"])
def test_every_task_of_a_closed_subscription_is_refused(told: str, tasks: dict[str, Any], task_id: str) -> None:
    ids = {"dag_id": "partner_file", "run_id": "manual__1", "task_id": task_id, "map_index": -1, "try_number": 1}
    ti = SimpleNamespace(**ids, xcom_pull=lambda task_ids: {"claim": "t" * 64})
    context = cast("Any", {"ti": ti, "dag_run": SimpleNamespace(run_type="manual")})
    task = tasks[task_id]
    with pytest.raises(ConsumerMismatch, match=f"subscription 'delays' {told}"):
        asyncio.run(task._look_once(context)) if task_id == "wait" else task.execute(context)
