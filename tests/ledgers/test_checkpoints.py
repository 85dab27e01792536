"""A streaming checkpoint where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.ledgers.checkpoints import checkpoint_version
from tests.core.test_checkpoint import offset, offsets


def lay(folder: Path, planned: dict[int, str], done: list[int]) -> str:
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    for batch, text in planned.items():
        (folder / "offsets" / str(batch)).write_text(text)
    for batch in done:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder.as_uri()


async def test_a_planned_batch_that_was_not_committed_does_not_count(tmp_path: Path) -> None:
    url = lay(tmp_path / "a checkpoint", {0: offsets(offset(3)), 1: offsets(offset(6))}, [0])
    assert await checkpoint_version(url) == 2


async def test_an_empty_checkpoint_has_processed_nothing(tmp_path: Path) -> None:
    assert await checkpoint_version(lay(tmp_path / "checkpoint", {}, [])) == -1


async def test_a_checkpoint_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot open the store at file:"):
        await checkpoint_version((tmp_path / "none").as_uri())
    assert not (tmp_path / "none").exists()
