"""A ledger in a folder, and the command run on it as a process of its own or in this one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.cli import main
from databricks_bridge.core.positions import Range, RunsPosition
from databricks_bridge.core.record import Claim, ClaimStatus, Record
from databricks_bridge.ledgers.object_store import ObjectStoreKeep
from tests.core.builders import NOW, TARGET, at

FIRST = Record("delays", "http://127.0.0.1:1 job 7", {"flights": at(5), "by_file": RunsPosition(1000)}).after(
    NOW, "started flights"
)
CLAIM = Claim(
    (Range("flights", "main.silver.flights", at(5), at(8)),),
    "t" * 64,
    0,
    TARGET,
    (),
    NOW,
    run_id=11,
    status=ClaimStatus.BLOCKED,
    failures=3,
)


@dataclass(frozen=True)
class Folder:
    """A ledger in a folder, read and written past the command."""

    path: Path

    @property
    def url(self) -> str:
        return self.path.as_uri()

    def read(self, name: str = "delays") -> Record | None:
        return asyncio.run(ObjectStoreKeep(self.url).ledger(name).read())

    def write(self, record: Record) -> Record:
        asyncio.run(ObjectStoreKeep(self.url).ledger(record.subscription).write(record))
        return record

    def claimed(self, claim: Claim = CLAIM) -> Record:
        """The first record, then one with an open claim."""
        return self.write(self.write(FIRST).after(NOW, "claimed", claim=claim))


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    for name in ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_BRIDGE_AIRFLOW_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    folder = Folder(tmp_path / "ledger")
    monkeypatch.setenv("AIRFLOW__DATABRICKS_BRIDGE__LEDGER", folder.url)
    return folder


@dataclass(frozen=True)
class Answer:
    """What the command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def bridge(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run the command in this process."""

    def run(*words: str) -> Answer:
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run
