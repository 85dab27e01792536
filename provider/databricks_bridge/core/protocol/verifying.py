"""What the end of a run means for its claim: verify, commit, fail, block, or begin the next generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from databricks_bridge.core import claims
from databricks_bridge.core.acts import (
    AwaitRun,
    Finish,
    Observation,
    Prove,
    Proved,
    ReadRecord,
    RecordRead,
    RecordWritten,
    RunSeen,
    WriteRecord,
)
from databricks_bridge.core.claims import DENIED, Plan
from databricks_bridge.core.commits import commit_of
from databricks_bridge.core.errors import ClaimBlocked, ClaimUndecided, LedgerError, RunFailed
from databricks_bridge.core.left_out import begun
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.positions import covers
from databricks_bridge.core.record import Claim, ClaimStatus, Record, shown_ranges
from databricks_bridge.core.steps import Continuation, Memory, State, Step, claim_of, done, expect

_UNTIL_IT_HOLDS = (
    "once the postcondition holds, the next try commits the run; a repair in Databricks runs it again; or resolve the "
    "claim: databricks-bridge claim resolve"
)


def judge(plan: Plan, memory: Memory, seen: RunSeen, now: datetime) -> Step:
    record, claim = claim_of(memory)
    ending = seen.outcome.ending
    if ending is Ending.ACTIVE:
        # A repair begins with a new attempt. A run that we cancelled is on its way to its end, whatever it shows meanwhile.
        if claim.status is ClaimStatus.OPEN or claim.cancelled or seen.outcome.life_cycle == "TERMINATING":
            return Memory(State.JUDGED, record), AwaitRun(seen.run_id)
        record = claims.followed_again(record, now)
        return Memory(State.NOTED, record, seen), WriteRecord(record)
    if ending is Ending.SUCCEEDED:
        if other_parameters(claim, seen):
            return give_up(record, seen.run_id, "succeeded, but with other parameters than its claim", now)
        if plan.postcondition:
            return Memory(State.PROVED, record, seen), Prove(claim, seen.run_id)
        return Memory(State.REREAD, record, seen), ReadRecord()
    if claim.status is ClaimStatus.BLOCKED:
        raise _blocked(record, claim, seen)
    if ending is Ending.NOTHING_RAN or seen.reader_behind:
        why = seen.error if ending is Ending.FAILED else f"run {seen.run_id} never ran ({seen.outcome})"
        record = claims.after_nothing_ran(plan, record, why, now)
        return Memory(State.CLAIMED, record), WriteRecord(record)
    if claim.status is ClaimStatus.OPEN:
        record = claims.failed(plan, record, seen.outcome, now, seen.denied)
        return Memory(State.REPORTED, record, seen), WriteRecord(record)
    record = claims.after_failure(plan, record, now)
    # Its ranges are as old as the first generation: begin again, so that the sources are looked at before run-now.
    return Memory(State.RESTART, record), WriteRecord(record)


def _proved(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    """A success that its postcondition does not confirm is a failure like any other."""
    proof = expect(observation, Proved)
    record, _ = claim_of(memory)
    assert memory.seen is not None
    if proof.holds:
        return Memory(State.REREAD, record, memory.seen), ReadRecord()
    seen = denied(memory.seen, proof.why)
    return judge(plan, Memory(State.JUDGED, record, seen), seen, now)


def _reported(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    _, claim = claim_of(memory)
    assert memory.seen is not None
    seen = memory.seen
    blocked = claim.status is ClaimStatus.BLOCKED
    if seen.denied:
        what = f"{claims.ended(seen.outcome)}, but its {DENIED}: {seen.denied}"
        more = (
            f"no more runs are started: {_UNTIL_IT_HOLDS}"
            if blocked
            else "the next try asks it again, and starts the next generation if it still says no"
        )
    else:
        what = f"failed ({seen.outcome}){f': {seen.error}' if seen.error else ''}"
        more = (
            "no more runs are started: repair it in Databricks or resolve the claim"
            if blocked
            else "the next try starts the next generation"
        )
    raise RunFailed(f"run {seen.run_id} of {claim.target} for {claim} {what}; {more}", run_id=seen.run_id)


def _blocked(record: Record, claim: Claim, seen: RunSeen) -> ClaimBlocked:
    last = f"{claim.failures} runs of {claim} failed, the last is {seen.run_id}"
    if seen.denied:
        return ClaimBlocked(
            f"{last}, which {claims.ended(seen.outcome)}, but its {DENIED}: {seen.denied}; subscription "
            f"{record.subscription!r} starts no more: {_UNTIL_IT_HOLDS}"
        )
    return ClaimBlocked(
        f"{last} ({seen.outcome}); subscription {record.subscription!r} starts no more until it is repaired in Databricks "
        "or resolved: databricks-bridge claim resolve"
    )


def _reread(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    record = expect(observation, RecordRead).record
    _, claim = claim_of(memory)
    assert memory.seen is not None
    if record is None:
        raise LedgerError(
            f"the record of subscription {plan.spec.name!r} vanished while run {memory.seen.run_id} was followed"
        )
    if memory.record is not None and record.epoch != memory.record.epoch:
        return memory, Finish((), memory.seen.run_id, f"{claim} belongs to an epoch that was ended meanwhile")
    ours = record.claim is not None and record.claim.token == claim.token
    if not ours and all(
        covers(record.watermarks.get(one.alias), one.to) for one in begun(claim.ranges, record.watermarks)
    ):
        commit = commit_of(record, plan.task)
        if commit is not None and commit.token == claim.token:
            # By another process of this very task: a try that was given up, and was not dead.
            return memory, Finish(commit.ranges, commit.run_id, f"committed {shown_ranges(commit.ranges)}")
        return memory, Finish((), memory.seen.run_id, f"{claim} was committed by another process")
    record = claims.committed(record, claim, memory.seen.run_id or None, now, plan.task)
    return Memory(done, record, memory.seen, claim.ranges), WriteRecord(record)


def denied(seen: RunSeen, why: str) -> RunSeen:
    """A run that its postcondition does not confirm: a failure, whose cause is told as what it is."""
    why = why or "it says no"
    outcome = replace(seen.outcome, ending=Ending.FAILED)
    return replace(seen, outcome=outcome, error=f"the {DENIED}: {why}", reader_behind=False, denied=why)


def other_parameters(claim: Claim, seen: RunSeen) -> bool:
    """Whether the run was given others than its claim: a repair may do that."""
    return any(seen.parameters.get(name) != value for name, value in claim.parameters)


def nothing_can_tell(record: Record, claim: Claim) -> ClaimUndecided:
    run = f"run {claim.run_id}" if claim.run_id is not None else "its run, which was deleted"
    return ClaimUndecided(
        f"nothing can tell whether {claim} of subscription {record.subscription!r} was processed by {run}; look at the "
        "target and resolve it: databricks-bridge claim resolve"
    )


def give_up(record: Record, run_id: int | None, why: str, now: datetime) -> Step:
    record = claims.undecided(record, run_id, why, now)
    return Memory(State.UNDECIDED, record), WriteRecord(record)


STATES: Mapping[State, Continuation] = {
    State.PROVED: _proved,
    State.REPORTED: _reported,
    State.REREAD: _reread,
}
