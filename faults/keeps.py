"""The two kinds of keep, with a seam where another process may come between check and write, and where calls fail."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.airflow import KEY, AirflowLedger, fitting
from databricks_bridge.ledgers.object_store import ObjectStoreLedger, open_url
from databricks_bridge.ledgers.objects import StoreObjects
from databricks_bridge.ledgers.protocol import Ledger, follows, lost

Seam = Callable[[str], Awaitable[None]]
"""Awaited at "before", "between" and "after" of a call; raises LedgerError, or the death of the process, where it likes."""


class TornObjects(StoreObjects):
    """A local folder; `seam` comes between check and write, and after the write."""

    def __init__(self, root: Path, name: str, seam: Seam) -> None:
        super().__init__(lambda: open_url(root.as_uri()), name, name)
        self._seam = seam

    async def create(self, key: str, data: bytes) -> None:
        if not key[0].isdigit():
            await super().create(key, data)
            return
        await self._seam("between")
        await super().create(key, data)
        await self._seam("after")


class ObjectKeep:
    """One subscription's record in the object-store keep, over a local folder."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name

    def ledger(self, seam: Seam) -> Ledger:
        return _Failing(ObjectStoreLedger(TornObjects(self._root, self._name, seam), self._name), seam)

    def stored(self) -> dict[str, Any] | None:
        """The newest record, as plain JSON, read past all our code."""
        files = sorted((self._root / self._name).glob("0*.json"))
        value: dict[str, Any] | None = json.loads(files[-1].read_text())["record"] if files else None
        return value


class _State:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str, default: Any = None) -> Any:
        return json.loads(self.values[key]) if key in self.values else default

    def set(self, key: str, value: Any) -> None:
        self.values[key] = json.dumps(value)


class _Upsert(AirflowLedger):
    """The Airflow keep, whose check and write lie apart as two calls to Airflow's API do."""

    def __init__(self, state: _State, seam: Seam) -> None:
        super().__init__(state)
        self._state, self._seam = state, seam

    async def write(self, record: Record) -> None:
        value = fitting(record)
        if not follows(record, await self.read()):
            raise lost(record)
        await self._seam("between")
        self._state.set(KEY, value)
        await self._seam("after")


class UpsertKeep:
    """One subscription's record in a plain upsert store."""

    def __init__(self) -> None:
        self._state = _State()

    def ledger(self, seam: Seam) -> Ledger:
        return _Failing(_Upsert(self._state, seam), seam)

    def stored(self) -> dict[str, Any] | None:
        """The record as plain JSON."""
        value: dict[str, Any] | None = self._state.get(KEY)
        return value


class _Failing:
    """A ledger whose calls may fail before anything was done."""

    def __init__(self, real: Ledger, seam: Seam) -> None:
        self._real, self._seam = real, seam

    async def read(self) -> Record | None:
        await self._seam("before")
        return await self._real.read()

    async def write(self, record: Record) -> None:
        await self._seam("before")
        await self._real.write(record)

    async def history(self, count: int) -> Any:
        return await self._real.history(count)


def failed(what: str) -> LedgerError:
    """The error of a keep that gave no usable answer."""
    return LedgerError(f"the keep {what}")


Keep = ObjectKeep | UpsertKeep
