"""What every keep of records can do: read one record, write one record, tell what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from databricks_bridge.core.errors import WriteLost
from databricks_bridge.core.record import Record


@dataclass(frozen=True)
class Entry:
    """One transition of a record. `at` is the keep's own time where it has one, else the writer's."""

    revision: int
    at: datetime
    what: str

    def to_json(self) -> dict[str, Any]:
        return {"revision": self.revision, "at": self.at.isoformat(), "what": self.what}


class Ledger(Protocol):
    """The keep of one subscription's record. One write is one transition."""

    async def read(self) -> Record | None:
        """The record, None where there is none. Raises LedgerError."""
        ...

    async def write(self, record: Record) -> None:
        """Make this the record; durable when it returns.

        Raises WriteLost when another writer came first, RecordTooLarge, LedgerError.
        """
        ...

    async def history(self, count: int) -> Sequence[Entry]:
        """The last `count` transitions that are kept, oldest first; empty where there is no record."""
        ...


class Keep(Protocol):
    """A place that holds the records of many subscriptions."""

    async def names(self) -> Sequence[str]:
        """The subscriptions that have a record here, sorted. Raises LedgerError."""
        ...

    def ledger(self, subscription: str) -> Ledger:
        """The keep of one subscription's record, whether there is one yet or not."""
        ...


def follows(record: Record, stored: Record | None) -> bool:
    """Whether `record` is the next revision after what is stored."""
    return record.revision == (stored.revision if stored else 0) + 1


def lost(record: Record) -> WriteLost:
    """The error for a write that another writer came before."""
    return WriteLost(f"the record of subscription {record.subscription!r} was changed by another writer")


def own_history(record: Record | None, count: int) -> list[Entry]:
    """The transitions that the record itself remembers, for keeps that hold nothing but the newest record."""
    if record is None:
        return []
    first = record.revision - len(record.history) + 1
    entries = [Entry(first + index, line.at, line.what) for index, line in enumerate(record.history)]
    return entries[-count:] if count > 0 else []
