"""Claim and commit around tasks that are no Databricks job: who may have the claim, and its commit."""

from __future__ import annotations

from datetime import datetime

from databricks_bridge.core import claims, rebuild
from databricks_bridge.core.acts import (
    AskDagRun,
    DagRunSeen,
    Finish,
    Observation,
    ReadRecord,
    RecordRead,
    RecordWritten,
    WriteRecord,
)
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.commits import claim_again, committed_as
from databricks_bridge.core.errors import ClaimUndecided, LedgerError, LedgerLost
from databricks_bridge.core.record import Claim, Commit, Record, shown_ranges
from databricks_bridge.core.steps import Memory, Step, check_owner, claim_of, done, expect


def consumer_of_dag(dag_id: str) -> str:
    """The name under which a DAG is the one consumer of a subscription."""
    return f"dag {dag_id}"


def resume(plan: Plan, record: Record, claim: Claim) -> Step:
    """An open claim goes to the task that has it, and to another one only when the DAG run that had it is over: else two of
    them would do its work.
    """
    if claim.task is None or plan.task is None or claim.task.instance == plan.task.instance:
        return hand_out(record, claim)
    return Memory(_asked, record), AskDagRun(claim)


def hand_out(record: Record, claim: Claim) -> Step:
    return Memory(done, record), Finish((), None, f"claimed {claim}", claim)


def hand_out_again(plan: Plan, record: Record, commit: Commit) -> Step:
    """What an earlier try of this task has claimed, and its DAG run has committed already: the same claim again."""
    return hand_out(record, claim_again(commit, plan.spec.name, plan.target, record))


def lost(plan: Plan, copy: str) -> LedgerLost:
    """The error for a record that is not there though its second copy is."""
    name = plan.spec.name
    return LedgerLost(
        f"there is no record of subscription {name!r}, but there was one: {copy} is its second copy. The ledger was lost, this "
        f"is no first start. Bring it back from there: {rebuild.external_command(name, plan.consumer)}; or, where everything "
        "really is to begin anew, delete the copy"
    )


def begin_commit(token: str) -> Step:
    """The first act of the task that commits a claim that was handed to other tasks."""
    return Memory(_committing, why=token), ReadRecord()


def _asked(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    record, claim = claim_of(memory)
    assert claim.task is not None, "only a claim of a known task is asked about"
    if expect(observation, DagRunSeen).active:
        return memory, Finish(
            (), None, f"DAG run {claim.task.run_id} works on the claim on {claim}; nothing is left for this one"
        )
    record = claims.handed_on(plan, record, now)
    return Memory(_handed_on, record), WriteRecord(record)


def _handed_on(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    return hand_out(*claim_of(memory))


def _committing(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    record = expect(observation, RecordRead).record
    if record is None:
        raise LedgerError(f"there is no record of subscription {plan.spec.name!r} to commit to")
    earlier = committed_as(record, memory.why)
    if earlier is not None:
        # An earlier try of this task, whose word of it was lost.
        return memory, Finish(earlier.ranges, None, f"committed {shown_ranges(earlier.ranges)}")
    check_owner(plan, record)
    claim = record.claim
    if claim is None or claim.token != memory.why:
        raise ClaimUndecided(
            f"subscription {record.subscription!r} has no open claim {memory.why[:12]}... any more: it was committed long ago, "
            "or resolved by a person; run the DAG again for what is pending"
        )
    after = claims.committed(record, claim, None, now, claim.task)
    return Memory(committed, after, ranges=claim.ranges, why=memory.why), WriteRecord(after)


def committed(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    """The commit is durable. One whose write was lost to another writer begins again with `begin_commit`."""
    return done(plan, memory, observation, now)
