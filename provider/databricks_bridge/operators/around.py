"""Claim and commit around tasks that are not Databricks jobs: `subscription.claim()` and `subscription.commit()`.

There is no token and no run here. The tasks between get the claim's id to be idempotent by, and the DAG needs
`max_active_runs=1`: Airflow's state store has no compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from databricks_bridge.assets.inlets import with_inlet
from databricks_bridge.core.errors import ClaimUndecided
from databricks_bridge.operators.arguments import refuse_backfill

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.feeds.driver import Driver
    from databricks_bridge.feeds.look import Looker

CLAIM_PREFIX, COMMIT_PREFIX = "claim_", "commit_"


class SubscriptionClaimOperator(BaseOperator):
    """Claims what is pending and hands it on: `{"claim", "subscription", "ranges", "parameters"}`.

    `claim` is an id to be idempotent by, `parameters` are those that a job would get (`flights_start`, ...). An open claim
    of this DAG is handed on again, unchanged, until it is committed. Skips when there is nothing new.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, subscription: Subscription, task_id: str | None = None, **kwargs: Any) -> None:
        arguments = with_inlet(kwargs, subscription)
        super().__init__(task_id=task_id or CLAIM_PREFIX + subscription.name, **arguments)
        self.subscription = subscription

    def execute(self, context: Context) -> dict[str, Any]:
        refuse_backfill(context, self.subscription.name)
        finish = asyncio.run(self._claim(context))
        claim = finish.claim
        if claim is None:
            raise AirflowSkipException(finish.reason)
        return {
            "claim": claim.token,
            "subscription": self.subscription.name,
            "ranges": [one.to_json() for one in claim.ranges if not one.empty],
            "parameters": dict(claim.parameters),
        }

    async def _claim(self, context: Context) -> Any:
        from databricks_bridge.feeds.look import Looker
        from databricks_bridge.hooks.databricks import open_workspace

        async with Looker(open_workspace) as looker:
            return await _driver(self.subscription, context, looker).drive()


class SubscriptionCommitOperator(BaseOperator):
    """Commits the claim that the DAG run's claim task handed out. Raises ClaimUndecided when it is not open any more."""

    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        subscription: Subscription,
        task_id: str | None = None,
        claim_task_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        arguments = with_inlet(kwargs, subscription)
        super().__init__(task_id=task_id or COMMIT_PREFIX + subscription.name, **arguments)
        self.subscription = subscription
        self.claim_task_id = claim_task_id

    def execute(self, context: Context) -> dict[str, Any]:
        group = self.task_id.rpartition(".")[0]
        beside = f"{group}." if group else ""
        claim_task = self.claim_task_id or f"{beside}{CLAIM_PREFIX}{self.subscription.name}"
        claimed = context["ti"].xcom_pull(task_ids=claim_task)
        if not claimed:
            raise ClaimUndecided(
                f"the task {claim_task!r} of this DAG run has handed out no claim; name it: claim_task_id="
            )
        finish = asyncio.run(self._commit(context, claimed["claim"]))
        self.log.info("%s", finish.reason)
        return {"claim": claimed["claim"], "ranges": [one.to_json() for one in finish.ranges if not one.empty]}

    async def _commit(self, context: Context, token: str) -> Any:
        from databricks_bridge.feeds.look import Looker
        from databricks_bridge.hooks.databricks import open_workspace

        async with Looker(open_workspace) as looker:
            return await _driver(self.subscription, context, looker).commit(token)


def _driver(subscription: Subscription, context: Context, looker: Looker) -> Driver:
    from databricks_bridge.assets.ledgers import task_ledger
    from databricks_bridge.core.claims import Plan
    from databricks_bridge.core.parameter_names import as_of_names
    from databricks_bridge.core.record import Target
    from databricks_bridge.feeds.driver import Driver

    target = Target(f"dag {context['ti'].dag_id}", "", 0)
    as_of = frozenset(as_of_names(subscription.spec.sources))
    plan = Plan(subscription.spec, target, {}, around=True, as_of=as_of)
    return Driver(plan, task_ledger(subscription, context, looker), looker, None)
