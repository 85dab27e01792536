"""Positions in sources, and the ranges between them.

A range is always `(from, to]`: from exclusive, to inclusive. Worked example: from version 3 to version 5 holds
the commits 4 and 5, so `start` is 4 and `end` is 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

_FOUND = ["found"]

BEFORE_FIRST = -1
"""The version before a table's first commit."""


@dataclass(frozen=True)
class TablePosition:
    """A version of one table identity. An id that is not known is None; `fingerprint` is that of the commit file.

    `through` is a later version up to which only commits without data came: there is nothing to read up to it. It stays
    out of the token, because no run proves it and a racer may not have seen it. The fingerprint is then of that commit.
    `found` says that nothing was processed yet: this is only what was there at a start at "latest", or when a table was
    adopted. Two racers may have found different versions, and must come to one token all the same.
    """

    version: int
    table_id: str | None = None
    metadata_id: str | None = None
    fingerprint: str | None = None
    found: bool = False
    through: int | None = None

    @property
    def at(self) -> int:
        """The last version with nothing left to read."""
        return self.version if self.through is None else self.through

    def identity(self) -> list[Any]:
        """What enters the token: `[table_id, metadata_id, version]`, or the mark of a position that was only found."""
        return _FOUND if self.found else [self.table_id, self.metadata_id, self.version]

    def merged(self, other: TablePosition) -> TablePosition:
        """The further of the two; what was only found gives way to what was processed, however far it is."""
        if self.found != other.found:
            return other if self.found else self
        return other if (other.version, other.at) > (self.version, self.at) else self

    def covers(self, other: TablePosition) -> bool:
        return self.version >= other.version and (other.found or not self.found)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "table",
            "version": self.version,
            "table_id": self.table_id,
            "metadata_id": self.metadata_id,
            "fingerprint": self.fingerprint,
            "found": self.found,
            "through": self.through,
        }


@dataclass(frozen=True)
class RunsPosition:
    """Runs done: all that started before `low_water_ms` (epoch milliseconds) but those in `late`, and those in `done` from
    there on.

    `late` are runs that were still open when the mark went past them, as (start in epoch milliseconds, run id): the mark
    need not wait for them, and they count when they end.
    """

    low_water_ms: int
    done: frozenset[int] = frozenset()
    found: bool = False
    late: frozenset[tuple[int, int]] = frozenset()

    @property
    def oldest_ms(self) -> int:
        """The start from which on there may be runs that are not done."""
        return min([self.low_water_ms, *(start_ms for start_ms, _ in self.late)])

    def has(self, start_ms: int, run_id: int) -> bool:
        """Whether this run is done, or was passed."""
        passed = start_ms < self.low_water_ms and (start_ms, run_id) not in self.late
        return passed or run_id in self.done

    def identity(self) -> list[Any]:
        """What enters the token: `[low_water_ms, sorted run ids]` and, where there are any, the late ones; or the mark of a
        position that was only found."""
        if self.found:
            return _FOUND
        late = [[list(one) for one in sorted(self.late)]] if self.late else []
        return [self.low_water_ms, sorted(self.done), *late]

    def merged(self, other: RunsPosition) -> RunsPosition:
        """All that either has done, above the higher mark; what was only found gives way to what was processed."""
        if self.found != other.found:
            return other if self.found else self
        late = frozenset(one for one in self.late | other.late if not (self.has(*one) or other.has(*one)))
        low_water_ms = max(self.low_water_ms, other.low_water_ms)
        return RunsPosition(low_water_ms, self.done | other.done, self.found, late)

    def covers(self, other: RunsPosition) -> bool:
        if (self.found and not other.found) or any(other.has(*one) for one in self.late):
            return False
        # above a higher mark `other` has nothing that the way from there to here has not seen, and ids below are dropped
        return self.low_water_ms > other.low_water_ms or (
            self.low_water_ms == other.low_water_ms and self.done >= other.done
        )

    def to_json(self) -> dict[str, Any]:
        value = {"kind": "runs", "low_water_ms": self.low_water_ms, "done": sorted(self.done), "found": self.found}
        return value | ({"late": [list(one) for one in sorted(self.late)]} if self.late else {})


Position: TypeAlias = TablePosition | RunsPosition


def position_from_json(value: Mapping[str, Any]) -> Position:
    """Inverse of `to_json`. Raises KeyError for a shape that was never written."""
    if value["kind"] == "runs":
        late = frozenset((start_ms, run_id) for start_ms, run_id in value.get("late", ()))
        return RunsPosition(value["low_water_ms"], frozenset(value["done"]), value.get("found", False), late)
    return TablePosition(
        value["version"],
        value["table_id"],
        value["metadata_id"],
        value["fingerprint"],
        value.get("found", False),
        value.get("through"),
    )


def merge(ours: Position | None, other: Position) -> Position:
    """Merge forward only; positions of one source are always of one kind."""
    if isinstance(ours, TablePosition) and isinstance(other, TablePosition):
        return ours.merged(other)
    if isinstance(ours, RunsPosition) and isinstance(other, RunsPosition):
        return ours.merged(other)
    return other


def covers(ours: Position | None, other: Position) -> bool:
    """Whether all of `other` is at or behind `ours`."""
    if isinstance(ours, TablePosition) and isinstance(other, TablePosition):
        return ours.covers(other)
    if isinstance(ours, RunsPosition) and isinstance(other, RunsPosition):
        return ours.covers(other)
    return False


@dataclass(frozen=True)
class Range:
    """`(from_, to]` of one source. `name` is what the consumer reads: a table's reader name, or the job.

    `runs` are the run ids of a range of runs, oldest first; empty for a table.
    """

    alias: str
    name: str
    from_: Position
    to: Position
    runs: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the source has nothing new in this range."""
        return covers(self.from_, self.to)

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "alias": self.alias,
            "name": self.name,
            "from": self.from_.to_json(),
            "to": self.to.to_json(),
        }
        if self.runs:
            value["runs"] = list(self.runs)
        return value

    def __str__(self) -> str:
        if isinstance(self.from_, TablePosition) and isinstance(self.to, TablePosition):
            return f"{self.name} ({self.from_.at}, {self.to.at}]"
        return f"{self.name} runs {list(self.runs)}"


def range_from_json(value: Mapping[str, Any]) -> Range:
    """Inverse of `Range.to_json`."""
    return Range(
        value["alias"],
        value["name"],
        position_from_json(value["from"]),
        position_from_json(value["to"]),
        tuple(value.get("runs", ())),
    )
