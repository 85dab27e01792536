"""An operator that runs a job once for each range of new data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout

from databricks_bridge.assets.inlets import with_inlet
from databricks_bridge.assets.retries import ends_for_good
from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.sources import check_job
from databricks_bridge.links.run import DatabricksRunLink
from databricks_bridge.operators import arguments

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.core.acts import AwaitRun, Finish, Pause, Proved
    from databricks_bridge.core.positions import Range
    from databricks_bridge.core.postconditions import Readable
    from databricks_bridge.core.record import Claim
    from databricks_bridge.feeds.driver import Driver
    from databricks_bridge.feeds.look import Looker
    from databricks_bridge.ledgers.protocol import Ledger
    from databricks_bridge.operators.stopping import Stopping
    from databricks_bridge.triggers.polling import PollingTrigger
    from databricks_bridge.workspace.client import Workspace

    Condition = Readable | Callable[[Sequence[Range], int], bool | str]

LONGEST_WAIT = timedelta(days=60)
"""Databricks keeps runs for 60 days (`jobs/runs/get-output`); no wait can be longer than that."""


class DatabricksIncrementalRunOperator(BaseOperator):
    """Claims what is pending in `subscription`, runs the job on exactly that, and commits when the run succeeded.

    Each range is committed exactly once, and at most one run at a time works on it. A failed run may have written
    before it failed, so the notebook's writes must be idempotent. An open claim is resolved first: after any crash the
    next try finds the same run again. A run is cancelled only when a person marks the task `failed` or `success`, and Airflow's
    state leaves no doubt of it (`core.cancelling`): for `failed` that takes a task with a retry left, in a DAG without `fail_fast`.

    Give `job_id` or `job_name` (exact). `job_parameters` are the author's own, strings; those of the claim are listed in
    `databricks_bridge.core.parameters`, and the job must declare them. `on_nothing_new` is "skip" or "succeed".
    A try that comes after a commit returns that commit: what an earlier try of the same DAG run, task and map index committed is
    the task's result, with the same XCom. A task that a person cleared processes what is pending, and returns that commit where
    nothing is. After `max_generations` runs of one claim that failed, it is blocked. With `wait=True` the operator needs no sensor: it
    waits for something new and applies the subscription's timers. `postcondition` is asked after a success
    and before the commit: CheckpointReached, ControlTableReached, a function of `(ranges, run_id)` that gives True or text that
    says why not, or a sequence of these, all of which must hold. One that does not hold makes it a failed run.

    `range` is for a backfill: `{"flights": (3, 7)}`, from exclusive, to inclusive, every source of the subscription named,
    `(n, n)` for nothing; or JSON text of that. It moves no watermark and touches no claim. One DAG run, task and map index
    gets one successful run for it: a retry or a clear finds that again, and starts another one only after a failure. With
    `rerun=True` a clear by a person runs the range again; a retry never does, and a run that is still under way is followed.
    Without `range` a DAG run of Airflow's backfill is refused.

    Returns `{"run_id", "ranges", "reason"}`. Raises RunFailed, ClaimError, SourceError, LedgerError, WorkspaceError.
    """

    ui_color = "#e8dff4"
    template_fields: Sequence[str] = (
        "databricks_conn_id",
        "job_id",
        "job_name",
        "job_parameters",
        "range",
        "rerun",
        "on_nothing_new",
        "max_generations",
    )
    template_fields_renderers: Mapping[str, str] = {"job_parameters": "json", "range": "json"}
    operator_extra_links = (DatabricksRunLink(),)

    subscription: Subscription
    databricks_conn_id: str
    job_id: int | str | None
    job_name: str | None
    job_parameters: Mapping[str, str] | None
    range: Mapping[str, Sequence[int | str]] | str | None
    rerun: bool | str
    on_nothing_new: Literal["skip", "succeed"]
    max_generations: int | str
    poll_interval: timedelta
    wait: bool
    postcondition: Condition | Sequence[Condition] | None
    deferrable: bool
    _inlet_given: bool

    def __init__(
        self,
        *,
        subscription: Subscription,
        databricks_conn_id: str = "databricks_default",
        job_id: int | str | None = None,
        job_name: str | None = None,
        job_parameters: Mapping[str, str] | None = None,
        range: Mapping[str, Sequence[int | str]] | str | None = None,
        rerun: bool | str = False,
        on_nothing_new: Literal["skip", "succeed"] = "skip",
        max_generations: int | str = 3,
        poll_interval: timedelta = timedelta(seconds=30),
        wait: bool = False,
        postcondition: Condition | Sequence[Condition] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        completed = with_inlet(kwargs, subscription)
        super().__init__(**completed)
        sources = subscription.spec.sources
        if any(map(arguments.is_late, (job_id, job_name))):
            check_job(job_id, None if job_name is None else "known later", type(self).__name__)
        else:
            arguments.job_of_arguments(job_id, job_name, type(self).__name__)
        arguments.check_parameters(job_parameters, sources)
        arguments.check_range(range, sources)
        arguments.check_on_nothing_new(on_nothing_new)
        if not arguments.is_late(rerun):
            arguments.flag_of(rerun, "rerun")
        if not arguments.is_late(max_generations):
            arguments.count_of(max_generations, "max_generations")
        if not isinstance(poll_interval, timedelta) or poll_interval <= timedelta(0):
            raise InvalidArgument(f"poll_interval is {poll_interval!r}; give a positive timedelta")
        if postcondition is not None:
            # Imported where it is used: most DAG files have none, and every one pays for what this module imports.
            from databricks_bridge.core.postconditions import conditions_of

            conditions_of(postcondition, sources)
        # At once: Airflow looks for a converter of each name that is set by itself, a tenth of this constructor's time.
        self.__dict__.update(
            subscription=subscription,
            databricks_conn_id=databricks_conn_id,
            job_id=job_id,
            job_name=job_name,
            job_parameters=job_parameters,
            range=range,
            rerun=rerun,
            on_nothing_new=on_nothing_new,
            max_generations=max_generations,
            poll_interval=poll_interval,
            wait=wait,
            postcondition=postcondition,
            deferrable=deferrable,
            _inlet_given=completed["inlets"] == kwargs.get("inlets"),
        )

    @ends_for_good
    def execute(self, context: Context) -> dict[str, Any] | None:
        return self._go_on(context, datetime.now(UTC) + (self.execution_timeout or LONGEST_WAIT), None)

    @ends_for_good
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
        return self._go_on(context, datetime.fromisoformat(event["deadline"]), event)

    def on_kill(self) -> None:
        """Airflow asks this process to stop, for whatever reason; called from its signal handler."""
        stopping: Stopping | None = getattr(self, "_stopping", None)
        if stopping is not None:
            stopping.ask()

    def _go_on(self, context: Context, deadline: datetime, event: dict[str, Any] | None) -> dict[str, Any] | None:
        from databricks_bridge.core.acts import Finish
        from databricks_bridge.core.texts import bounded

        arguments.check_on_nothing_new(self.on_nothing_new)
        act = asyncio.run(self._drive(context, event))
        if not isinstance(act, Finish):
            self.defer(trigger=self._trigger(context, act, deadline), method_name="execute_complete")
            return None
        if not act.ranges:
            self.log.info("%s", act.reason)
            if self.on_nothing_new == "skip" and act.run_id is None:
                raise AirflowSkipException(bounded(act.reason))
        ranges = [one.to_json() for one in act.ranges if not one.empty]
        return {"run_id": act.run_id, "ranges": ranges, "reason": bounded(act.reason)}

    def _trigger(self, context: Context, act: AwaitRun | Pause, deadline: datetime) -> PollingTrigger:
        from databricks_bridge.core.acts import AwaitRun
        from databricks_bridge.operators.stopping import Tried
        from databricks_bridge.triggers.pause import PauseTrigger
        from databricks_bridge.triggers.run import RunTrigger
        from databricks_bridge.triggers.subscription import SubscriptionTrigger

        seconds, until = self.poll_interval.total_seconds(), deadline.isoformat()
        if isinstance(act, AwaitRun):
            return RunTrigger(
                databricks_conn_id=self.databricks_conn_id,
                run_id=act.run_id,
                poll_interval=seconds,
                deadline=until,
                tried=Tried.of(context).to_json(),
            )
        self.log.info("pausing until %s: %s", act.until.isoformat(), act.reason)
        if act.looking is not None:
            spec, now = self.subscription.spec, datetime.now(UTC)
            return SubscriptionTrigger.of(spec, act.looking, poll_interval=seconds, deadline=until, now=now)
        return PauseTrigger(until=act.until.isoformat(), deadline=until)

    async def _drive(self, context: Context, event: dict[str, Any] | None) -> Finish | AwaitRun | Pause:
        from databricks_bridge.assets.ledgers import task_ledger
        from databricks_bridge.feeds.look import Looker
        from databricks_bridge.hooks.databricks import open_workspace
        from databricks_bridge.operators.stopping import Marked, Stopping, Tried

        arguments.check_mapped(self, context, self._inlet_given)
        bounds = arguments.bounds_or_none(self.range, self.subscription.spec.sources)
        if bounds is None:
            arguments.refuse_backfill(context, self.subscription.name)
        async with Looker(open_workspace) as looker:
            ledger = task_ledger(self.subscription, context, looker)
            workspace = await looker.workspace(self.databricks_conn_id)
            driver = await self._driver(context, ledger, looker, workspace)
            if bounds is None:
                work = driver.drive(follow=not self.deferrable)
            else:
                work = self._backfill(context, driver, workspace, bounds, event)
            self._stopping = Stopping(lambda: Tried.of(context))
            try:
                act = await self._stopping.during(work)
                await self._show_again(context, driver, act)
                return act
            except Marked as marked:
                await self._cancel(driver, workspace, marked.state, backfill=bounds is not None)
                # Neither is retried, and neither changes the state that the person has set.
                ended = AirflowFailException if marked.state == "failed" else AirflowSkipException
                raise ended(f"a person marked the task {marked.state}; this process ends here") from None

    async def _driver(self, context: Context, ledger: Ledger, looker: Looker, workspace: Workspace) -> Driver:
        from databricks_bridge.core.claims import Plan
        from databricks_bridge.core.postconditions import conditions_of
        from databricks_bridge.core.record import Target
        from databricks_bridge.feeds.driver import Driver
        from databricks_bridge.feeds.runs import job_of
        from databricks_bridge.operators.proving import prove

        spec = self.subscription.spec
        job = arguments.job_of_arguments(self.job_id, self.job_name, type(self).__name__)
        conditions = conditions_of(self.postcondition, spec.sources)
        plan = Plan(
            spec,
            Target(workspace.host, await workspace.workspace_id(), await job_of(workspace, *job)),
            arguments.own_parameters(self.job_parameters, spec.sources),
            arguments.count_of(self.max_generations, "max_generations"),
            postcondition=bool(conditions),
            wait=self.wait,
            poll=self.poll_interval,
            conn_id=self.databricks_conn_id,
            task=arguments.task_try_of(context),
        )

        async def proved(claim: Claim, run_id: int) -> Proved:
            return await prove(
                conditions,
                claim,
                run_id,
                subscription=spec.name,
                databricks_conn_id=self.databricks_conn_id,
                looker=looker,
                sources=spec.sources,
            )

        return Driver(
            plan,
            ledger,
            looker,
            workspace,
            poll_interval=self.poll_interval,
            on_run=lambda run: self._show(context, run),
            prove=proved,
        )

    async def _backfill(
        self,
        context: Context,
        driver: Driver,
        workspace: Workspace,
        bounds: Mapping[str, tuple[int, int]],
        event: dict[str, Any] | None,
    ) -> Finish | AwaitRun | Pause:
        from databricks_bridge.core.backfill import Asking, Backfill, first_try_since_clear
        from databricks_bridge.feeds.backfill import BackfillDriver

        ti: Any = context["ti"]
        cleared = first_try_since_clear(int(ti.max_tries or 0), int(self.retries or 0))
        map_index = -1 if ti.map_index is None else ti.map_index
        rerun = arguments.flag_of(self.rerun, "rerun")
        asking = Asking(ti.dag_id, ti.run_id, ti.task_id, map_index, cleared if rerun else 0)
        backfill = Backfill(self.subscription.name, driver.plan.target, bounds, asking)
        awaited = event.get("run_id") if event is not None else None
        again = event is not None or ti.try_number > 1
        way = BackfillDriver(driver, workspace, backfill, context["dag_run"].run_after, cleared > 0)
        return await way.drive(follow=not self.deferrable, again=again, awaited=awaited)

    async def _cancel(self, driver: Driver, workspace: Workspace, state: str, *, backfill: bool) -> None:
        from databricks_bridge.feeds.backfill import cancel_backfill

        run_id: int | None = getattr(self, "_shown", None)
        if run_id is None:
            return
        why = f"a person marked the task {state}"
        if not await (cancel_backfill(workspace, run_id) if backfill else driver.cancel(run_id, why)):
            return
        self.log.info("run %s is cancelled: %s", run_id, why)

    async def _show_again(self, context: Context, driver: Driver, act: Finish | AwaitRun | Pause) -> None:
        """Push what an earlier try had pushed, where this one returns its commit: Airflow has cleared that."""
        from databricks_bridge.core.acts import Finish, GetRun
        from databricks_bridge.core.errors import Unavailable, WorkspaceError

        if not isinstance(act, Finish) or act.run_id is None or getattr(self, "_shown", None) == act.run_id:
            return
        self.log.info("an earlier try of this task committed this with run %s", act.run_id)
        try:
            await driver.do(GetRun(act.run_id))
        except (Unavailable, WorkspaceError) as error:
            self.log.warning("the page of run %s is not known: %s", act.run_id, error)
        if getattr(self, "_shown", None) != act.run_id:
            self._show(context, {"run_id": act.run_id})

    def _show(self, context: Context, run: Mapping[str, Any]) -> None:
        """Push run id and page for the link and for whoever looks on; pushed again only when the run is another."""
        if getattr(self, "_shown", None) == run["run_id"]:
            return
        self._shown = run["run_id"]
        self.log.info("run %s: %s", run["run_id"], run.get("run_page_url", ""))
        context["ti"].xcom_push(key="run_id", value=run["run_id"])
        context["ti"].xcom_push(key="run_page_url", value=run.get("run_page_url", ""))
