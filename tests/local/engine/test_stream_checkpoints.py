"""How far a checkpoint has come, by checkpoints that real Spark writes: one of each kind of stream over a Delta table."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore

from databricks_bridge.core.checkpoint import Reached, last_done, offsets_of
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.ledgers.checkpoints import checkpoint_reached
from tests.core.test_checkpoint_files import RECORDED, RECORDING

from .lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

NOTEBOOK = Path(__file__).with_name("stream_checkpoints.notebook")


def opened(folder: Path) -> DeltaLog:
    async def store() -> Any:
        return LocalStore(folder)

    return DeltaLog(store, folder.name)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_T02_each_kind_of_stream_has_processed_what_it_read(lab: Lab) -> None:
    root = lab.volume("main.s.checkpoints")
    result = lab.begin(NOTEBOOK.read_text()).result(390)
    assert result.succeeded, result.error_trace
    found: dict[str, Any] = {}
    recorded: dict[str, Any] = {}
    for name, made in json.loads(result.exit_value or "").items():
        folder, log = root / made.get("checkpoint", name), opened(lab.table(made["table"]))
        found[name] = await checkpoint_reached(folder.as_uri(), made["id"], log) == Reached(made["done"])
        batch = last_done(names(folder / "offsets"), names(folder / "commits"))
        [offset] = offsets_of((folder / "offsets" / str(batch)).read_text(), made["id"])
        commit = await log.commit_files(offset.version) if offset.index >= 0 and not offset.snapshot else None
        recorded[name] = {
            "offset": asdict(offset) | {"table": "T"},
            "commits": {} if commit is None else {str(offset.version): asdict(commit)},
            "snapshot": await log.snapshot_files(offset.version) if offset.snapshot else None,
            "done": made["done"],
        }
    assert found == dict.fromkeys(found, True)
    if os.environ.get("RECORD_STREAM_OFFSETS"):
        RECORDING.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    else:
        assert recorded == RECORDED, "RECORD_STREAM_OFFSETS=1 records them anew"
