"""What the steps of the protocol share: the memory between two acts, and how an answer is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar

from databricks_bridge.core.acts import Act, Finish, Observation, ReadRecord, RecordWritten, RunSeen
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.closing import refuse_closed
from databricks_bridge.core.errors import ConsumerMismatch, TargetChanged
from databricks_bridge.core.positions import Range
from databricks_bridge.core.record import Claim, Record, shown_ranges

T = TypeVar("T")


class State(StrEnum):
    """Who takes the next answer: the tables in `core.protocol` have one function for each."""

    OPENED = "opened"
    SURVEYED = "surveyed"
    LOST = "lost"
    UNDECIDED = "undecided"
    RECHECKED = "rechecked"
    VOIDABLE = "voidable"
    RESTART = "restart"
    WOKE = "woke"
    LOOKED = "looked"
    RECORDED = "recorded"
    CLAIMED = "claimed"
    FOUND = "found"
    STARTED = "started"
    ADOPTED = "adopted"
    NOTED = "noted"
    JUDGED = "judged"
    SOUGHT = "sought"
    MISSED = "missed"
    SPENT = "spent"
    SPENT_VERIFIED = "spent and verified"
    TOLD = "told"
    PROVED = "proved"
    REPORTED = "reported"
    REREAD = "reread"


@dataclass(frozen=True)
class Memory:
    """What the process knows between two acts: the record as last read or written, and who takes the answer.

    `service_now` is the time by the clock of the target workspace, where an answer of its has told it.
    """

    then: State | Continuation
    record: Record | None = None
    seen: RunSeen | None = None
    ranges: tuple[Range, ...] = ()
    why: str = ""
    service_now: datetime | None = None

    def clock(self, now: datetime) -> datetime:
        """The time by the workspace's clock, which is the same for every worker; `now` where it is not known."""
        return self.service_now or now


Step: TypeAlias = tuple[Memory, Act]
Continuation: TypeAlias = Callable[[Plan, Memory, Observation, datetime], "Step"]


def begin() -> Step:
    """The first act of every process: read the record."""
    return Memory(State.OPENED), ReadRecord()


def check_owner(plan: Plan, record: Record) -> None:
    refuse_closed(record)
    if record.claim is not None and record.claim.target != plan.target:
        raise TargetChanged(
            f"subscription {record.subscription!r} has an open claim on {record.claim.target}, but this task runs "
            f"{plan.target}; let the claim end first, or resolve it (databricks-bridge claim resolve). Then, where this job takes "
            f"the other's place: {retarget_command(plan, record)}"
        )
    if record.consumer != plan.consumer:
        raise ConsumerMismatch(mismatch(plan, record))


def mismatch(plan: Plan, record: Record) -> str:
    """What to say where the subscription is another consumer's."""
    return (
        f"subscription {record.subscription!r} belongs to {record.consumer}, this task is {plan.consumer}. Where this one takes the "
        f"other's place (a job that was made anew, a DAG with another name): {retarget_command(plan, record)}. Where both are to "
        "go on, give each a subscription of its own"
    )


def retarget_command(plan: Plan, record: Record) -> str:
    """The command line that makes this plan's consumer the record's; what only a person can know stands in capitals."""
    target = (
        f"--dag-id {plan.consumer.removeprefix('dag ')}"
        if plan.around
        else f"--job-id {plan.target.job_id} --databricks-conn-id CONNECTION"
    )
    return f"databricks-bridge subscription retarget {record.subscription} {target} --why REASON"


def claim_of(memory: Memory) -> tuple[Record, Claim]:
    record = memory.record
    claim = record.claim if record is not None else None
    if record is None or claim is None:
        raise TypeError("the driver answered an act that was not asked: this step follows an open claim")
    return record, claim


def expect(observation: Observation, kind: type[T]) -> T:
    if not isinstance(observation, kind):
        raise TypeError(f"the driver answered with {type(observation).__name__} where {kind.__name__} was due")
    return observation


def done(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    what = shown_ranges(memory.ranges)
    return memory, Finish(memory.ranges, memory.seen.run_id if memory.seen else None, f"committed {what}")
