"""Claim and commit around tasks that are not Databricks jobs: `subscription.claim()` and `subscription.commit()`.

There is no token and no run here. The tasks between get the claim's id to be idempotent by. Airflow's state store has no
compare-and-set: with that ledger the DAG needs `max_active_runs=1`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from databricks_bridge.assets.inlets import with_inlet
from databricks_bridge.assets.retries import ends_for_good
from databricks_bridge.core.errors import ClaimUndecided, InvalidArgument
from databricks_bridge.core.texts import bounded
from databricks_bridge.ledgers.address import AirflowAddress
from databricks_bridge.operators.arguments import refuse_backfill, task_try_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.core.record import Claim
    from databricks_bridge.feeds.driver import Driver
    from databricks_bridge.feeds.look import Looker

CLAIM_PREFIX, COMMIT_PREFIX = "claim_", "commit_"


class SubscriptionClaimOperator(BaseOperator):
    """Claims what is pending and hands it on: `{"claim", "subscription", "ranges", "parameters"}`.

    `claim` is an id to be idempotent by: it never comes twice with another range. `parameters` are those that a job would get
    (`flights_start`, ...). An open claim of this DAG is handed on again, unchanged, until it is committed: to a retry of this
    task, and to another DAG run once the one that has it is over. Skips when there is nothing new, and while another DAG run
    has the claim. A retry gets what was claimed and committed already once more.

    Raises InvalidArgument, LedgerLost (there is no record, but its second copy), ClaimError, SourceError, WorkspaceError.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, subscription: Subscription, task_id: str | None = None, **kwargs: Any) -> None:
        arguments = with_inlet(kwargs, subscription)
        super().__init__(task_id=task_id or CLAIM_PREFIX + subscription.name, **arguments)
        self.subscription = subscription
        check_active_runs(self, subscription)

    @ends_for_good
    def execute(self, context: Context) -> dict[str, Any]:
        check_active_runs(self, self.subscription)
        refuse_backfill(context, self.subscription.name)
        finish = asyncio.run(self._claim(context))
        claim = finish.claim
        if claim is None:
            raise AirflowSkipException(bounded(finish.reason))
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
    """Commits the claim that the DAG run's claim task handed out. Committed already, by an earlier try whose word was lost, it
    succeeds again. Raises ClaimUndecided when it is not open any more and nothing tells that it was committed.
    """

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
        check_active_runs(self, subscription)

    @ends_for_good
    def execute(self, context: Context) -> dict[str, Any]:
        check_active_runs(self, self.subscription)
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


def check_active_runs(task: BaseOperator, subscription: Subscription) -> None:
    """Raise InvalidArgument where two DAG runs could work on one claim: as soon as the DAG is known, at parse or when the task
    runs.
    """
    dag = task.get_dag()
    if dag is None or dag.max_active_runs == 1 or not isinstance(subscription.ledger, AirflowAddress):
        return
    raise InvalidArgument(
        f"DAG {dag.dag_id!r} may have {dag.max_active_runs} active runs, and {task.task_id!r} hands out claims of subscription "
        f"{subscription.name!r} from the Airflow ledger, which has no compare-and-set: two DAG runs could do the same work. Set "
        "max_active_runs=1 on the DAG, or keep the record in an object store (ledger='s3://bucket/prefix')"
    )


async def dag_run_is_active(claim: Claim) -> bool:
    """Whether the DAG run that has this claim is queued or running. One that Airflow does not know any more is over."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    task = claim.task
    if task is None:
        return False
    try:
        state = RuntimeTaskInstance.get_dagrun_state(task.dag_id, task.run_id)
    except AirflowRuntimeError as error:
        if (error.error.detail or {}).get("status_code") == 404:
            return False
        raise
    return str(getattr(state, "value", state)) in ("queued", "running")


def _driver(subscription: Subscription, context: Context, looker: Looker) -> Driver:
    from databricks_bridge.assets.ledgers import task_ledger
    from databricks_bridge.assets.second_copy import CopiedLedger
    from databricks_bridge.core.around import consumer_of_dag
    from databricks_bridge.core.claims import Plan
    from databricks_bridge.core.parameter_names import as_of_names
    from databricks_bridge.core.record import Target
    from databricks_bridge.feeds.driver import Driver

    target = Target(consumer_of_dag(context["ti"].dag_id), "", 0)
    as_of = frozenset(as_of_names(subscription.spec.sources))
    nonce = uuid.uuid4().hex
    plan = Plan(subscription.spec, target, {}, around=True, as_of=as_of, task=task_try_of(context), nonce=nonce)
    ledger = CopiedLedger(task_ledger(subscription, context, looker), subscription.name)
    return Driver(plan, ledger, looker, None, dag_run_is_active=dag_run_is_active, second_copy=ledger.copy_place)
