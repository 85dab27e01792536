"""The transitions of a record, each a pure function from a record to the next one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from databricks_bridge.core import parameters
from databricks_bridge.core.commits import remembered
from databricks_bridge.core.errors import SourceError
from databricks_bridge.core.left_out import begun
from databricks_bridge.core.outcomes import Outcome
from databricks_bridge.core.parameter_names import as_of_name
from databricks_bridge.core.pending import Settled
from databricks_bridge.core.positions import Position, Range, TablePosition, merge
from databricks_bridge.core.record import Claim, ClaimStatus, Commit, Missing, Record, Target, claim_id_of, token_of
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.core.task_try import TaskTry
from databricks_bridge.core.texts import LONGEST_PART, bounded

LONGEST_PROBLEM = 1000
"""Bytes of a problem in the record (`core.texts`): it says which commands decide it."""

LONGEST_PAUSE = timedelta(minutes=15)
"""A run that never runs is tried again at least this often."""

GONE = "gone"
"""Stands for the life cycle of a run that the workspace does not show."""

DENIED = "postcondition does not hold"


@dataclass(frozen=True)
class Plan:
    """What one consumer brings: the subscription, its target, and the author's own job parameters.

    After `max_generations` runs of one claim that failed, the claim is blocked. `pause` comes before the next start
    after a run that never ran. With `postcondition` a success has to be proved before it is committed. With `wait` the
    timers are applied here and nothing new is waited for, looking again every `poll`. `around` is for a consumer that is
    no job: the claim is handed to other tasks, and no run proves it; then `nonce` is random text, for the claim's id.
    `as_of` are the aliases whose `<alias>_as_of` the job declares, and is sent. `conn_id` names the Airflow connection to the
    target's workspace. `task` is the try of the Airflow task that acts, so that its later tries know what it committed.
    """

    spec: SubscriptionSpec
    target: Target
    own_parameters: Mapping[str, str]
    max_generations: int = 3
    pause: timedelta = timedelta(seconds=30)
    postcondition: bool = False
    wait: bool = False
    around: bool = False
    poll: timedelta = timedelta(seconds=30)
    as_of: frozenset[str] = frozenset()
    conn_id: str = ""
    task: TaskTry | None = None
    nonce: str = ""

    @property
    def consumer(self) -> str:
        """The one consumer that the record will accept."""
        if self.around:
            return self.target.host
        return self.target.consumer


def started(plan: Plan, record: Record | None, settled: Settled, now: datetime) -> Record:
    """The record with first watermarks for sources that had none, and with what a choice decided."""
    base = record or Record(plan.spec.name, plan.consumer, {})
    new = sorted(set(settled.watermarks) - set(base.watermarks))
    what = "; ".join([f"started {', '.join(new)}"] * bool(new) + list(settled.notes))
    return base.after(now, what, watermarks=settled.watermarks, epoch=settled.epoch)


def claimed(
    plan: Plan,
    record: Record | None,
    settled: Settled,
    ranges: tuple[Range, ...],
    now: datetime,
    service_now: datetime | None = None,
) -> Record:
    """The record with a new claim of generation 0; first watermarks and choices are in the same write."""
    base = record or Record(plan.spec.name, plan.consumer, {})
    claim = _claim(plan, settled.epoch, ranges, plan.target, service_now or now, own=plan.own_parameters)
    what = "; ".join([*settled.notes, f"claimed {claim}"])
    return base.after(now, what, claim=claim, watermarks=settled.watermarks, epoch=settled.epoch, last_claimed_at=now)


def noted(record: Record, run_id: int, ranges: tuple[Range, ...], given: Mapping[str, str], now: datetime) -> Record:
    """The record whose claim names its run, with the ranges that this run was really given (a racer's, perhaps)."""
    claim = _open(record)
    adopted = ranges != claim.ranges
    kept = tuple(sorted((name, given.get(name, value)) for name, value in claim.parameters))
    what = f"run {run_id}" + (f" adopted with {', '.join(map(str, ranges))}" if adopted else " started")
    kept_claim = replace(
        claim, run_id=run_id, ranges=ranges, parameters=kept, status=_reopened(claim.status), missing=None
    )
    return record.after(now, what, claim=kept_claim)


def _reopened(status: ClaimStatus) -> ClaimStatus:
    return ClaimStatus.OPEN if status is ClaimStatus.UNDECIDED else status


def missed(record: Record, run_id: int | None, since: datetime, now: datetime) -> Record:
    """The record of a claim whose run the workspace does not show, for the first time."""
    what = f"run {run_id} is not shown" if run_id is not None else "no run with the claim's token is shown"
    return record.after(now, f"{what}; looking again", claim=replace(_open(record), missing=Missing(since, run_id)))


def shown_again(record: Record, run_id: int, now: datetime) -> Record:
    """The record of a claim whose run is shown again, or was repaired after nothing could tell of it."""
    claim = _open(record)
    return record.after(
        now, f"run {run_id} is shown again", claim=replace(claim, status=_reopened(claim.status), missing=None)
    )


def failed(plan: Plan, record: Record, outcome: Outcome, now: datetime, denied: str = "") -> Record:
    """The record after a failure that counts: failed, or blocked when it was the last one allowed.

    :param denied: what the postcondition had against a run that succeeded, or is gone.
    """
    claim = _open(record)
    failures = claim.failures + 1
    status = ClaimStatus.BLOCKED if failures >= plan.max_generations else ClaimStatus.FAILED
    denied = bounded(denied, LONGEST_PART)
    what = f"run {claim.run_id} {f'{ended(outcome)}, but its {DENIED}: {denied}' if denied else f'failed ({outcome})'}"
    return record.after(now, f"{what}, {status}", claim=replace(claim, status=status, failures=failures, denied=denied))


def ended(outcome: Outcome) -> str:
    """How a run ended that its postcondition does not confirm."""
    return "is gone" if outcome.life_cycle == GONE else "succeeded"


def followed_again(record: Record, now: datetime) -> Record:
    """The record whose failed claim's run is active again: a person repaired it."""
    claim = _open(record)
    return record.after(now, f"run {claim.run_id} is active again", claim=replace(claim, status=ClaimStatus.OPEN))


def after_failure(plan: Plan, record: Record, now: datetime) -> Record:
    """The record with the same claim under a new token, after a generation that failed. Failures stay counted."""
    old = _open(record)
    return _next(plan, record, replace(old, idle=0), f"after failed run {old.run_id}", now)


def after_deleted(plan: Plan, record: Record, why: str, now: datetime) -> Record:
    """The same after a run that a person deleted before it was noted. It does not count as a failure: nothing shows one."""
    old = _open(record)
    return _next(plan, record, replace(old, idle=0), f"the run of generation {old.generation} was deleted: {why}", now)


def after_nothing_ran(plan: Plan, record: Record, why: str, now: datetime) -> Record:
    """The same after a generation that never ran: it does not count, and the pause doubles, up to `LONGEST_PAUSE`."""
    old = _open(record)
    doublings = min(old.idle, 20)  # a timedelta ends at 2**57 seconds, an idle claim never
    pause = min(plan.pause * 2**doublings, max(plan.pause, LONGEST_PAUSE))
    return _next(plan, record, replace(old, idle=old.idle + 1, not_before=now + pause), why, now)


def _next(plan: Plan, record: Record, old: Claim, why: str, now: datetime) -> Record:
    ours = parameters.names_of_ranges(old.ranges)
    own = {name: value for name, value in old.parameters if name not in ours}
    claim = _claim(plan, record.epoch, old.ranges, old.target, now, own=own, after=old)
    return record.after(now, f"generation {claim.generation}: {why}", claim=claim, last_claimed_at=now)


def voided(record: Record, why: str, now: datetime) -> Record:
    """The record without a claim that never got a run and no longer fits its sources.

    Its earlier generations may have had runs, under tokens that a new claim of the same `from` would make again: a new
    epoch, the same for every racer, so that none of them can answer for it.
    """
    claim = _open(record)
    fresh = str(uuid.uuid5(uuid.NAMESPACE_URL, f"x-databricks-bridge://void/{claim.token}"))
    epoch = fresh if claim.generation else record.epoch
    return record.after(now, f"voided the claim on {claim}: {why}", claim=None, epoch=epoch)


def undecided(record: Record, run_id: int | None, why: str, now: datetime) -> Record:
    """The record whose claim waits for a person, and names the run that could not prove it, where its id is known."""
    claim = replace(_open(record), run_id=run_id, status=ClaimStatus.UNDECIDED)
    run = f"run {run_id}" if run_id is not None else "its run"
    return record.after(now, f"undecided: {run} {why}", claim=claim)


def refused(record: Record, error: SourceError, now: datetime) -> Record | None:
    """The record that says which decision its consumer waits for, for `status`; None where it says so already."""
    problem = bounded(f"{type(error).__name__}: {error}", LONGEST_PROBLEM)
    if record.problem == problem:
        return None
    return record.after(now, f"waits for a decision: {bounded(problem, LONGEST_PART)}", problem=problem)


def settled_again(record: Record, now: datetime) -> Record | None:
    """The record without a problem that is gone by itself; None where there was none."""
    return record.after(now, "goes on: the sources need no decision any more") if record.problem else None


def dropped(record: Record, now: datetime) -> Record:
    """The record without a claim whose ranges were committed before it started anything."""
    return record.after(now, f"dropped the claim on {_open(record)}: committed already", claim=None)


def handed_on(plan: Plan, record: Record, now: datetime) -> Record:
    """The record whose claim of external work goes to another task: the DAG run that had it is over."""
    claim = _open(record)
    before = f", DAG run {claim.task.run_id} is over" if claim.task else ""
    to = f"DAG run {plan.task.run_id}" if plan.task else "another task"
    return record.after(now, f"handed the claim on to {to}{before}", claim=replace(claim, task=plan.task))


def committed(record: Record, claim: Claim, run_id: int | None, now: datetime, task: TaskTry | None = None) -> Record:
    """The record with the watermarks merged forward and the claim gone, in one write, which a later try of `task` will know.

    Another claim than ours stays: its run may be at work.
    """
    ranges = tuple(one for one in claim.ranges if not one.empty) if claim.target.job_id else claim.ranges
    commit = Commit(claim.token, run_id, record.epoch, ranges, task)
    marks = {one.alias: _moved(record.watermarks.get(one.alias), one) for one in begun(claim.ranges, record.watermarks)}
    ours = record.claim is None or record.claim.token == claim.token
    return record.after(
        now,
        f"committed {claim}" + (f" by run {run_id}" if run_id is not None else ""),
        claim=None if ours else record.claim,
        watermarks={**record.watermarks, **marks},
        commits=remembered(record, commit),
    )


def _moved(mark: Position | None, one: Range) -> Position:
    """`to` was looked up from `from_` on, so it is complete by itself; only another mark than that has to be merged.

    A merge remembers runs below the mark for ever, and the record would outgrow its ledger.
    """
    return one.to if mark == one.from_ else merge(mark, one.to)


def _open(record: Record) -> Claim:
    assert record.claim is not None, "the protocol acts on an open claim here"
    return record.claim


def _claim(
    plan: Plan,
    epoch: str,
    ranges: tuple[Range, ...],
    target: Target,
    now: datetime,
    *,
    own: Mapping[str, str],
    after: Claim | None = None,
) -> Claim:
    name = plan.spec.name
    generation = after.generation + 1 if after else 0
    if plan.around:
        token = claim_id_of(name, target, epoch, ranges, generation, plan.nonce)
    else:
        token = token_of(name, target, epoch, {one.alias: one.from_ for one in ranges}, generation)
    sent = dict(after.parameters) if after else {as_of_name(alias) for alias in plan.as_of}
    as_of = {
        one.alias: one.to.at for one in ranges if isinstance(one.to, TablePosition) and as_of_name(one.alias) in sent
    }
    rendered = parameters.render(name, epoch, generation, token, ranges, own, as_of=as_of)
    if after is None:
        return Claim(ranges, token, generation, target, rendered, now, conn_id=plan.conn_id, task=plan.task)
    not_before = after.not_before if after.idle else None
    return Claim(
        ranges,
        token,
        generation,
        target,
        rendered,
        now,
        failures=after.failures,
        idle=after.idle,
        not_before=not_before,
        conn_id=plan.conn_id or after.conn_id,
        task=plan.task or after.task,
    )
