"""The transitions of a record, each a pure function from a record to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from databricks_bridge.core import parameters
from databricks_bridge.core.outcomes import Outcome
from databricks_bridge.core.positions import Position, Range, merge
from databricks_bridge.core.record import Claim, ClaimStatus, Record, Target, token_of
from databricks_bridge.core.subscription import SubscriptionSpec


@dataclass(frozen=True)
class Plan:
    """What one consumer brings: the subscription, its target, and the author's own job parameters.

    After `max_generations` runs of one claim that failed, the claim is blocked. `pause` comes before the next start
    after a run that never ran.
    """

    spec: SubscriptionSpec
    target: Target
    own_parameters: Mapping[str, str]
    max_generations: int = 3
    pause: timedelta = timedelta(seconds=30)

    @property
    def consumer(self) -> str:
        """The one consumer that the record will accept."""
        return f"{self.target.host} job {self.target.job_id}"


def started(plan: Plan, record: Record | None, watermarks: Mapping[str, Position], now: datetime) -> Record:
    """The record with first watermarks for sources that had none."""
    base = record or Record(plan.spec.name, plan.consumer, {})
    new = sorted(set(watermarks) - set(base.watermarks))
    return base.after(now, f"started {', '.join(new)}", watermarks=dict(watermarks))


def claimed(
    plan: Plan, record: Record | None, watermarks: Mapping[str, Position], ranges: tuple[Range, ...], now: datetime
) -> Record:
    """The record with a new claim of generation 0; sources without a watermark start in the same write."""
    base = record or Record(plan.spec.name, plan.consumer, {})
    claim = _claim(plan, base.epoch, ranges, plan.target, generation=0, failures=0, now=now)
    return base.after(
        now, f"claimed {claim}", claim=claim, watermarks=dict(watermarks), last_claimed_at=now, consumer=plan.consumer
    )


def noted(record: Record, run_id: int, ranges: tuple[Range, ...], given: Mapping[str, str], now: datetime) -> Record:
    """The record whose claim names its run, with the ranges that this run was really given (a racer's, perhaps)."""
    claim = _open(record)
    adopted = ranges != claim.ranges
    kept = tuple(sorted((name, given.get(name, value)) for name, value in claim.parameters))
    what = f"run {run_id}" + (f" adopted with {', '.join(map(str, ranges))}" if adopted else " started")
    return record.after(now, what, claim=replace(claim, run_id=run_id, ranges=ranges, parameters=kept))


def failed(plan: Plan, record: Record, outcome: Outcome, now: datetime) -> Record:
    """The record after a failure that counts: failed, or blocked when it was the last one allowed."""
    claim = _open(record)
    failures = claim.failures + 1
    status = ClaimStatus.BLOCKED if failures >= plan.max_generations else ClaimStatus.FAILED
    return record.after(
        now, f"run {claim.run_id} failed ({outcome}), {status}", claim=replace(claim, status=status, failures=failures)
    )


def followed_again(record: Record, now: datetime) -> Record:
    """The record whose failed claim's run is active again: a person repaired it."""
    claim = _open(record)
    return record.after(now, f"run {claim.run_id} is active again", claim=replace(claim, status=ClaimStatus.OPEN))


def next_generation(plan: Plan, record: Record, now: datetime, why: str, pause: timedelta) -> Record:
    """The record with the same ranges under a new token. `failures` stay as they were counted."""
    old = _open(record)
    claim = _claim(plan, record.epoch, old.ranges, old.target, old.generation + 1, old.failures, now)
    claim = replace(claim, not_before=now + pause if pause else None)
    return record.after(now, f"generation {claim.generation}: {why}", claim=claim, last_claimed_at=now)


def undecided(record: Record, run_id: int, why: str, now: datetime) -> Record:
    """The record whose claim waits for a person, and names the run that could not prove it."""
    claim = replace(_open(record), run_id=run_id, status=ClaimStatus.UNDECIDED)
    return record.after(now, f"undecided: run {run_id} {why}", claim=claim)


def dropped(record: Record, now: datetime) -> Record:
    """The record without a claim whose ranges were committed before it started anything."""
    return record.after(now, f"dropped the claim on {_open(record)}: committed already", claim=None)


def committed(record: Record, claim: Claim, run_id: int, now: datetime) -> Record:
    """The record with the watermarks merged forward and the claim gone, in one write.

    Another claim than ours stays: its run may be at work.
    """
    marks = {one.alias: _moved(record.watermarks.get(one.alias), one) for one in claim.ranges}
    ours = record.claim is None or record.claim.token == claim.token
    return record.after(
        now,
        f"committed {claim} by run {run_id}",
        claim=None if ours else record.claim,
        watermarks={**record.watermarks, **marks},
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
    plan: Plan, epoch: str, ranges: tuple[Range, ...], target: Target, generation: int, failures: int, now: datetime
) -> Claim:
    name = plan.spec.name
    token = token_of(name, target, epoch, {one.alias: one.from_ for one in ranges}, generation)
    rendered = parameters.render(name, epoch, generation, token, ranges, plan.own_parameters)
    return Claim(ranges, token, generation, target, rendered, now, failures=failures)
