"""What is new: watermarks against what a look found."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from databricks_bridge.core.errors import HistoryGap, SourceError, TableRecreated, TableReplaced
from databricks_bridge.core.left_out import LeftOut, empty_range
from databricks_bridge.core.next_steps import decision
from databricks_bridge.core.policy import Choice, Choices, Condition
from databricks_bridge.core.positions import BEFORE_FIRST, Position, Range, RunsPosition, TablePosition
from databricks_bridge.core.sources import DeltaTable, Source, TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec

MAINTENANCE_WAITS = timedelta(days=1)
MAINTENANCE_COMMITS = 10
"""Commits without data are written to the record with the next claim; or, so old or so many, for themselves."""

_EPOCHS = uuid.uuid5(uuid.NAMESPACE_URL, "x-databricks-bridge://epoch")


@dataclass(frozen=True)
class TableFinding:
    """A look at a table. `position` is its newest version, None while it has no commit.

    `data_version` is the newest version after the watermark whose commit carries data, None when none does.
    `changed_at` is the store's own time of the newest commit with data, where there is one after the watermark, else of the newest
    commit. `ageing` says until when what is new can be read, where that is soon. `known_fingerprint` is that of the watermark's own commit
    as the log has it now, None where that was not read. `gap` says why what is new cannot be read any more; None where it can,
    or where nobody asked. `reader_version` is the version that the reader under `read_as` is at, -1 for none yet; None where it
    was not asked.
    """

    position: TablePosition | None
    data_version: int | None
    changed_at: datetime | None
    known_fingerprint: str | None = None
    gap: str | None = None
    reader_version: int | None = None
    ageing: str | None = None


@dataclass(frozen=True)
class RunsFinding:
    """A look at a job's runs: those that count, oldest first, and the position with all finished ones done."""

    position: RunsPosition
    runs: tuple[int, ...]
    changed_at: datetime | None


Finding: TypeAlias = TableFinding | RunsFinding | LeftOut


def first_watermark(spec: SubscriptionSpec, source: Source, finding: TableFinding | RunsFinding) -> Position:
    """Where a source begins that has no watermark yet, by its `start`."""
    start = spec.start_of(source)
    if isinstance(finding, RunsFinding):
        return replace(finding.position, found=True) if start == "latest" else RunsPosition(0)
    found = finding.position or TablePosition(BEFORE_FIRST)
    if start == "latest":
        return replace(found, found=True)
    if start == "earliest":
        # No ids: of two racers one may look before the first commit, and both must make the same token.
        return TablePosition(BEFORE_FIRST)
    if start > found.version:
        raise HistoryGap(
            f"{source.alias} starts after version {start}, but the table is at {found.version}; give it a start= of at most "
            f'that, or "latest" or "earliest"'
        )
    return TablePosition(start, found.table_id, found.metadata_id)


@dataclass(frozen=True)
class Settled:
    """The watermarks of all sources, ready to be compared: those without one at their `start`, marks of removed sources
    kept. `notes` say what a choice decided; then `epoch` is a new one, so that no old token can answer.
    """

    watermarks: dict[str, Position]
    epoch: str
    notes: tuple[str, ...] = ()


def settle(
    spec: SubscriptionSpec, watermarks: Mapping[str, Position], epoch: str, findings: Mapping[str, Finding]
) -> Settled:
    """Give every source a watermark that its finding continues; one that was left out keeps what it has.

    Raises the error of a source that was left out and starts at a version of its own: whose version that is, only a poll tells.
    Raises TableRecreated, TableReplaced or HistoryGap where that would take a decision and the choice is to fail.
    """
    marks = dict(watermarks)
    notes: list[str] = []
    for source in spec.sources:
        finding = findings[source.alias]
        mark = marks.get(source.alias)
        if isinstance(finding, LeftOut):
            if mark is None and (first := _first_unseen(spec, source, finding)) is not None:
                marks[source.alias] = first
        elif mark is None:
            marks[source.alias] = first_watermark(spec, source, finding)
        elif isinstance(source, DeltaTable) and isinstance(mark, TablePosition) and isinstance(finding, TableFinding):
            problem = _problem(spec.name, source, mark, finding)
            if problem is not None:
                marks[source.alias] = _chosen(spec.choices, problem, finding)
                epoch = _next_epoch(epoch, source.alias, mark, finding)
                notes.append(f"{_choice(spec.choices, problem)}: {problem}")
    return Settled(marks, epoch, tuple(notes))


def _first_unseen(spec: SubscriptionSpec, source: Source, finding: LeftOut) -> Position | None:
    """Where a source begins that has never been polled, as far as that needs no poll."""
    start = spec.start_of(source)
    if start == "latest":
        return None
    if start == "earliest":
        return TablePosition(BEFORE_FIRST) if isinstance(source, DeltaTable) else RunsPosition(0)
    raise finding.error


@dataclass(frozen=True)
class PassedOver:
    """Watermarks after commits without data, which need no run; `notes` name those commits, and `due` those that must not
    wait for the next data: a log is cleaned from its old end, whatever its commits hold.
    """

    watermarks: dict[str, Position]
    notes: tuple[str, ...] = ()
    due: tuple[str, ...] = ()


def passed_over(
    spec: SubscriptionSpec, watermarks: Mapping[str, Position], findings: Mapping[str, Finding], now: datetime
) -> PassedOver:
    """Pass over what holds no data since the (settled) watermarks, table by table."""
    marks = dict(watermarks)
    notes: list[str] = []
    due: list[str] = []
    for source in spec.sources:
        mark, finding = marks.get(source.alias), findings[source.alias]
        if not (
            isinstance(source, DeltaTable) and isinstance(mark, TablePosition) and isinstance(finding, TableFinding)
        ):
            continue
        found = finding.position
        if (
            found is None
            or mark.version == BEFORE_FIRST
            or finding.data_version is not None
            or found.version <= mark.at
        ):
            continue
        marks[source.alias] = replace(mark, through=found.version, fingerprint=found.fingerprint)
        note = f"committed without a run: {source.reader_name} ({mark.at}, {found.version}], no data in it"
        notes.append(note)
        old = finding.changed_at is not None and now - finding.changed_at >= MAINTENANCE_WAITS
        if old or found.version - mark.at >= MAINTENANCE_COMMITS:
            due.append(note)
    return PassedOver(marks, tuple(notes), tuple(due))


def starts_somewhere(before: Mapping[str, Position], settled: Mapping[str, Position]) -> bool:
    """Whether a first watermark depends on what was found: then two racers may have found different ones."""
    nowhere = (TablePosition(BEFORE_FIRST), RunsPosition(0))
    return any(mark not in nowhere for alias, mark in settled.items() if alias not in before)


def identity_changes(ranges: Iterable[Range], findings: Mapping[str, Finding]) -> str:
    """Which tables of these ranges are others now, or cannot be polled, as words; empty where all are still the same."""
    changed = []
    for one in ranges:
        finding = findings.get(one.alias)
        if isinstance(finding, LeftOut) and not one.empty:
            changed.append(f"{one.name} cannot be polled, and is {finding}")
        if isinstance(one.to, TablePosition) and isinstance(finding, TableFinding):
            now = finding.position or TablePosition(BEFORE_FIRST)
            ids = ((one.to.table_id, now.table_id), (one.to.metadata_id, now.metadata_id))
            if any(then and found and then != found for then, found in ids) or now.version < one.to.version:
                changed.append(f"{one.name} is another table now, or was cut")
    return "; ".join(changed)


def ranges_of(
    spec: SubscriptionSpec, watermarks: Mapping[str, Position], findings: Mapping[str, Finding]
) -> tuple[Range, ...]:
    """One range for each source, in the order of the sources; a source with nothing new has an empty one.

    `watermarks` are settled. Raises HistoryGap when a watermark is of another kind than its source.
    """
    most = spec.max_commits_per_run
    ranges = (_range(source, watermarks.get(source.alias), findings[source.alias], most) for source in spec.sources)
    idle = _written_by_nobody(spec, findings)
    released = [replace(one, to=one.from_) if one.alias in idle else one for one in ranges]
    held = _cut_short(spec, released, findings)
    return tuple(replace(one, to=one.from_, runs=()) if one.alias in held else one for one in released)


def changes_of(ranges: tuple[Range, ...], findings: Mapping[str, Finding], now: datetime) -> dict[str, datetime | None]:
    """For the policy: when each source changed last, None where nothing is new; a source that waits for its reader says so."""
    return {_called(one, found := findings[one.alias]): _changed_at(one, found, now) for one in ranges}


def _changed_at(one: Range, finding: Finding, now: datetime) -> datetime | None:
    return None if one.empty or isinstance(finding, LeftOut) else finding.changed_at or now


def _called(one: Range, finding: Finding) -> str:
    if isinstance(finding, LeftOut):
        return f"{one.alias} ({finding})"
    if not isinstance(finding, TableFinding):
        return one.alias
    if one.empty and finding.position and finding.reader_version is not None:
        there = f"at version {finding.reader_version}" if finding.reader_version > BEFORE_FIRST else "without a version"
        return f"{one.alias} (the reader {one.name} is {there}, the provider at {finding.position.version})"
    return f"{one.alias} ({finding.ageing})" if finding.ageing else one.alias


def _written_by_nobody(spec: SubscriptionSpec, findings: Mapping[str, Finding]) -> set[str]:
    """The tables that are looked at only when a run that writes them has ended, and none has, or none can be seen."""
    ended: dict[str, bool] = {}
    for source in spec.sources:
        finding = findings[source.alias]
        if isinstance(source, TriggeredRuns):
            runs = finding.runs if isinstance(finding, RunsFinding) else ()
            for table in source.writes:
                ended[table.alias] = ended.get(table.alias, False) or bool(runs)
    return {alias for alias, any_run in ended.items() if not any_run}


def _cut_short(spec: SubscriptionSpec, ranges: Iterable[Range], findings: Mapping[str, Finding]) -> set[str]:
    """The runs whose tables are not read to their end in these ranges, or not at all: they stay pending until the rest is claimed, or no run
    would release it. With ALL_UPDATED they cannot wait: each claim needs them.
    """
    if spec.policy.condition is Condition.ALL_UPDATED:
        return set()
    cut = set()
    for one in ranges:
        finding = findings[one.alias]
        newest = finding.data_version if isinstance(finding, TableFinding) else None
        unread = isinstance(one.to, TablePosition) and newest is not None and one.to.at < newest
        if unread or isinstance(finding, LeftOut):
            cut.add(one.alias)
    runs = (source for source in spec.sources if isinstance(source, TriggeredRuns))
    return {source.alias for source in runs if any(table.alias in cut for table in source.writes)}


def _range(source: Source, mark: Position | None, finding: Finding, most: int | None) -> Range:
    if isinstance(finding, LeftOut):
        return empty_range(source, mark)
    if isinstance(source, DeltaTable) and isinstance(mark, TablePosition) and isinstance(finding, TableFinding):
        return Range(source.alias, source.reader_name, mark, _table_to(mark, finding, most))
    if not isinstance(source, DeltaTable) and isinstance(mark, RunsPosition) and isinstance(finding, RunsFinding):
        to = finding.position if finding.runs else mark
        return Range(source.alias, source.job, mark, to, finding.runs)
    raise HistoryGap(f"{source.alias} was another kind of source when its watermark was written; give another alias=")


def _table_to(mark: TablePosition, finding: TableFinding, most: int | None) -> TablePosition:
    found = _readable(mark, finding)
    if found is None or finding.data_version is None or finding.data_version <= mark.at:
        return mark
    if most is None or mark.version == BEFORE_FIRST or found.version - mark.at <= most:
        return found
    return TablePosition(mark.at + most, found.table_id, found.metadata_id)


def _readable(mark: TablePosition, finding: TableFinding) -> TablePosition | None:
    """The newest position that the reader has too, as far as it was asked; None where that is none after the mark."""
    found, there = finding.position, finding.reader_version
    if found is None or there is None or found.version <= there:
        return found
    return TablePosition(there, found.table_id, found.metadata_id) if there > mark.at else None


def _problem(name: str, source: DeltaTable, mark: TablePosition, finding: TableFinding) -> SourceError | None:
    """Why the finding does not continue the mark, and what to do about it; or None."""
    found = finding.position
    newest = BEFORE_FIRST if found is None else found.version
    recreated, replaced, gap = (
        decision(name, source.alias, newest, f"on_{what}") for what in ("recreated", "replaced", "history_gap")
    )
    if found is None:
        if mark.version == BEFORE_FIRST:
            return None
        return HistoryGap(f"{source.table} has no commit now, but version {mark.version} of it was processed. {gap}")
    if mark.table_id and found.table_id and mark.table_id != found.table_id:
        return TableRecreated(
            f"{source.table} is another table now (table id {found.table_id}, the watermark at version {mark.version} "
            f"knows {mark.table_id}); its versions do not continue the old ones. {recreated}"
        )
    if mark.metadata_id and found.metadata_id and mark.metadata_id != found.metadata_id:
        return TableReplaced(
            f"{source.table} was replaced (metadata id {found.metadata_id}, the watermark at version {mark.version} "
            f"knows {mark.metadata_id}). {replaced}"
        )
    if mark.fingerprint and finding.known_fingerprint and mark.fingerprint != finding.known_fingerprint:
        return TableRecreated(
            f"commit {mark.at} of {source.table} is another one than the watermark knows: another table lies in its place. "
            f"{recreated}"
        )
    if found.version < mark.at:
        return HistoryGap(
            f"{source.table} is at version {found.version}, behind the watermark {mark.at}; its log was cut or replaced. {gap}"
        )
    if finding.gap is not None:
        return HistoryGap(f"what is new in {source.table} after version {mark.at} cannot be read: {finding.gap}. {gap}")
    return None


def _choice(choices: Choices, problem: SourceError) -> Choice:
    match problem:
        case TableRecreated():
            return choices.on_recreated
        case TableReplaced():
            return choices.on_replaced
    return choices.on_history_gap


def _chosen(choices: Choices, problem: SourceError, finding: TableFinding) -> TablePosition:
    choice = _choice(choices, problem)
    if choice is Choice.FAIL:
        raise problem
    if choice is Choice.ADOPT and finding.position is not None:
        return replace(finding.position, found=True)
    return TablePosition(BEFORE_FIRST)


def _next_epoch(epoch: str, alias: str, mark: TablePosition, finding: TableFinding) -> str:
    """A uuid that two racers who saw the same change both come to, whatever versions they saw."""
    found = finding.position or TablePosition(BEFORE_FIRST)
    facts = [epoch, alias, mark.version, mark.table_id, mark.metadata_id, found.table_id, found.metadata_id]
    return str(uuid.uuid5(_EPOCHS, json.dumps(facts)))
