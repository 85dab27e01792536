"""A lost record, from the runs in the workspace that name its subscription. Decides nothing that it does not show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from databricks_bridge.core.backfill import EPOCH as BACKFILL
from databricks_bridge.core.errors import BadAnswer, ClaimError, LedgerLost
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.parameter_names import SUBSCRIPTION
from databricks_bridge.core.parameters import of_run, ranges_of
from databricks_bridge.core.positions import Position, Range, TablePosition, merge
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record, Target
from databricks_bridge.core.repair import shown


@dataclass(frozen=True)
class Piece:
    """One run that names the subscription, and the ranges that it was given."""

    run_id: int
    started_ms: int
    epoch: str
    ending: Ending
    ranges: tuple[Range, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "start_time": self.started_ms,
            "epoch": self.epoch,
            "ending": self.ending.value,
            "ranges": [one.to_json() for one in self.ranges if not one.empty],
        }


@dataclass(frozen=True)
class Finding:
    """Something in the row of ranges that a person should look at. `kind` is gap, overlap, replaced, unreadable or, for what
    another witness says, disagrees; then the run is the one that proves the mark.
    """

    kind: str
    alias: str
    run_id: int
    text: str

    def to_json(self) -> dict[str, Any]:
        return vars(self)


@dataclass(frozen=True)
class Witness:
    """What something else than the runs says of a source: `who` is a checkpoint or a control table."""

    who: str
    alias: str
    version: int
    agrees: bool

    def to_json(self) -> dict[str, Any]:
        return vars(self)


@dataclass(frozen=True)
class Rebuilt:
    """What the runs tell: the watermarks of the newest epoch, from which run each is, and what does not fit.

    A mark without a run in `proved_by` is a person's word.
    """

    pieces: tuple[Piece, ...]
    watermarks: Mapping[str, Position]
    proved_by: Mapping[str, int]
    findings: tuple[Finding, ...]
    witnesses: tuple[Witness, ...] = ()

    def said_of(self, alias: str) -> str:
        """Where a mark is from, in words."""
        run_id = self.proved_by.get(alias)
        return f"by run {run_id}" if run_id is not None else "as was said"

    @property
    def active(self) -> tuple[int, ...]:
        """Runs of the subscription that are not over: nothing may be written while there is one."""
        return tuple(piece.run_id for piece in self.pieces if piece.ending is Ending.ACTIVE)

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": [piece.to_json() for piece in self.pieces],
            "watermarks": {
                alias: {**mark.to_json(), "run_id": self.proved_by.get(alias)}
                for alias, mark in self.watermarks.items()
            },
            "witnesses": [one.to_json() for one in self.witnesses],
            "active_runs": list(self.active),
            "findings": [one.to_json() for one in self.findings],
        }


def command(subscription: str, target: Target) -> str:
    """The command line that rebuilds this record; what only a person can know stands in capitals."""
    return (
        f"databricks-bridge watermark rebuild {subscription} --job-id {target.job_id} --databricks-conn-id CONNECTION "
        f'--why "the ledger was lost" (CONNECTION leads to {target.host}; add --ledger LEDGER unless it is configured)'
    )


def external_command(subscription: str, consumer: str) -> str:
    """The command line that brings back the record of a subscription whose consumer is no job, from its second copy."""
    dag_id = consumer.removeprefix("dag ")
    return (
        f'databricks-bridge watermark rebuild {subscription} --dag-id {dag_id} --why "the ledger was lost" '
        "(it reads the copy from Airflow; --mark SOURCE=VERSION is your own word over it; add --ledger LEDGER unless it is configured)"
    )


def rebuild(subscription: str, runs: Iterable[Mapping[str, Any]], formerly: Iterable[str] = ()) -> Rebuilt:
    """Order the runs of `subscription` by their start, and follow its ranges through those that succeeded.

    `formerly` are names that it had before it was renamed.

    A later claim began where an earlier one had been committed, so the furthest `to` of the newest epoch is the watermark
    even where a run between is not to be seen any more (Databricks keeps runs for 60 days).
    """
    findings: list[Finding] = []
    pieces = sorted(
        _pieces({subscription, *formerly}, runs, findings), key=lambda piece: (piece.started_ms, piece.run_id)
    )
    marks: dict[str, Position] = {}
    proved: dict[str, int] = {}
    epochs: dict[str, str] = {}
    for piece in pieces:
        if piece.ending is not Ending.SUCCEEDED:
            continue
        for one in piece.ranges:
            mark = marks.get(one.alias)
            again = epochs.get(one.alias) not in (None, piece.epoch)
            if mark is not None and not again:
                finding = _compared(piece, one, mark)
                if finding:
                    findings.append(finding)
            fresh = mark is None or again or _replaced(mark, one.to)
            # as at a commit: a merge would remember all runs that were ever done
            moved = one.to if fresh or mark == one.from_ else merge(mark, one.to)
            epochs[one.alias] = piece.epoch
            if moved != mark or again:
                marks[one.alias], proved[one.alias] = moved, piece.run_id
    return Rebuilt(tuple(pieces), marks, proved, tuple(findings))


def witnessed(found: Rebuilt, alias: str, version: int, who: str) -> Rebuilt:
    """The same with another witness (a checkpoint, a control table), and a finding where it says another version."""
    mark = found.watermarks.get(alias)
    agrees = isinstance(mark, TablePosition) and mark.version <= version <= mark.at
    found = replace(found, witnesses=(*found.witnesses, Witness(who, alias, version, agrees)))
    if agrees:
        return found
    runs = f"the runs say {shown(mark)}" if mark is not None else "no run shows it"
    more = Finding("disagrees", alias, found.proved_by.get(alias, 0), f"{who} says version {version}, {runs}")
    return replace(found, findings=(*found.findings, more))


def stated(found: Rebuilt, alias: str, to: Position) -> Rebuilt:
    """The same with a person's word on one source, over what the runs say; ids that the runs know are kept."""
    mark = found.watermarks.get(alias)
    if isinstance(mark, TablePosition) and isinstance(to, TablePosition):
        to = TablePosition(to.version, mark.table_id, mark.metadata_id)
    proved = {name: run_id for name, run_id in found.proved_by.items() if name != alias}
    return replace(found, watermarks={**found.watermarks, alias: to}, proved_by=proved)


def record_of(
    subscription: str, target: Target, consumer: str, found: Rebuilt, reason: Reason, now: datetime, epoch: str
) -> Record:
    """The first record after a loss, in a new epoch. Raises ClaimError while a run is active, LedgerLost with nothing
    to go by."""
    if found.active:
        raise ClaimError(
            f"run {', '.join(map(str, found.active))} of {target} works for subscription {subscription!r}; "
            "wait until it is over, then rebuild"
        )
    if not found.watermarks:
        raise LedgerLost(
            f"no successful run of {target} that can be seen carries ranges of subscription {subscription!r}; look where it was "
            "in the checkpoint or the target's own data, and say so with --mark SOURCE=VERSION"
        )
    marks = ", ".join(f"{alias} at {shown(mark)} {found.said_of(alias)}" for alias, mark in found.watermarks.items())
    return Record(subscription, consumer, found.watermarks, epoch=epoch).after(
        now, f"rebuilt from {len(found.pieces)} runs: {marks} {reason}"
    )


def _pieces(names: set[str], runs: Iterable[Mapping[str, Any]], findings: list[Finding]) -> Iterable[Piece]:
    for run in runs:
        given = of_run(run)
        if given.get(SUBSCRIPTION) not in names or given.get("bridge_epoch") == BACKFILL:
            continue  # a backfill's ranges move no watermark
        ending = outcome_of(run).ending
        try:
            ranges = ranges_of(given, {})
        except BadAnswer as error:
            if ending is Ending.SUCCEEDED:
                findings.append(Finding("unreadable", "", run["run_id"], str(error)))
            ranges = ()
        yield Piece(run["run_id"], run.get("start_time", 0), given.get("bridge_epoch", ""), ending, ranges)


def _compared(piece: Piece, one: Range, mark: Position) -> Finding | None:
    """How a range joins what came before it."""
    if not (isinstance(mark, TablePosition) and isinstance(one.from_, TablePosition)):
        return None
    if _replaced(mark, one.from_):
        return Finding("replaced", one.alias, piece.run_id, f"{one} is of another table than what came before")
    if one.from_.version > mark.version:
        return Finding("gap", one.alias, piece.run_id, f"nothing to be seen for ({mark.version}, {one.from_.version}]")
    if one.from_.version < mark.version and not one.empty:
        return Finding("overlap", one.alias, piece.run_id, f"{one} begins before {mark.version}, which was reached")
    return None


def _replaced(mark: Position, other: Position) -> bool:
    if not (isinstance(mark, TablePosition) and isinstance(other, TablePosition)):
        return False
    pairs = ((mark.table_id, other.table_id), (mark.metadata_id, other.metadata_id))
    return any(ours and theirs and ours != theirs for ours, theirs in pairs)
