"""What a person may do to a record, each a pure function to the next record. Every one says who and why, and whatever
moves a watermark by hand begins a new epoch, so that no old token can answer for what comes after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from databricks_bridge.core.closing import refuse_claim
from databricks_bridge.core.commits import remembered
from databricks_bridge.core.errors import ClaimError, InvalidArgument
from databricks_bridge.core.left_out import begun
from databricks_bridge.core.positions import BEFORE_FIRST, Position, RunsPosition, TablePosition, merge
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Claim, ClaimStatus, Commit, Record

NEEDS_A_PERSON = frozenset({ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED})


class Verdict(StrEnum):
    """What a person found out about a claim's run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    VOID = "void"


def rewound(record: Record, alias: str, to: Position, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record whose source is processed again from `to` (exclusive) on; from before the first version on that is a full rebuild
    of whatever table has the name then. Raises when `to` is not behind the mark.
    """
    mark = _unclaimed_mark(record, alias)
    if isinstance(mark, TablePosition) and isinstance(to, TablePosition):
        behind = to.version < mark.version
        # The same table, at an older version: its fingerprint is not known. Before the first there is no table yet: whatever has
        # the name at the next claim is read whole, one that was re-created or replaced too.
        if to.version != BEFORE_FIRST:
            to = TablePosition(to.version, mark.table_id, mark.metadata_id)
    else:
        behind = isinstance(mark, RunsPosition) and isinstance(to, RunsPosition) and to.low_water_ms < mark.low_water_ms
        if isinstance(mark, RunsPosition) and isinstance(to, RunsPosition):
            # runs that are still open count when they end, wherever the mark is put
            to = replace(to, late=frozenset(one for one in mark.late if one[0] < to.low_water_ms))
    if not behind:
        raise InvalidArgument(f"{alias} is at {shown(mark)}, and {shown(to)} is not behind it; see watermark set")
    return _placed(record, alias, to, f"rewound {alias} from {shown(mark)} to {shown(to)}", reason, now, epoch)


def set_forward(record: Record, alias: str, to: Position, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record that skips everything up to `to` (inclusive). Raises when that is not ahead of the mark."""
    mark = _unclaimed_mark(record, alias)
    if isinstance(mark, TablePosition) and isinstance(to, TablePosition):
        ahead = to.version > mark.at
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


def carried(record: Record, alias: str, of: str, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record whose source `alias` goes on from the mark of `of`, which has another alias now.

    A mark that `alias` has got meanwhile, from a first start of its own, is given up. Raises InvalidArgument, ClaimError.
    """
    mark = _unclaimed_mark(record, of)
    if not alias or alias == of:
        raise InvalidArgument(f"{alias!r} cannot take over the mark of {of!r}; give the source's new alias")
    was = f", was {shown(record.watermarks[alias])}" if alias in record.watermarks else ""
    marks = {name: at for name, at in record.watermarks.items() if name not in (of, alias)}
    what = f"carried the mark of {of}, {shown(mark)}, over to {alias}{was} {reason}"
    return record.after(now, what, watermarks={**marks, alias: mark}, epoch=epoch)


def resolved(record: Record, verdict: Verdict, reason: Reason, now: datetime, epoch: str) -> Record:
    """The record after a person's verdict on its claim.

    `succeeded` commits the ranges, for the task that has the claim too: cleared or tried again, it returns that. `failed` and `void` drop the claim: its ranges are pending again, under new tokens.
    Raises ClaimError when there is no claim.
    """
    refuse_claim(replace(record, claim=None))  # one that moved is resolved where it is now
    claim = record.claim
    if claim is None:
        raise ClaimError(f"subscription {record.subscription!r} has no open claim")
    run = f"run {claim.run_id}" if claim.run_id is not None else "no run"
    what = f"resolved the claim on {claim} ({run}, {claim.status}) as {verdict} {reason}"
    if verdict is Verdict.SUCCEEDED:
        ranges = begun(claim.ranges, record.watermarks)
        marks = {one.alias: merge(record.watermarks.get(one.alias), one.to) for one in ranges}
        told = tuple(one for one in claim.ranges if not one.empty) if claim.target.job_id else claim.ranges
        commit = Commit(claim.token, claim.run_id, record.epoch, told, claim.task)
        commits = remembered(record, commit)
        return record.after(now, what, claim=None, watermarks={**record.watermarks, **marks}, commits=commits)
    return record.after(now, what, claim=None, epoch=epoch)


def needs_a_person(claim: Claim | None) -> bool:
    """Whether nothing will happen until somebody resolves the claim."""
    return claim is not None and claim.status in NEEDS_A_PERSON


def shown(position: Position) -> str:
    """A position as people read it."""
    if isinstance(position, TablePosition):
        return f"version {position.version}" + (
            "" if position.through is None else f", no data up to {position.through}"
        )
    late = f", {len(position.late)} before that still open" if position.late else ""
    return f"runs from {position.low_water_ms} ms on, {len(position.done)} done{late}"


def _placed(record: Record, alias: str, to: Position, what: str, reason: Reason, now: datetime, epoch: str) -> Record:
    marks: Mapping[str, Position] = {**record.watermarks, alias: to}
    return record.after(now, f"{what} {reason}", watermarks=marks, epoch=epoch)


def _unclaimed_mark(record: Record, alias: str) -> Position:
    refuse_claim(record)
    if alias not in record.watermarks:
        raise InvalidArgument(
            f"subscription {record.subscription!r} has no source {alias!r}; it has {', '.join(sorted(record.watermarks))}"
        )
    return record.watermarks[alias]
