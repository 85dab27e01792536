"""A run that the workspace no longer knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from databricks_bridge.core.acts import Observation, Prove, Proved, ReadRecord, RunSeen
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.protocol.verifying import give_up, judge
from databricks_bridge.core.steps import Continuation, Memory, State, Step, claim_of, expect


def gone(plan: Plan, memory: Memory, run_id: int, now: datetime) -> Step:
    """The workspace has forgotten the run: only the postcondition can tell what became of the claim."""
    record, claim = claim_of(memory)
    if not plan.postcondition:
        return give_up(record, run_id, "is gone", now)
    seen = RunSeen(run_id, Outcome(Ending.FAILED, "gone", "", ""), {})
    record = replace(record, claim=replace(claim, run_id=run_id))
    return Memory(State.TOLD, record, seen), Prove(claim, run_id, gone=True)


def _told(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    proof = expect(observation, Proved)
    record, _ = claim_of(memory)
    assert memory.seen is not None
    if not proof.certain:
        return give_up(record, memory.seen.run_id, f"is gone, and {proof.why}", now)
    if proof.holds:
        return Memory(State.REREAD, record, memory.seen), ReadRecord()
    seen = replace(memory.seen, error=f"the postcondition does not hold: {proof.why}")
    return judge(plan, Memory(State.JUDGED, record, seen), seen, now)


STATES: Mapping[State, Continuation] = {
    State.TOLD: _told,
}
