"""A record that nobody works on here any more: it moved to another ledger, the subscription has another name, or it is
retired.

It stays as a tombstone, so that a task that still looks there gets one clear error and never a first start. What became
of it stands in `consumer`, in words that no consumer's name begins with: so an older release is refused as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from databricks_bridge.core.errors import ClaimError, ConsumerMismatch, InvalidArgument, LedgerError
from databricks_bridge.core.record import Record

if TYPE_CHECKING:
    from databricks_bridge.core.reason import Reason


class How(StrEnum):
    """EXPECTED: what a move or a rename writes first into the new place, which is not in use yet."""

    MOVED = "moved to"
    RENAMED = "renamed to"
    RETIRED = "retired"
    EXPECTED = "expected from"


@dataclass(frozen=True)
class Closed:
    """What became of a record. `to` is the other ledger's address or the other name; `consumer` is whose record it was."""

    how: How
    to: str
    consumer: str

    def __str__(self) -> str:
        return f"{self.how} {self.to}".rstrip()

    def marker(self) -> str:
        return f"{self} (was {self.consumer})"


def closed(record: Record) -> Closed | None:
    """What became of this record, None for one in use."""
    said, was, consumer = record.consumer.partition(" (was ")
    for how in How:
        if was and (said == how or said.startswith(f"{how} ")):
            return Closed(how, said.removeprefix(how).lstrip(), consumer.removesuffix(")"))
    return None


def owner(record: Record) -> str:
    """The consumer whose record it is, or was."""
    state = closed(record)
    return record.consumer if state is None else state.consumer


def refuse_closed(record: Record | None) -> None:
    """Raise ConsumerMismatch for a record that is not in use, saying what to do instead."""
    state = closed(record) if record is not None else None
    if record is None or state is None:
        return
    name = record.subscription
    more = {
        How.MOVED: f"moved to the ledger {state.to}: set ledger={state.to!r} where it is defined",
        How.RENAMED: f"was renamed to {state.to!r}: use that name where it is defined",
        How.RETIRED: "is retired, nothing is processed for it any more: take it out of the DAG, or bring it back with "
        f"databricks-bridge subscription retire {name} --undo",
        How.EXPECTED: f"is to come from {state.to!r}, and the command that brings it did not end: run it again",
    }
    raise ConsumerMismatch(f"subscription {name!r} {more[state.how]}")


def refuse_claim(record: Record) -> None:
    """Raise LedgerError for a record that is not in use, ClaimError for one with an open claim."""
    state = closed(record)
    if state is not None:
        where = f"{state.how} {state.to}; work on it there" if state.to else "retired; see subscription retire --undo"
        raise LedgerError(f"subscription {record.subscription!r} is {where}")
    if record.claim is not None:
        raise ClaimError(
            f"subscription {record.subscription!r} has a claim on {record.claim} ({record.claim.status}); this has to wait: "
            "let its run end, or resolve it: databricks-bridge claim resolve"
        )


def moved_away(record: Record, address: str, reason: Reason, now: datetime) -> Record:
    """The record that stays behind in the old ledger. An open claim goes along: what it says holds in the new one as well."""
    return _closed(record, How.MOVED, address, reason, now)


def renamed_away(record: Record, name: str, reason: Reason, now: datetime) -> Record:
    """The record that stays behind under the old name."""
    return _closed(record, How.RENAMED, name, reason, now)


def retired(record: Record, reason: Reason, now: datetime) -> Record:
    """The record of a subscription that nobody is to work on any more, marks and all. See `reinstated`."""
    return _closed(record, How.RETIRED, "", reason, now)


def retargeted(record: Record, consumer: str, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record whose consumer is another job or DAG from now on, where the old one left off: in a new epoch, so that no old
    token answers. Raises ClaimError while a claim is open, InvalidArgument where it is that consumer's already.
    """
    refuse_claim(record)
    if record.consumer == consumer:
        raise InvalidArgument(f"subscription {record.subscription!r} belongs to {consumer} already")
    what = f"retargeted from {record.consumer} to {consumer} {reason}"
    return record.after(now, what, consumer=consumer, epoch=epoch)


def reinstated(record: Record, reason: Reason, now: datetime) -> Record:
    """A retired record, in use again where it was left. Raises LedgerError for one that is not retired."""
    state = closed(record)
    if state is None or state.how is not How.RETIRED:
        raise LedgerError(f"subscription {record.subscription!r} is not retired, it is {state or 'in use'}")
    return record.after(now, f"in use again {reason}", consumer=state.consumer)


def parked(left: Record, origin: str, there: Record | None, now: datetime) -> Record:
    """What is written into the new place before the old one is closed: it proves that the new one takes the record, and
    lets nobody in. `left` is what stays behind, `origin` the old ledger or name, `there` what the new place holds.

    Raises LedgerError when the new place holds a record that may not be written over.
    """
    was = _left(left, there).consumer
    marker = Closed(How.EXPECTED, origin, was).marker()
    return _placed(left, there, marker, f"expected from {origin}", now)


def arrived(left: Record, there: Record | None, now: datetime, epoch: str | None = None) -> Record:
    """The record in use in the new place, from what stayed behind; a rename gives it a new epoch."""
    state = _left(left, there)
    placed = _placed(left, there, state.consumer, f"arrived: {left.history[-1].what}", now)
    return placed if epoch is None else replace(placed, epoch=epoch)


def _closed(record: Record, how: How, to: str, reason: Reason, now: datetime) -> Record:
    state = Closed(how, to, record.consumer)
    refuse_claim(replace(record, claim=None) if how is How.MOVED else record)
    return record.after(now, f"{state} {reason}", consumer=state.marker())


def _left(left: Record, there: Record | None) -> Closed:
    """What became of the record that stays behind. Raises LedgerError where it may not be brought to the new place."""
    state = closed(left)
    if state is None or state.how not in (How.MOVED, How.RENAMED):
        raise LedgerError(f"subscription {left.subscription!r} was not moved away")
    name = _name(left, state)
    taken = closed(there) if there is not None else None
    free = there is None or (taken is not None and _gives_way(taken, state, left.subscription))
    if free or (there is not None and state.how is How.RENAMED and _never_claimed(there)):
        return state
    where = f"the ledger {state.to}" if state.how is How.MOVED else "this ledger"
    raise LedgerError(f"{where} has a record of subscription {name!r} that is {taken or 'in use'}")


def _gives_way(taken: Closed, state: Closed, old_name: str) -> bool:
    """Whether a tombstone in the new place is only a trace of the same record's way."""
    if taken.how is How.EXPECTED:
        return True
    return taken.how is state.how and (taken.how is How.MOVED or taken.to == old_name)


def _never_claimed(there: Record) -> bool:
    """A first start under the new name, before the rename: nothing was processed there."""
    return closed(there) is None and there.claim is None and there.last_claimed_at is None


def _name(left: Record, state: Closed) -> str:
    return state.to if state.how is How.RENAMED else left.subscription


def _placed(left: Record, there: Record | None, consumer: str, what: str, now: datetime) -> Record:
    state = closed(left)
    name = _name(left, state) if state else left.subscription
    revision = there.revision if there else 0
    return replace(left, subscription=name, consumer=consumer, revision=revision).after(now, what)
