"""The ledger of a running task's subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from databricks_bridge.ledgers.address import open_ledger
from databricks_bridge.ledgers.airflow import ledger_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.feeds.look import Looker
    from databricks_bridge.ledgers.protocol import Ledger


def task_ledger(subscription: Subscription, context: Context, looker: Looker) -> Ledger:
    """The keep that `Subscription(ledger=...)` or the configuration names. Raises LedgerError, InvalidArgument.

    `looker` opens the workspace of a control table, and closes it. Reading raises ConsumerMismatch for a subscription that
    was moved, renamed or retired, and tells of a claim that is stuck.
    """
    from databricks_bridge.assets.stuck import TaskLedger

    ledger = open_ledger(
        subscription.ledger,
        subscription.name,
        airflow=lambda: ledger_of(context, subscription.asset, subscription.name),
        workspace=looker.workspace,
    )
    return TaskLedger(ledger, subscription.name, subscription.expected_run_time, subscription.on_stuck_claim)
