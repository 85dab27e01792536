"""A run that the workspace does not show: not yet, or no longer.

What a workspace answers about a run may be a little old. So a run is gone only when `runs/get` and `runs/list` have both
said so more than once, `GONE_AFTER` apart; the first time is written into the record, for the second is often another
process's. A run that we know is deleted, since run-now refuses its token for that, needs no second look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from databricks_bridge.core import claims
from databricks_bridge.core.acts import (
    FindRun,
    GetRun,
    Observation,
    Pause,
    Prove,
    Proved,
    ReadRecord,
    RecordWritten,
    RunFound,
    RunSeen,
    TokenSpent,
    WriteRecord,
)
from databricks_bridge.core.claims import GONE, Plan
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.protocol.verifying import denied, give_up, judge, nothing_can_tell
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.core.steps import Continuation, Memory, State, Step, claim_of, expect

GONE_AFTER = timedelta(minutes=5)
"""For so long a run that is not shown is looked for again, before it counts as gone."""

AGAIN = timedelta(minutes=1)
"""The pause before a run is read again that is listed and that `runs/get` does not show."""

UNKNOWN = 0
"""The id that a postcondition is given for a run that was deleted before its id was noted."""


def not_shown(plan: Plan, memory: Memory, run_id: int) -> Step:
    """`runs/get` does not show the run of the claim: ask `runs/list` too."""
    record, claim = claim_of(memory)
    if claim.status is ClaimStatus.UNDECIDED:
        raise nothing_can_tell(record, claim)
    return Memory(State.SOUGHT, record, _as_gone(run_id)), FindRun(claim, run_id)


def still_missing(memory: Memory, run_id: int | None, now: datetime) -> Step | None:
    """The step that looks again later; None once the run, or any run with the token, has been missing long enough.

    :param run_id: the run that is not shown; None where no run with the claim's token is.
    """
    record, claim = claim_of(memory)
    at, missing = memory.clock(now), claim.missing
    if missing is None or missing.run_id != run_id or missing.since > at:
        record = claims.missed(record, run_id, at, now)
        return Memory(State.MISSED, record), WriteRecord(record)
    left = GONE_AFTER - (at - missing.since)
    return _look_again(memory, now + left) if left > timedelta(0) else None


def _look_again(memory: Memory, until: datetime) -> Step:
    return Memory(State.WOKE, memory.record), Pause(
        until, "the workspace does not show the claim's run; it is read again"
    )


def _missed(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    return _look_again(memory, now + GONE_AFTER)


def _sought(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    found = expect(observation, RunFound).run_id
    record, _ = claim_of(memory)
    assert memory.seen is not None
    run_id = memory.seen.run_id
    if found is not None and found != run_id:
        return Memory(State.ADOPTED, record), GetRun(found)
    if found is not None:
        return _look_again(memory, now + AGAIN)
    return still_missing(memory, run_id, now) or _gone(plan, memory, run_id, now)


def _gone(plan: Plan, memory: Memory, run_id: int, now: datetime) -> Step:
    """The workspace has forgotten the run: only the postcondition can tell what became of the claim."""
    record, claim = claim_of(memory)
    if not plan.postcondition:
        return give_up(record, run_id, "is gone", now)
    record = replace(record, claim=replace(claim, run_id=run_id))
    return Memory(State.TOLD, record, _as_gone(run_id)), Prove(claim, run_id, gone=True)


def _told(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    proof = expect(observation, Proved)
    record, _ = claim_of(memory)
    assert memory.seen is not None
    if not proof.certain:
        return give_up(record, memory.seen.run_id, f"is gone, and {proof.why}", now)
    if proof.holds:
        return Memory(State.REREAD, record, memory.seen), ReadRecord()
    seen = denied(memory.seen, proof.why)
    return judge(plan, Memory(State.JUDGED, record, seen), seen, now)


def deleted(memory: Memory, spent: TokenSpent) -> Step:
    """run-now says that the run of this token was deleted: ask the listing before it is believed."""
    record, claim = claim_of(memory)
    return Memory(State.SPENT, record, _as_gone(spent.run_id or UNKNOWN), why=spent.why), FindRun(claim, spent.run_id)


def _spent(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    found = expect(observation, RunFound).run_id
    record, claim = claim_of(memory)
    assert memory.seen is not None
    if found is not None:
        return Memory(State.ADOPTED, record), GetRun(found)
    if plan.postcondition:
        then = replace(memory, then=State.SPENT_VERIFIED)
        return then, Prove(claim, memory.seen.run_id, gone=True)
    return _next_generation(plan, memory, now)


def _spent_verified(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    proof = expect(observation, Proved)
    record, _ = claim_of(memory)
    assert memory.seen is not None
    if not proof.certain:
        return give_up(record, memory.seen.run_id or None, f"was deleted, and {proof.why}", now)
    if proof.holds:
        return Memory(State.REREAD, record, memory.seen), ReadRecord()
    return _next_generation(plan, memory, now)


def _next_generation(plan: Plan, memory: Memory, now: datetime) -> Step:
    """It may have written before it was deleted, as a failed run may; a run at work cannot be deleted."""
    record, _ = claim_of(memory)
    record = claims.after_deleted(plan, record, memory.why, now)
    return Memory(State.RESTART, record), WriteRecord(record)


def _as_gone(run_id: int) -> RunSeen:
    return RunSeen(run_id, Outcome(Ending.FAILED, GONE, "", ""), {})


STATES: Mapping[State, Continuation] = {
    State.SOUGHT: _sought,
    State.MISSED: _missed,
    State.TOLD: _told,
    State.SPENT: _spent,
    State.SPENT_VERIFIED: _spent_verified,
}
