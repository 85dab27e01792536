"""What every keep of records can do: read one record, write one record."""

from __future__ import annotations

from typing import Protocol

from databricks_bridge.core.record import Record


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


def follows(record: Record, stored: Record | None) -> bool:
    """Whether `record` is the next revision after what is stored."""
    return record.revision == (stored.revision if stored else 0) + 1
