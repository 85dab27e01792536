from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore

from databricks_bridge.delta.log import DeltaLog

METADATA_ID = "11111111-2222-3333-4444-555555555555"


def commit(*actions: dict[str, Any]) -> str:
    return "".join(json.dumps(action) + "\n" for action in actions)


def append(n: int) -> dict[str, Any]:
    return {"add": {"path": f"p{n}.parquet", "partitionValues": {}, "size": 1, "dataChange": True}}


def metadata(identity: str = METADATA_ID) -> dict[str, Any]:
    return {"metaData": {"id": identity, "format": {"provider": "parquet"}, "schemaString": "{}"}}


OPTIMIZED: list[dict[str, Any]] = [
    {"commitInfo": {"operation": "OPTIMIZE"}},
    {"remove": {"path": "a", "dataChange": False}},
    {"add": {"path": "b", "dataChange": False}},
]


class Folder:
    """A log folder that is written by hand."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "_delta_log"
        self.log.mkdir(parents=True)

    def write(self, name: str, text: str | bytes = "") -> Path:
        path = self.log / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def commits(self, first: int, last: int) -> None:
        """Commits first to last, both inclusive; version 0 has the metadata."""
        for version in range(first, last + 1):
            actions = [append(version)] if version else [metadata(), append(0)]
            self.write(f"{version:020d}.json", commit(*actions))

    def checkpoint(self, version: int, identity: str = METADATA_ID) -> None:
        """A V2 checkpoint in JSON: the one kind that can be written by hand."""
        self.write(f"{version:020d}.checkpoint.{uuid.uuid4()}.json", commit(metadata(identity)))

    def hint(self, version: int) -> None:
        self.write("_last_checkpoint", json.dumps({"version": version, "size": 1}))

    def remove(self, first: int, last: int) -> None:
        for version in range(first, last + 1):
            (self.log / f"{version:020d}.json").unlink(missing_ok=True)


class Counting:
    """A store that counts what is asked of it, and knows nothing else than what the reader needs."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.asked: list[str] = []

    def take(self) -> list[str]:
        """What was asked since the last take, sorted: `list`, `range NAME`, `get NAME`."""
        asked, self.asked = sorted(self.asked), []
        return asked

    def list(self, prefix: str, **options: Any) -> Any:
        self.asked.append("list" if options["offset"] is None else "list from " + options["offset"][-4:])
        return self._store.list(prefix, **options)

    async def get_range_async(self, path: str, **options: Any) -> Any:
        self.asked.append(f"range {short(path)}")
        return await self._store.get_range_async(path, **options)

    async def get_async(self, path: str) -> Any:
        self.asked.append(f"get {short(path)}")
        return await self._store.get_async(path)

    def head(self, path: str) -> Any:
        self.asked.append(f"head {short(path)}")
        return self._store.head(path)

    def get_range(self, path: str, **options: Any) -> Any:
        return self._store.get_range(path, **options)


def short(path: str) -> str:
    """`_delta_log/00000000000000000012.json` as `12.json`."""
    name = path.removeprefix("_delta_log/")
    return f"{int(name[:20])}{name[20:]}" if name[:20].isdecimal() else name


@dataclass
class Clock:
    """An aware clock that stands still until it is moved."""

    at: datetime = datetime(2026, 11, 29, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def pass_(self, **by: float) -> None:
        self.at += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


Open = Callable[[Path], tuple[DeltaLog, Counting]]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "table")


@pytest.fixture
def open_log(clock: Clock) -> Open:
    def opened(root: Path) -> tuple[DeltaLog, Counting]:
        counting = Counting(LocalStore(root))

        async def store() -> Any:
            return counting

        return DeltaLog(store, "main.s.t", now=clock), counting

    return opened
