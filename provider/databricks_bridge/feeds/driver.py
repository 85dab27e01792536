"""Does the acts of the protocol against real parts, and reports what it saw. One driver for every adapter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from databricks_bridge.core import acts
from databricks_bridge.core.around import begin_commit
from databricks_bridge.core.backfill import EPOCH as BACKFILL
from databricks_bridge.core.cancelling import cancelled, is_run_of
from databricks_bridge.core.claims import Plan, refused, settled_again
from databricks_bridge.core.errors import (
    BridgeError,
    InvalidArgument,
    LedgerError,
    NotFound,
    SourceError,
    Unavailable,
    WriteLost,
)
from databricks_bridge.core.left_out import LeftOut, left_out, words_of
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.parameter_names import SUBSCRIPTION, as_of_names, names_of
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.pending import Finding
from databricks_bridge.core.policy import Condition
from databricks_bridge.core.positions import Position
from databricks_bridge.core.protocol import begin, step
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.steps import Step
from databricks_bridge.feeds.claim_runs import cancel_unless_over, errors_of, find_run, may_be_active
from databricks_bridge.feeds.look import Looker
from databricks_bridge.feeds.new_states import warn_once
from databricks_bridge.feeds.shares import check_readers
from databricks_bridge.feeds.starting import is_continuous, job_deleted, refuse_continuous, start_run
from databricks_bridge.ledgers.protocol import Ledger
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


async def _no_dag_run(claim: Claim) -> bool:
    return False


async def _no_copy() -> str:
    return ""


async def _nothing_to_prove(claim: Claim, run_id: int) -> acts.Proved:
    return acts.Proved(True)


@dataclass
class Driver:
    """One consumer's way through the protocol.

    `target` is the open client of the downstream workspace, None where the consumer is no job. `on_run` is told every run as soon as it is known, as the
    raw answer of `runs/get`. Around external work `dag_run_is_active` asks Airflow for the DAG run that has a claim, and
    `second_copy` says where the record's second copy is.
    """

    plan: Plan
    ledger: Ledger
    looker: Looker
    target: Workspace | None
    poll_interval: timedelta = timedelta(seconds=30)
    on_run: Callable[[Mapping[str, Any]], None] = lambda run: None
    prove: Callable[[Claim, int], Awaitable[acts.Proved]] = _nothing_to_prove
    dag_run_is_active: Callable[[Claim], Awaitable[bool]] = _no_dag_run
    second_copy: Callable[[], Awaitable[str]] = _no_copy
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _continuous: bool = False

    async def drive(self, *, follow: bool = True) -> acts.Finish | acts.AwaitRun | acts.Pause:
        """Act until the claim is done. With `follow=False` an active run, or a pause, is handed back to be awaited
        elsewhere.

        Raises the BridgeError of a Fail, and whatever a part raised: then nothing is lost, and the next process
        begins again from the record.
        """
        return await self._drive(begin(), follow)

    async def commit(self, token: str) -> acts.Finish | acts.AwaitRun | acts.Pause:
        """Commit the open claim of this token, which other tasks worked on. Raises ClaimUndecided, LedgerError."""
        return await self._drive(begin_commit(token), follow=True)

    async def do(self, act: acts.Act) -> acts.Observation:
        """Do one act, for who takes the steps himself."""
        return await self._do(act)

    async def cancel(self, run_id: int, why: str) -> bool:
        """Cancel the run of the open claim and record it; False, and nothing done, for a run that is over or another's."""
        record = await self.ledger.read()
        if record is None or not is_run_of(record, run_id):
            return False
        if not await may_be_active(self._workspace, run_id):
            return False
        # Written first: a process that comes between the two must not take what ends now for a failure.
        while record is not None and is_run_of(record, run_id):
            if isinstance(await self._do(acts.WriteRecord(cancelled(record, why, self.now()))), acts.RecordWritten):
                break
            record = await self.ledger.read()
        return await cancel_unless_over(self._workspace, run_id)

    async def _drive(self, first: Step, follow: bool) -> acts.Finish | acts.AwaitRun | acts.Pause:
        memory, act = first
        while True:
            log.debug("act %s", act)
            if isinstance(act, acts.Finish) or (isinstance(act, acts.AwaitRun | acts.Pause) and not follow):
                await self._tell(memory.record, None)
                return act
            if isinstance(act, acts.Fail):
                await self._tell(memory.record, act.error)
                raise act.error
            try:
                observation = await self._do(act)
            except SourceError as error:
                await self._tell(memory.record, error)
                raise
            service_now = self.target.service_now() if self.target is not None else None
            memory, act = step(self.plan, memory, observation, self.now(), service_now)

    async def _tell(self, record: Record | None, error: BridgeError | None) -> None:
        """Write into the record that a source needs a decision, or that it needs none any more. Never raises for the ledger."""
        if record is None:
            return
        if error is None:
            told = settled_again(record, self.now())
        else:
            told = refused(record, error, self.now()) if isinstance(error, SourceError) else None
        if told is not None:
            try:
                await self.ledger.write(told)
            except LedgerError as lost:
                log.warning("the record does not say %s: %s", told.history[-1].what, lost)

    async def _do(self, act: acts.Act) -> acts.Observation:
        match act:
            case acts.ReadRecord():
                return acts.RecordRead(await self.ledger.read())
            case acts.WriteRecord(record):
                return await self._write(record)
            case acts.Look(record):
                await self._check_job(new=record is None or record.claim is None)
                marks = record.watermarks if record else {}
                findings = await self.looker.look(self.plan.spec, marks, thorough=True)
                findings = await self._readable(findings, marks)
                for words in words_of(findings):
                    log.warning("%s; the other sources go on without it", words)
                return acts.Looked(findings)
            case acts.Survey():
                if self.plan.around:
                    return acts.Surveyed(None, await self.second_copy())
                return acts.Surveyed(await self._survey())
            case acts.AskDagRun(claim):
                return acts.DagRunSeen(await self.dag_run_is_active(claim))
            case acts.Prove():
                return await self._proved(act)
            case acts.StartRun(claim):
                return await start_run(self._workspace, claim, continuous=self._continuous, sleep=self.sleep)
            case acts.FindRun(claim, run_id):
                return acts.RunFound(await find_run(self._workspace, claim, run_id))
            case acts.GetRun(run_id):
                return await self._get(run_id)
            case acts.AwaitRun(run_id):
                return await self._await(run_id)
            case acts.Pause(until=until, reason=reason):
                log.info("pausing until %s: %s", until.isoformat(), reason)
                await self.sleep(max(0.0, (until - self.now()).total_seconds()))
                return acts.Woke()
        raise TypeError(f"no way to do {act!r}")

    @property
    def _workspace(self) -> Workspace:
        if self.target is None:
            raise TypeError("this consumer is no job; the protocol asks nothing of a workspace for it")
        return self.target

    async def _readable(self, findings: Mapping[str, Finding], marks: Mapping[str, Position]) -> dict[str, Finding]:
        """The findings without the sources that the consumer could not read: with ANY_UPDATED the others go on, as in a poll."""
        found = dict(findings)
        if self.target is None:
            return found
        errors: list[BridgeError] = []
        for source in self.plan.spec.sources:
            if source.alias in left_out(findings):
                continue
            try:
                await check_readers(self.looker.workspace, self.target, [source], marks)
            except BridgeError as error:
                if self.plan.spec.policy.condition is Condition.ALL_UPDATED:
                    raise
                errors.append(error)
                found[source.alias] = LeftOut(error, self.now())
        if errors and len(left_out(found)) == len(found):
            raise errors[0]
        return found

    async def _check_job(self, *, new: bool) -> None:
        """Refuse a job that does not declare what the claim will send: its run could not show what it was given; and before
        a `new` claim one that is continuous, for which run-now starts no run of ours.

        What a job need not declare is sent where it does.
        """
        if self.target is None:
            return
        job_id = self.plan.target.job_id
        try:
            settings = (await self._workspace.get_job(job_id)).get("settings") or {}
        except NotFound as error:
            raise job_deleted(self.plan.target, error) from error
        declared = {one["name"] for one in settings.get("parameters") or []}
        self._continuous = is_continuous(settings)
        if new and self._continuous:
            raise refuse_continuous(self.plan.target)
        missing = sorted(names_of(self.plan.spec.sources, self.plan.own_parameters) - declared)
        if missing:
            raise InvalidArgument(
                f"job {settings.get('name', job_id)!r} in {self._workspace.host} does not declare the job parameters "
                f"{', '.join(missing)}; add them to its parameters with an empty default"
            )
        known = as_of_names(self.plan.spec.sources)
        self.plan = replace(self.plan, as_of=frozenset(alias for alias, name in known.items() if name in declared))

    async def _write(self, record: Record) -> acts.Observation:
        try:
            await self.ledger.write(record)
        except WriteLost as lost:
            log.warning("%s; reading it again", lost)
            return acts.RecordLost()
        log.info("ledger: %s", record.history[-1].what)
        return acts.RecordWritten()

    async def _survey(self) -> int | None:
        names = (self.plan.spec.name, *self.plan.spec.formerly)
        async for run in self._workspace.list_runs(job_id=self.plan.target.job_id):
            given = of_run(run)
            if given.get(SUBSCRIPTION) in names and given.get("bridge_epoch") != BACKFILL:
                return int(run["run_id"])
        return None

    async def _get(self, run_id: int) -> acts.RunSeen | acts.RunGone:
        try:
            run = await self._workspace.get_run(run_id)
        except NotFound:
            return acts.RunGone(run_id)
        self.on_run(run)
        warn_once(run)
        outcome = outcome_of(run)
        failed = outcome.ending is Ending.FAILED
        error, behind = await errors_of(self._workspace, run) if failed else ("", False)
        return acts.RunSeen(run_id, outcome, of_run(run), error, behind)

    async def _proved(self, act: acts.Prove) -> acts.Proved:
        try:
            return await self.prove(act.claim, act.run_id)
        except Unavailable:
            raise
        except Exception as error:
            if not act.gone:
                raise
            log.warning("run %s is gone, and its postcondition cannot tell", act.run_id, exc_info=True)
            return acts.Proved(False, f"its postcondition cannot tell: {error}", certain=False)

    async def _await(self, run_id: int) -> acts.RunSeen | acts.RunGone:
        while True:
            try:
                seen = await self._get(run_id)
                if isinstance(seen, acts.RunGone) or seen.outcome.ending is not Ending.ACTIVE:
                    return seen
            except Unavailable as error:
                log.warning("run %s: %s; asking again", run_id, error)
            await self.sleep(self.poll_interval.total_seconds())
