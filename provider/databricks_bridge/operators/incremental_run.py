"""An operator that runs a job once for each range of new data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from databricks_bridge.assets.inlets import with_inlet
from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.parameters import check_own
from databricks_bridge.core.sources import check_job
from databricks_bridge.links.run import DatabricksRunLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.core.acts import AwaitRun, Finish, Pause, Proved
    from databricks_bridge.core.positions import Range
    from databricks_bridge.core.record import Claim
    from databricks_bridge.triggers.polling import PollingTrigger

    Postcondition = Callable[[Sequence[Range], int], bool | str]

LONGEST_WAIT = timedelta(days=60)
"""Databricks keeps runs for 60 days (`jobs/runs/get-output`); no wait can be longer than that."""


class DatabricksIncrementalRunOperator(BaseOperator):
    """Claims what is pending in `subscription`, runs the job on exactly that, and commits when the run succeeded.

    Each range is committed exactly once, and at most one run at a time works on it. A failed run may have written
    before it failed, so the notebook's writes must be idempotent. An open claim is resolved first: after any crash the
    next try finds the same run again. The run is never cancelled by this task.

    Give `job_id` or `job_name` (exact). `job_parameters` are the author's own, strings; those of the claim are listed in
    `databricks_bridge.core.parameters`, and the job must declare them. `on_nothing_new` is "skip" or "succeed".
    After `max_generations` runs of one claim that failed, it is blocked. With `wait=True` the operator needs no sensor: it
    waits for something new and applies the subscription's timers. `postcondition(ranges, run_id)` is asked after a success
    and before the commit: True proves it; False, or text that says why, makes it a failed run. Returns `{"run_id", "ranges", "reason"}`.
    Raises RunFailed, ClaimError, SourceError, LedgerError, WorkspaceError.
    """

    ui_color = "#e8dff4"
    template_fields: Sequence[str] = ("databricks_conn_id", "job_id", "job_name", "job_parameters")
    operator_extra_links = (DatabricksRunLink(),)

    def __init__(
        self,
        *,
        subscription: Subscription,
        databricks_conn_id: str = "databricks_default",
        job_id: int | str | None = None,
        job_name: str | None = None,
        job_parameters: Mapping[str, str] | None = None,
        on_nothing_new: Literal["skip", "succeed"] = "skip",
        max_generations: int = 3,
        poll_interval: timedelta = timedelta(seconds=30),
        wait: bool = False,
        postcondition: Postcondition | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**with_inlet(kwargs, subscription))
        check_job(job_id, job_name, type(self).__name__)
        check_own({} if job_parameters is None else job_parameters, subscription.spec.sources)
        if on_nothing_new not in ("skip", "succeed"):
            raise InvalidArgument(f'on_nothing_new is {on_nothing_new!r}; use "skip" or "succeed"')
        if not isinstance(max_generations, int) or max_generations < 1:
            raise InvalidArgument(f"max_generations is {max_generations!r}; give a number from 1 on")
        if not isinstance(poll_interval, timedelta) or poll_interval <= timedelta(0):
            raise InvalidArgument(f"poll_interval is {poll_interval!r}; give a positive timedelta")
        self.subscription = subscription
        self.databricks_conn_id = databricks_conn_id
        self.job_id = job_id
        self.job_name = job_name
        self.job_parameters = job_parameters
        self.on_nothing_new = on_nothing_new
        self.max_generations = max_generations
        self.poll_interval = poll_interval
        self.wait = wait
        self.postcondition = postcondition
        self.deferrable = deferrable

    def execute(self, context: Context) -> dict[str, Any] | None:
        return self._go_on(context, datetime.now(UTC) + (self.execution_timeout or LONGEST_WAIT))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any] | None:
        """Go on from the record; the event only says that there is a reason to look.

        Raises AirflowTaskTimeout at the deadline: the run goes on, and the next try follows it.
        """
        from databricks_bridge.triggers.polling import raise_for

        raise_for(event)
        if event["status"] == "deadline":
            raise AirflowTaskTimeout(
                f"not done at {event['deadline']}; a run that was started goes on, the next try follows it"
            )
        return self._go_on(context, datetime.fromisoformat(event["deadline"]))

    def _go_on(self, context: Context, deadline: datetime) -> dict[str, Any] | None:
        from databricks_bridge.core.acts import Finish

        act = asyncio.run(self._drive(context))
        if not isinstance(act, Finish):
            self.defer(trigger=self._trigger(act, deadline), method_name="execute_complete")
            return None
        if not act.ranges:
            self.log.info("%s", act.reason)
            if self.on_nothing_new == "skip" and act.run_id is None:
                raise AirflowSkipException(act.reason)
        ranges = [one.to_json() for one in act.ranges if not one.empty]
        return {"run_id": act.run_id, "ranges": ranges, "reason": act.reason}

    def _trigger(self, act: AwaitRun | Pause, deadline: datetime) -> PollingTrigger:
        from databricks_bridge.core.acts import AwaitRun
        from databricks_bridge.triggers.pause import PauseTrigger
        from databricks_bridge.triggers.run import RunTrigger
        from databricks_bridge.triggers.subscription import SubscriptionTrigger

        seconds, until = self.poll_interval.total_seconds(), deadline.isoformat()
        if isinstance(act, AwaitRun):
            return RunTrigger(
                databricks_conn_id=self.databricks_conn_id, run_id=act.run_id, poll_interval=seconds, deadline=until
            )
        self.log.info("pausing until %s: %s", act.until.isoformat(), act.reason)
        if act.looking is not None:
            return SubscriptionTrigger.of(self.subscription.spec, act.looking, poll_interval=seconds, deadline=until)
        return PauseTrigger(until=act.until.isoformat(), deadline=until)

    async def _drive(self, context: Context) -> Finish | AwaitRun | Pause:
        from databricks_bridge.assets.ledgers import task_ledger
        from databricks_bridge.core.claims import Plan
        from databricks_bridge.core.record import Target
        from databricks_bridge.feeds.driver import Driver
        from databricks_bridge.feeds.look import Looker
        from databricks_bridge.feeds.runs import job_of
        from databricks_bridge.hooks.databricks import open_workspace

        spec = self.subscription.spec
        async with Looker(open_workspace) as looker:
            ledger = task_ledger(self.subscription, context, looker)
            workspace = await looker.workspace(self.databricks_conn_id)
            wanted = None if self.job_id is None else int(self.job_id)
            target = Target(
                workspace.host, await workspace.workspace_id(), await job_of(workspace, wanted, self.job_name)
            )
            own = {} if self.job_parameters is None else self.job_parameters
            check_own(own, spec.sources)
            plan = Plan(
                spec,
                target,
                own,
                self.max_generations,
                postcondition=self.postcondition is not None,
                wait=self.wait,
                poll=self.poll_interval,
            )
            driver = Driver(
                plan,
                ledger,
                looker,
                workspace,
                poll_interval=self.poll_interval,
                on_run=lambda run: self._show(context, run),
                prove=self._prove,
            )
            return await driver.drive(follow=not self.deferrable)

    async def _prove(self, claim: Claim, run_id: int) -> Proved:
        from databricks_bridge.core.acts import Proved

        said = self.postcondition(claim.ranges, run_id) if self.postcondition else True
        return Proved(said is True, "" if said is True else str(said or "it says no"))

    def _show(self, context: Context, run: Mapping[str, Any]) -> None:
        """Push run id and page for the link and for whoever looks on; pushed again only when the run is another."""
        if getattr(self, "_shown", None) == run["run_id"]:
            return
        self._shown = run["run_id"]
        self.log.info("run %s: %s", run["run_id"], run.get("run_page_url", ""))
        context["ti"].xcom_push(key="run_id", value=run["run_id"])
        context["ti"].xcom_push(key="run_page_url", value=run.get("run_page_url", ""))
