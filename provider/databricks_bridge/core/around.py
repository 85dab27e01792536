"""The commit of a claim that was handed to tasks which are no Databricks job."""

from __future__ import annotations

from datetime import datetime

from databricks_bridge.core import claims
from databricks_bridge.core.acts import Observation, ReadRecord, RecordRead, WriteRecord
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import ClaimUndecided, LedgerError
from databricks_bridge.core.steps import Memory, Step, check_owner, done, expect


def begin_commit(token: str) -> Step:
    """The first act of the task that commits a claim that was handed to other tasks."""
    return Memory(_committing, why=token), ReadRecord()


def _committing(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    record = expect(observation, RecordRead).record
    if record is None:
        raise LedgerError(f"there is no record of subscription {plan.spec.name!r} to commit to")
    check_owner(plan, record)
    claim = record.claim
    if claim is None or claim.token != memory.why:
        raise ClaimUndecided(
            f"subscription {record.subscription!r} has no open claim {memory.why[:12]}... any more: it was committed, or "
            "resolved by a person; run the DAG again for what is pending"
        )
    after = claims.committed(record, claim, None, now)
    return Memory(done, after, ranges=claim.ranges), WriteRecord(after)
