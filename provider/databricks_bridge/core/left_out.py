"""Sources that gave no answer to a poll. With ANY_UPDATED the others go on without them; ALL_UPDATED needs each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.core.positions import BEFORE_FIRST, Position, Range, RunsPosition, TablePosition
from databricks_bridge.core.sources import DeltaTable, Source

_SHOWN = 200
"""Characters of an error: the words go into the record with the next claim."""


@dataclass(frozen=True)
class LeftOut:
    """What stands in the place of a finding where the poll of a source failed: it keeps its watermark.

    :param error: what the poll raised.
    :param since: when the first of the polls in a row failed, as far as this process knows.
    """

    error: BridgeError
    since: datetime

    def __str__(self) -> str:
        said = f"{type(self.error).__name__}: {self.error}"
        shown = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
        return f"left out since {self.since.isoformat(timespec='seconds')}: {shown}"


def left_out(findings: Mapping[str, object]) -> dict[str, LeftOut]:
    """The sources that gave no answer, by alias.

    :param findings: what a poll came to, by alias.
    """
    return {alias: one for alias, one in findings.items() if isinstance(one, LeftOut)}


def words_of(findings: Mapping[str, object]) -> tuple[str, ...]:
    """One sentence for each source that gave no answer.

    :param findings: what a poll came to, by alias.
    """
    return tuple(f"{alias} is {one}" for alias, one in sorted(left_out(findings).items()))


def empty_range(source: Source, mark: Position | None) -> Range:
    """The range of a source that gave no answer: nothing after its watermark.

    Without a watermark yet it stands at "found", which enters the token as the start at "latest" of whoever could poll the
    source, so that both come to one token; no watermark is written for it (`never_polled`).

    :param source: the source.
    :param mark: its watermark, if it has one.
    """
    name = source.reader_name if isinstance(source, DeltaTable) else source.job
    if mark is None:
        table = isinstance(source, DeltaTable)
        mark = TablePosition(BEFORE_FIRST, found=True) if table else RunsPosition(0, found=True)
    return Range(source.alias, name, mark, mark)


def never_polled(one: Range, watermarks: Mapping[str, Position]) -> bool:
    """Whether this range of a claim only stands for a source that has not begun yet.

    :param one: a range of a claim.
    :param watermarks: of the record.
    """
    return one.empty and one.alias not in watermarks


def begun(ranges: Iterable[Range], watermarks: Mapping[str, Position]) -> list[Range]:
    """The ranges of a claim that have a watermark, or make one.

    :param ranges: of the claim.
    :param watermarks: of the record.
    """
    return [one for one in ranges if not never_polled(one, watermarks)]
