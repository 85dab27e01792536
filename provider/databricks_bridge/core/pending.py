"""What is new: watermarks against what a look found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from databricks_bridge.core.errors import HistoryGap, TableRecreated, TableReplaced
from databricks_bridge.core.positions import BEFORE_FIRST, Position, Range, RunsPosition, TablePosition
from databricks_bridge.core.sources import DeltaTable, Source
from databricks_bridge.core.subscription import SubscriptionSpec


@dataclass(frozen=True)
class TableFinding:
    """A look at a table. `position` is its newest version, None while it has no commit.

    `data_version` is the newest version after the watermark whose commit carries data, None when none does.
    `changed_at` is the store's own time of the newest such commit.
    """

    position: TablePosition | None
    data_version: int | None
    changed_at: datetime | None


@dataclass(frozen=True)
class RunsFinding:
    """A look at a job's runs: those that count, oldest first, and the position with all finished ones done."""

    position: RunsPosition
    runs: tuple[int, ...]
    changed_at: datetime | None


Finding: TypeAlias = TableFinding | RunsFinding


def first_watermark(spec: SubscriptionSpec, source: Source, finding: Finding) -> Position:
    """Where a source begins that has no watermark yet, by its `start`."""
    start = spec.start_of(source)
    if isinstance(finding, RunsFinding):
        return finding.position if start == "latest" else RunsPosition(0)
    found = finding.position or TablePosition(BEFORE_FIRST)
    if start == "latest":
        return found
    if start == "earliest":
        # No ids: of two racers one may look before the first commit, and both must make the same token.
        return TablePosition(BEFORE_FIRST)
    if start > found.version:
        raise HistoryGap(f"{source.alias} starts after version {start}, but the table is at {found.version}")
    return TablePosition(start, found.table_id, found.metadata_id)


def known_watermarks(
    spec: SubscriptionSpec, watermarks: Mapping[str, Position], findings: Mapping[str, Finding]
) -> dict[str, Position]:
    """The watermarks of all sources, those without one at their `start`; marks of removed sources are kept."""
    first = {
        source.alias: first_watermark(spec, source, findings[source.alias])
        for source in spec.sources
        if source.alias not in watermarks
    }
    return {**watermarks, **first}


def ranges_of(
    spec: SubscriptionSpec, watermarks: Mapping[str, Position], findings: Mapping[str, Finding]
) -> tuple[Range, ...]:
    """One range for each source, in the order of the sources; a source with nothing new has an empty one.

    Raises TableRecreated, TableReplaced or HistoryGap when a source is not what the watermark knew.
    """
    return tuple(_range(source, watermarks[source.alias], findings[source.alias]) for source in spec.sources)


def changes_of(ranges: tuple[Range, ...], findings: Mapping[str, Finding], now: datetime) -> dict[str, datetime | None]:
    """For the policy: when each source changed last, None where nothing is new."""
    return {one.alias: None if one.empty else findings[one.alias].changed_at or now for one in ranges}


def _range(source: Source, mark: Position, finding: Finding) -> Range:
    if isinstance(source, DeltaTable) and isinstance(mark, TablePosition) and isinstance(finding, TableFinding):
        return Range(source.alias, source.reader_name, mark, _table_to(source, mark, finding))
    if not isinstance(source, DeltaTable) and isinstance(mark, RunsPosition) and isinstance(finding, RunsFinding):
        to = finding.position if finding.runs else mark
        return Range(source.alias, source.job, mark, to, finding.runs)
    raise HistoryGap(f"{source.alias} was another kind of source when its watermark was written; give another alias=")


def _table_to(source: DeltaTable, mark: TablePosition, finding: TableFinding) -> TablePosition:
    found = finding.position
    if found is None:
        if mark.version > BEFORE_FIRST:
            raise HistoryGap(f"{source.table} has no commit now, but version {mark.version} of it was processed")
        return mark
    if mark.table_id and found.table_id and mark.table_id != found.table_id:
        raise TableRecreated(
            f"{source.table} is another table now (table id {found.table_id}, the watermark at version {mark.version} "
            f"knows {mark.table_id}); its versions do not continue the old ones"
        )
    if mark.metadata_id and found.metadata_id and mark.metadata_id != found.metadata_id:
        raise TableReplaced(
            f"{source.table} was replaced (metadata id {found.metadata_id}, the watermark at version {mark.version} "
            f"knows {mark.metadata_id})"
        )
    if found.version < mark.version:
        raise HistoryGap(
            f"{source.table} is at version {found.version}, behind the watermark {mark.version}; its log was cut or replaced"
        )
    if finding.data_version is None or finding.data_version <= mark.version:
        return mark
    return found
