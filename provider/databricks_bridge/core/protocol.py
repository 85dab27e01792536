"""The protocol as a pure step function: look, decide, claim, run, wait, prove, commit.

`begin()` gives the first act; each observation of an act goes into `step()`, which gives the next. Nothing is done
here and nothing is remembered outside `Memory`, so every process can start again from the record: whatever it holds
is resolved first. The drivers (sync or async, worker or test) only do acts and report what they saw.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from databricks_bridge.core import claims, parameters, pending, rebuild
from databricks_bridge.core.acts import (
    AwaitRun,
    Fail,
    FindRun,
    Finish,
    GetRun,
    Look,
    Looked,
    Observation,
    Pause,
    Prove,
    Proved,
    ReadRecord,
    RecordLost,
    RecordRead,
    RecordWritten,
    RunFound,
    RunGone,
    RunSeen,
    RunStarted,
    StartRun,
    Survey,
    Surveyed,
    Woke,
    WriteRecord,
)
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    ClaimBlocked,
    ClaimUndecided,
    LedgerError,
    LedgerLost,
    RunFailed,
)
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.parameter_names import RANGES, TOKEN
from databricks_bridge.core.policy import Hold, Policy, decide
from databricks_bridge.core.positions import Range, covers
from databricks_bridge.core.record import FIRST_EPOCH, Claim, ClaimStatus, Record
from databricks_bridge.core.steps import Memory, Step, check_owner, claim_of, done, expect

TOKEN_TRUSTED = timedelta(hours=24)
"""How long a repeated run-now is trusted to find its own run; after that the runs are searched first."""

READER_BEHIND = "BridgeReaderBehind"
"""The exception by which a notebook says that its shared table does not have the version `end` yet."""


def begin() -> Step:
    """The first act of every process: read the record."""
    return Memory(_opened), ReadRecord()


def step(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    """The next act. A lost write starts again from the record as it is now; our own errors become a Fail."""
    if isinstance(observation, RecordLost):
        return begin()
    try:
        return memory.then(plan, memory, observation, now)
    except BridgeError as error:
        return memory, Fail(error)


def _opened(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    record = expect(observation, RecordRead).record
    if record is None:
        return (Memory(_looked), Look(None)) if plan.around else (Memory(_surveyed), Survey())
    check_owner(plan, record)
    if record.claim is None:
        return Memory(_looked, record), Look(record)
    if plan.around:
        return _handed_out(record, record.claim)
    return _resume(record, record.claim, now, entering=True)


def _handed_out(record: Record, claim: Claim) -> Step:
    return Memory(_opened, record), Finish((), None, f"claimed {claim}", claim)


def _surveyed(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    if expect(observation, Surveyed).run_id is None:
        return Memory(_looked), Look(None)
    # A racer may have made its first start in between; only a record that is still not there was lost.
    return Memory(_lost), ReadRecord()


def _lost(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    if expect(observation, RecordRead).record is not None:
        return _opened(plan, memory, observation, now)
    raise LedgerLost(
        f"there is no record of subscription {plan.spec.name!r}, but {plan.target} has runs that name it: the ledger was "
        f"lost, this is no first start. Rebuild it from the runs: {rebuild.command(plan.spec.name, plan.target)}"
    )


def _resume(record: Record, claim: Claim, now: datetime, *, entering: bool = False) -> Step:
    if claim.status is ClaimStatus.UNDECIDED:
        raise ClaimUndecided(
            f"nothing can tell whether {claim} of subscription {record.subscription!r} was processed by run "
            f"{claim.run_id}; look at the target and resolve it: databricks-bridge claim resolve"
        )
    if claim.run_id is not None:
        return Memory(_judged, record), GetRun(claim.run_id)
    if all(covers(record.watermarks.get(one.alias), one.to) for one in claim.ranges):
        record = claims.dropped(record, now)
        return Memory(_restart, record), WriteRecord(record)
    if claim.not_before is not None and now < claim.not_before:
        return Memory(_woke, record), Pause(claim.not_before, "the last run of this claim never ran")
    if entering:
        return Memory(_rechecked, record), Look(record)
    return _start(record, claim, now)


def _start(record: Record, claim: Claim, now: datetime) -> Step:
    if timedelta(0) <= now - claim.created_at < TOKEN_TRUSTED:
        return Memory(_started, record), StartRun(claim)
    return Memory(_found, record), FindRun(claim)


def _rechecked(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    """The sources of a claim that waited without a run may have become others by now."""
    record, claim = claim_of(memory)
    changed = pending.identity_changes(claim.ranges, expect(observation, Looked).findings)
    if not changed:
        return _start(record, claim, now)
    return Memory(_voidable, record, why=changed), FindRun(claim)


def _voidable(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    run_id = expect(observation, RunFound).run_id
    record, _ = claim_of(memory)
    if run_id is not None:
        return Memory(_adopted, record), GetRun(run_id)
    record = claims.voided(record, memory.why, now)
    return Memory(_restart, record), WriteRecord(record)


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
        return Memory(_restart, record), WriteRecord(record)
    passed = pending.passed_over(plan.spec, settled.watermarks, findings, now)
    settled = replace(settled, watermarks=passed.watermarks, notes=passed.notes)
    ranges = pending.ranges_of(plan.spec, settled.watermarks, findings)
    policy = plan.spec.policy if plan.wait else Policy(condition=plan.spec.policy.condition)
    claimed_at = memory.record.last_claimed_at if memory.record else None
    decision = decide(policy, pending.changes_of(ranges, findings, now), claimed_at, now)
    if not isinstance(decision, Hold):
        record = claims.claimed(plan, memory.record, settled, ranges, now)
        return Memory(_claimed, record), WriteRecord(record)
    if settled.watermarks == before:
        if plan.wait:
            until = min(decision.until or now + plan.poll, now + plan.poll)
            return Memory(_woke, memory.record), Pause(until, decision.reason, looking=memory.record)
        return memory, Finish((), None, decision.reason)
    record = claims.started(plan, memory.record, settled, now)
    return Memory(_recorded, record, why=record.history[-1].what), WriteRecord(record)


def _recorded(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    if plan.wait:
        return begin()
    return memory, Finish((), None, f"recorded for {plan.spec.name}, without a run: {memory.why}")


def _claimed(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    record, claim = claim_of(memory)
    return _handed_out(record, claim) if plan.around else _resume(record, claim, now)


def _found(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    run_id = expect(observation, RunFound).run_id
    _, claim = claim_of(memory)
    if run_id is None:
        return Memory(_started, memory.record), StartRun(claim)
    return Memory(_adopted, memory.record), GetRun(run_id)


def _started(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    return Memory(_adopted, memory.record), GetRun(expect(observation, RunStarted).run_id)


def _adopted(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    record, claim = claim_of(memory)
    if isinstance(observation, RunGone):
        return _gone(plan, memory, observation.run_id, now)
    seen = expect(observation, RunSeen)
    if seen.parameters.get(TOKEN) != claim.token:
        raise BadAnswer(
            f"run {seen.run_id} of {claim.target} does not carry the token of its claim; the job must declare the "
            f"job parameters {TOKEN} and {RANGES}"
        )
    ranges = parameters.ranges_of(seen.parameters, {one.alias: one.name for one in claim.ranges})
    if _starts(ranges) != _starts(claim.ranges):
        raise BadAnswer(f"run {seen.run_id} of {claim.target} carries our token, but other ranges: {ranges}")
    record = claims.noted(record, seen.run_id, ranges, seen.parameters, now)
    return Memory(_noted, record, seen), WriteRecord(record)


def _starts(ranges: tuple[Range, ...]) -> list[tuple[str, list[Any]]]:
    """What both racers must agree on: a position that was only found may be another for each."""
    return [(one.alias, one.from_.identity()) for one in ranges]


def _noted(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    assert memory.seen is not None
    return _judge(plan, memory, memory.seen, now)


def _judged(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    if isinstance(observation, RunGone):
        return _gone(plan, memory, observation.run_id, now)
    return _judge(plan, memory, expect(observation, RunSeen), now)


def _judge(plan: Plan, memory: Memory, seen: RunSeen, now: datetime) -> Step:
    record, claim = claim_of(memory)
    ending = seen.outcome.ending
    if ending is Ending.ACTIVE:
        # A repair begins with a new attempt; one that is ending after its claim failed was cancelled by us.
        if claim.status is ClaimStatus.OPEN or seen.outcome.life_cycle == "TERMINATING":
            return Memory(_judged, record), AwaitRun(seen.run_id)
        record = claims.followed_again(record, now)
        return Memory(_noted, record, seen), WriteRecord(record)
    if ending is Ending.SUCCEEDED:
        if any(seen.parameters.get(name) != value for name, value in claim.parameters):
            return _give_up(record, seen.run_id, "succeeded, but with other parameters than its claim", now)
        if plan.postcondition:
            return Memory(_proved, record, seen), Prove(claim, seen.run_id)
        return Memory(_reread, record, seen), ReadRecord()
    if claim.status is ClaimStatus.BLOCKED:
        raise ClaimBlocked(
            f"{claim.failures} runs of {claim} failed, the last is {seen.run_id} ({seen.outcome}); subscription "
            f"{record.subscription!r} starts no more until it is repaired in Databricks or resolved: "
            "databricks-bridge claim resolve"
        )
    if ending is Ending.NOTHING_RAN or READER_BEHIND in seen.error:
        why = seen.error if ending is Ending.FAILED else f"run {seen.run_id} never ran ({seen.outcome})"
        record = claims.after_nothing_ran(plan, record, why, now)
        return Memory(_claimed, record), WriteRecord(record)
    if claim.status is ClaimStatus.OPEN:
        record = claims.failed(plan, record, seen.outcome, now)
        return Memory(_reported, record, seen), WriteRecord(record)
    record = claims.after_failure(plan, record, now)
    # Its ranges are as old as the first generation: begin again, so that the sources are looked at before run-now.
    return Memory(_restart, record), WriteRecord(record)


def _proved(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    """A success that its postcondition does not confirm is a failure like any other."""
    proof = expect(observation, Proved)
    record, _ = claim_of(memory)
    assert memory.seen is not None
    if proof.holds:
        return Memory(_reread, record, memory.seen), ReadRecord()
    outcome = replace(memory.seen.outcome, ending=Ending.FAILED)
    seen = replace(memory.seen, outcome=outcome, error=f"the postcondition does not hold: {proof.why}")
    return _judge(plan, Memory(_judged, record, seen), seen, now)


def _gone(plan: Plan, memory: Memory, run_id: int, now: datetime) -> Step:
    """The workspace has forgotten the run: only the postcondition can tell what became of the claim."""
    record, claim = claim_of(memory)
    if not plan.postcondition:
        return _give_up(record, run_id, "is gone", now)
    seen = RunSeen(run_id, Outcome(Ending.FAILED, "gone", "", ""), {})
    record = replace(record, claim=replace(claim, run_id=run_id))
    return Memory(_told, record, seen), Prove(claim, run_id, gone=True)


def _told(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    proof = expect(observation, Proved)
    record, _ = claim_of(memory)
    assert memory.seen is not None
    if not proof.certain:
        return _give_up(record, memory.seen.run_id, f"is gone, and {proof.why}", now)
    if proof.holds:
        return Memory(_reread, record, memory.seen), ReadRecord()
    seen = replace(memory.seen, error=f"the postcondition does not hold: {proof.why}")
    return _judge(plan, Memory(_judged, record, seen), seen, now)


def _reported(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    _, claim = claim_of(memory)
    assert memory.seen is not None
    more = (
        "no more runs are started: repair it in Databricks or resolve the claim"
        if claim.status is ClaimStatus.BLOCKED
        else "the next try starts the next generation"
    )
    why = f": {memory.seen.error}" if memory.seen.error else ""
    raise RunFailed(
        f"run {memory.seen.run_id} of {claim.target} for {claim} failed ({memory.seen.outcome}){why}; {more}",
        run_id=memory.seen.run_id,
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
    if not ours and all(covers(record.watermarks.get(one.alias), one.to) for one in claim.ranges):
        return memory, Finish((), memory.seen.run_id, f"{claim} was committed by another process")
    record = claims.committed(record, claim, memory.seen.run_id, now)
    return Memory(done, record, memory.seen, claim.ranges), WriteRecord(record)


def _give_up(record: Record, run_id: int, why: str, now: datetime) -> Step:
    record = claims.undecided(record, run_id, why, now)
    return Memory(_undecided, record), WriteRecord(record)


def _undecided(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    record, claim = claim_of(memory)
    return _resume(record, claim, now)
