"""Every keep that the shared tests run on, each on a store of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from obstore.store import MemoryStore

from databricks_bridge.ledgers.airflow import AirflowLedger
from databricks_bridge.ledgers.control_table import ControlTableKeep
from databricks_bridge.ledgers.memory import MemoryLedger
from databricks_bridge.ledgers.object_store import ObjectStoreKeep, ObjectStoreLedger
from databricks_bridge.ledgers.objects import Found, StoreObjects
from databricks_bridge.ledgers.protocol import Ledger
from databricks_bridge.workspace.statements import Row
from tests.ledgers.warehouse import FakeWarehouse


class Store:
    """Airflow's accessor in shape: what is set crosses JSON, as it does on its way to the API server."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def get(self, key: str, default: Any = None) -> Any:
        return json.loads(self.rows[key]) if key in self.rows else default

    def set(self, key: str, value: Any) -> None:
        self.rows[key] = json.dumps(value)


class Counted:
    """Real objects, with every call counted; `fault` is called before each and after each that changes something."""

    def __init__(self, real: StoreObjects) -> None:
        self.real = real
        self.calls: list[str] = []
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None

    def _begin(self, verb: str, key: str) -> str:
        call = f"{verb} {key}"
        self.calls.append(call)
        self.before(call)
        return call

    async def get(self, key: str) -> bytes | None:
        self._begin("get", key)
        return await self.real.get(key)

    async def create(self, key: str, data: bytes) -> None:
        call = self._begin("create", key)
        await self.real.create(key, data)
        self.after(call)

    async def put(self, key: str, data: bytes) -> None:
        call = self._begin("put", key)
        await self.real.put(key, data)
        self.after(call)

    async def delete(self, keys: list[str]) -> None:
        for key in keys:
            self._begin("delete", key)
            await self.real.delete([key])

    async def scan(self, after: str | None = None) -> AsyncIterator[Found]:
        self._begin("scan", after or "")
        async for found in self.real.scan(after):
            yield found


def in_memory() -> Counted:
    """The objects of one subscription in a store of their own."""
    store = MemoryStore()
    return Counted(StoreObjects(lambda: store, "delays", "memory:/delays"))


def in_folder(folder: Path) -> ObjectStoreLedger:
    return ObjectStoreKeep(folder.as_uri()).ledger("delays")


def memory_store() -> Ledger:
    return ObjectStoreLedger(in_memory(), "memory:/delays")


class Direct:
    """A warehouse without HTTP between: the statements run on DuckDB."""

    def __init__(self) -> None:
        self._fake = FakeWarehouse()

    async def execute(self, statement: str, **parameters: str | int) -> list[Row]:
        given = [
            {"name": name, "value": str(value), "type": "BIGINT" if isinstance(value, int) else "STRING"}
            for name, value in parameters.items()
        ]
        answer = self._fake.run("one", statement, given)
        assert answer["status"]["state"] == "SUCCEEDED", answer
        names = [column["name"] for column in answer["manifest"]["schema"]["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer["result"].get("data_array", [])]


def control_table() -> Ledger:
    direct: Any = Direct()

    async def open_warehouse() -> Any:
        return direct

    return ControlTableKeep(open_warehouse, "lake.bridge").ledger("delays")


KEEPS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda folder: MemoryLedger(),
    "airflow": lambda folder: AirflowLedger(Store()),
    "object store, memory": lambda folder: memory_store(),
    "object store, folder": in_folder,
    "control table": lambda folder: control_table(),
}
