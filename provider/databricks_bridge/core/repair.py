"""What a person may do to a record, each a pure function to the next record. Every one says who and why, and whatever
moves a watermark by hand begins a new epoch, so that no old token can answer for what comes after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from databricks_bridge.core.errors import ClaimError, InvalidArgument, LedgerError
from databricks_bridge.core.positions import Position, RunsPosition, TablePosition, merge
from databricks_bridge.core.record import Claim, ClaimStatus, Record

NEEDS_A_PERSON = frozenset({ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED})
_MOVED = "moved to "


@dataclass(frozen=True)
class Reason:
    """Who does it, and why; both stand in the history. Raises InvalidArgument when one is empty."""

    by: str
    why: str

    def __post_init__(self) -> None:
        if not self.by.strip() or not self.why.strip():
            raise InvalidArgument("who did it and why belong into the history; give both, --by and --why")

    def __str__(self) -> str:
        return f"by {self.by}: {self.why}"


class Verdict(StrEnum):
    """What a person found out about a claim's run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    VOID = "void"


def rewound(record: Record, alias: str, to: Position, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record whose source is processed again from `to` (exclusive) on. Raises when that is not behind the mark."""
    mark = _unclaimed_mark(record, alias)
    if isinstance(mark, TablePosition) and isinstance(to, TablePosition):
        behind = to.version < mark.version
        # the same table, at an older version: its fingerprint is not known
        to = TablePosition(to.version, mark.table_id, mark.metadata_id)
    else:
        behind = isinstance(mark, RunsPosition) and isinstance(to, RunsPosition) and to.low_water_ms < mark.low_water_ms
    if not behind:
        raise InvalidArgument(f"{alias} is at {shown(mark)}, and {shown(to)} is not behind it; see watermark set")
    return _placed(record, alias, to, f"rewound {alias} from {shown(mark)} to {shown(to)}", reason, now, epoch)


def set_forward(record: Record, alias: str, to: Position, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record that skips everything up to `to` (inclusive). Raises when that is not ahead of the mark."""
    mark = _unclaimed_mark(record, alias)
    if isinstance(mark, TablePosition) and isinstance(to, TablePosition):
        ahead = to.version > mark.version
        to = TablePosition(to.version, mark.table_id, mark.metadata_id)
    else:
        ahead = isinstance(mark, RunsPosition) and isinstance(to, RunsPosition) and to.low_water_ms > mark.low_water_ms
    if not ahead:
        raise InvalidArgument(f"{alias} is at {shown(mark)}, and {shown(to)} is not ahead of it; see watermark rewind")
    return _placed(record, alias, to, f"set {alias} from {shown(mark)} to {shown(to)}, unread", reason, now, epoch)


def adopted(record: Record, alias: str, to: Position, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record whose source is, from now on, the table of `to`, processed up to there: it was re-created or cut.

    Ids that are None are those of whatever table has the name at the next claim.
    """
    mark = _unclaimed_mark(record, alias)
    if type(mark) is not type(to):
        raise InvalidArgument(f"{alias} is at {shown(mark)}; {shown(to)} is another kind of position")
    return _placed(record, alias, to, f"adopted {alias} at {shown(to)}, was {shown(mark)}", reason, now, epoch)


def resolved(record: Record, verdict: Verdict, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record after a person's verdict on its claim.

    `succeeded` commits the ranges. `failed` and `void` drop the claim: its ranges are pending again, under new tokens.
    Raises ClaimError when there is no claim.
    """
    claim = record.claim
    if claim is None:
        raise ClaimError(f"subscription {record.subscription!r} has no open claim")
    run = f"run {claim.run_id}" if claim.run_id is not None else "no run"
    what = f"resolved the claim on {claim} ({run}, {claim.status}) as {verdict} {reason}"
    if verdict is Verdict.SUCCEEDED:
        marks = {one.alias: merge(record.watermarks.get(one.alias), one.to) for one in claim.ranges}
        return record.after(now, what, claim=None, watermarks={**record.watermarks, **marks})
    return record.after(now, what, claim=None, epoch=epoch)


def moved_away(record: Record, address: str, reason: Reason, now: datetime) -> Record:
    """The record that stays behind in the old ledger: no consumer that still looks there is let in."""
    _refuse_claim(record, "move")
    marker = f"{_MOVED}{address} (was {record.consumer})"
    return record.after(now, f"moved to {address} {reason}", consumer=marker)


def parked(left: Record, source: str, address: str, there: Record | None, now: datetime) -> Record:
    """What is written into the new ledger before the old one is closed: it proves that the new one takes the record,
    and lets nobody in. See `arrived`.
    """
    consumer = f"{_MOVED}{source} (was {_consumer(left, address, there)})"
    return _placed_in(left, there, consumer, f"parked in {address}, to come from {source}", now)


def arrived(left: Record, address: str, there: Record | None, now: datetime) -> Record:
    """The record in use in the new ledger, from what was left behind. `there` is what the new ledger holds.

    Raises LedgerError when the new ledger holds a record that is in use.
    """
    return _placed_in(left, there, _consumer(left, address, there), f"arrived in {address}", now)


def moved_to(record: Record) -> tuple[str, str] | None:
    """Where a record went that was left behind, and its consumer; None for a record in use."""
    if not record.consumer.startswith(_MOVED):
        return None
    address, _, consumer = record.consumer.removeprefix(_MOVED).partition(" (was ")
    return address, consumer.removesuffix(")")


def needs_a_person(claim: Claim | None) -> bool:
    """Whether nothing will happen until somebody resolves the claim."""
    return claim is not None and claim.status in NEEDS_A_PERSON


def shown(position: Position) -> str:
    """A position as people read it."""
    if isinstance(position, TablePosition):
        return f"version {position.version}"
    return f"runs from {position.low_water_ms} ms on, {len(position.done)} done"


def _placed(record: Record, alias: str, to: Position, what: str, reason: Reason, now: datetime, epoch: str) -> Record:
    marks: Mapping[str, Position] = {**record.watermarks, alias: to}
    return record.after(now, f"{what} {reason}", watermarks=marks, epoch=epoch)


def _unclaimed_mark(record: Record, alias: str) -> Position:
    _refuse_claim(record, "this")
    if alias not in record.watermarks:
        raise InvalidArgument(
            f"subscription {record.subscription!r} has no source {alias!r}; it has {', '.join(sorted(record.watermarks))}"
        )
    return record.watermarks[alias]


def _refuse_claim(record: Record, act: str) -> None:
    if moved_to(record) is not None:
        raise LedgerError(f"subscription {record.subscription!r} {record.consumer}; work on it there")
    if record.claim is not None:
        raise ClaimError(
            f"subscription {record.subscription!r} has a claim on {record.claim} ({record.claim.status}); {act} has to wait: "
            "let its run end, or resolve it: databricks-bridge claim resolve"
        )


def _consumer(left: Record, address: str, there: Record | None) -> str:
    """Whose record it was. Raises LedgerError where it may not be written."""
    where_from = moved_to(left)
    if where_from is None:
        raise LedgerError(f"subscription {left.subscription!r} was not moved away")
    if there is not None and moved_to(there) is None:
        raise LedgerError(f"the ledger {address} has a record of subscription {left.subscription!r} that is in use")
    return where_from[1]


def _placed_in(left: Record, there: Record | None, consumer: str, what: str, now: datetime) -> Record:
    return replace(left, consumer=consumer, revision=there.revision if there else 0).after(now, what)
