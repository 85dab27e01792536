"""From the record to a claim: an open claim first, else poll, evaluate and claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from databricks_bridge.core import around, claims, pending, rebuild
from databricks_bridge.core.acts import (
    FindRun,
    Finish,
    GetRun,
    Look,
    Looked,
    Observation,
    Pause,
    ReadRecord,
    RecordRead,
    RecordWritten,
    RunFound,
    StartRun,
    Survey,
    Surveyed,
    Woke,
    WriteRecord,
)
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.commits import commit_of, untold_commit
from databricks_bridge.core.errors import LedgerLost
from databricks_bridge.core.left_out import begun, left_out, words_of
from databricks_bridge.core.policy import Hold, Policy, decide
from databricks_bridge.core.positions import covers
from databricks_bridge.core.protocol.gone import still_missing
from databricks_bridge.core.protocol.verifying import nothing_can_tell
from databricks_bridge.core.record import FIRST_EPOCH, Claim, ClaimStatus, Commit, Record, shown_ranges
from databricks_bridge.core.steps import Continuation, Memory, State, Step, begin, check_owner, claim_of, expect

TOKEN_TRUSTED = timedelta(hours=20)
"""How old a claim may be for a repeated run-now to be trusted to find its own run: Databricks keeps a token for about 24
hours, and clocks differ. After that the runs are searched first."""

CLOCKS_APART = timedelta(hours=2)
"""How much later than now a claim may have been written, by a clock that is ahead. 20 hours and these two stay below 24."""


def _opened(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    record = expect(observation, RecordRead).record
    if record is None:
        return Memory(State.SURVEYED), Survey()
    untold = untold_commit(record, plan.task)
    if untold is not None:
        return around.hand_out_again(plan, record, untold) if plan.around else _told_again(memory, untold)
    check_owner(plan, record)
    if record.claim is None:
        return Memory(State.LOOKED, record), Look(record)
    if plan.around:
        return around.resume(plan, record, record.claim)
    return _resume(memory, record, record.claim, now, entering=True)


def _told_again(memory: Memory, commit: Commit) -> Step:
    """What an earlier try of this task has committed, as its own result."""
    return memory, Finish(commit.ranges, commit.run_id, f"committed {shown_ranges(commit.ranges)}")


def _surveyed(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    surveyed = expect(observation, Surveyed)
    if surveyed.run_id is None and not surveyed.copy:
        return Memory(State.LOOKED), Look(None)
    # A racer may have made its first start in between; only a record that is still not there was lost.
    return Memory(State.LOST, why=surveyed.copy), ReadRecord()


def _lost(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    if expect(observation, RecordRead).record is not None:
        return _opened(plan, memory, observation, now)
    if plan.around:
        raise around.lost(plan, memory.why)
    raise LedgerLost(
        f"there is no record of subscription {plan.spec.name!r}, but {plan.target} has runs that name it: the ledger was "
        f"lost, this is no first start. Rebuild it from the runs: {rebuild.command(plan.spec.name, plan.target)}"
    )


def _resume(memory: Memory, record: Record, claim: Claim, now: datetime, *, entering: bool = False) -> Step:
    if claim.run_id is not None:
        return Memory(State.JUDGED, record), GetRun(claim.run_id)
    if claim.status is ClaimStatus.UNDECIDED:
        raise nothing_can_tell(record, claim)
    if all(covers(record.watermarks.get(one.alias), one.to) for one in begun(claim.ranges, record.watermarks)):
        record = claims.dropped(record, now)
        return Memory(State.RESTART, record), WriteRecord(record)
    if claim.not_before is not None and now < claim.not_before:
        return Memory(State.WOKE, record), Pause(claim.not_before, "the last run of this claim never ran")
    if entering:
        return Memory(State.RECHECKED, record), Look(record)
    return _start(memory, record, claim, now)


def _undecided(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    raise nothing_can_tell(*claim_of(memory))


def _start(memory: Memory, record: Record, claim: Claim, now: datetime) -> Step:
    if all(_trusted(claim, memory, now)):
        return Memory(State.STARTED, record), StartRun(claim)
    return Memory(State.FOUND, record), FindRun(claim)


def _trusted(claim: Claim, memory: Memory, now: datetime) -> tuple[bool, ...]:
    """Whether the claim's token is young enough, by each clock that is known: that of the workspace, and our own."""
    clocks = (now,) if memory.service_now is None else (memory.service_now, now)
    return tuple(-CLOCKS_APART <= one - claim.created_at < TOKEN_TRUSTED for one in clocks)


def _found(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    """A claim whose token may be forgotten: its run is looked for more than once before another one is started."""
    run_id = expect(observation, RunFound).run_id
    record, claim = claim_of(memory)
    if run_id is not None:
        return Memory(State.ADOPTED, record), GetRun(run_id)
    missing = None if any(_trusted(claim, memory, now)) else still_missing(memory, None, now)
    return missing or (Memory(State.STARTED, record), StartRun(claim))


def _rechecked(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    """The sources of a claim that waited without a run may have become others by now."""
    record, claim = claim_of(memory)
    changed = pending.identity_changes(claim.ranges, expect(observation, Looked).findings)
    if not changed:
        return _start(memory, record, claim, now)
    return Memory(State.VOIDABLE, record, why=changed), FindRun(claim)


def _voidable(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    run_id = expect(observation, RunFound).run_id
    record, _ = claim_of(memory)
    if run_id is not None:
        return Memory(State.ADOPTED, record), GetRun(run_id)
    missing = still_missing(memory, None, now)
    if missing:
        return missing
    record = claims.voided(record, memory.why, now)
    return Memory(State.RESTART, record), WriteRecord(record)


def _restart(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    return begin()


def _woke(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, Woke)
    return begin()


def _looked(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    findings = expect(observation, Looked).findings
    before = memory.record.watermarks if memory.record else {}
    epoch = memory.record.epoch if memory.record else FIRST_EPOCH
    settled = pending.settle(plan.spec, before, epoch, findings)
    if settled.notes or pending.starts_somewhere(before, settled.watermarks):
        # A transition of its own: what comes after is decided from the record as it is then, by every racer alike.
        record = claims.started(plan, memory.record, settled, now)
        return Memory(State.RESTART, record), WriteRecord(record)
    passed = pending.passed_over(plan.spec, settled.watermarks, findings, now)
    settled = replace(settled, watermarks=passed.watermarks, notes=(*passed.notes, *words_of(findings)))
    ranges = pending.ranges_of(plan.spec, settled.watermarks, findings)
    policy = plan.spec.policy if plan.wait else Policy(condition=plan.spec.policy.condition)
    claimed_at = memory.record.last_claimed_at if memory.record else None
    decision = decide(policy, pending.changes_of(ranges, findings, now), claimed_at, now)
    if not isinstance(decision, Hold):
        record = claims.claimed(plan, memory.record, settled, ranges, now, memory.service_now)
        return Memory(State.CLAIMED, record), WriteRecord(record)
    # Cleared by a person, with nothing pending now: what this task committed before is still its result.
    earlier = None if plan.around or not all(one.empty for one in ranges) else commit_of(memory.record, plan.task)
    if settled.watermarks == before:
        if earlier is not None:
            return _told_again(memory, earlier)
        if plan.wait:
            until = min(decision.until or now + plan.poll, now + plan.poll)
            return Memory(State.WOKE, memory.record), Pause(until, decision.reason, looking=memory.record)
        for one in left_out(findings).values():
            raise one.error  # "nothing new" would be said of what was not seen
        return memory, Finish((), None, decision.reason)
    record = claims.started(plan, memory.record, settled, now)
    return Memory(State.RECORDED, record, why=record.history[-1].what), WriteRecord(record)


def _recorded(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    if plan.wait or commit_of(memory.record, plan.task) is not None:
        return begin()
    return memory, Finish((), None, f"recorded for {plan.spec.name}, without a run: {memory.why}")


def _claimed(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    record, claim = claim_of(memory)
    return around.hand_out(record, claim) if plan.around else _resume(memory, record, claim, now)


STATES: Mapping[State, Continuation] = {
    State.OPENED: _opened,
    State.SURVEYED: _surveyed,
    State.LOST: _lost,
    State.UNDECIDED: _undecided,
    State.RECHECKED: _rechecked,
    State.FOUND: _found,
    State.VOIDABLE: _voidable,
    State.RESTART: _restart,
    State.WOKE: _woke,
    State.LOOKED: _looked,
    State.RECORDED: _recorded,
    State.CLAIMED: _claimed,
}
