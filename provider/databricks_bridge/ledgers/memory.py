"""A keep in memory, with compare-and-set: for tests and trials, gone with its process."""

from __future__ import annotations

import json

from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.ledgers.protocol import Entry, follows, lost, own_history


class MemoryLedger:
    """Holds the record as JSON text, so that what is read back has made the whole way."""

    def __init__(self) -> None:
        self._stored: str | None = None

    async def read(self) -> Record | None:
        return None if self._stored is None else record_from_json(json.loads(self._stored))

    async def write(self, record: Record) -> None:
        if not follows(record, await self.read()):
            raise lost(record)
        self._stored = json.dumps(record.to_json())

    async def history(self, count: int) -> list[Entry]:
        return own_history(await self.read(), count)
