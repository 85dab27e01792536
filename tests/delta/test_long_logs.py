"""B16: what logs of tens of thousands of commits cost, whatever the hint says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from obstore.store import MemoryStore

from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.names import LAST_CHECKPOINT, commit_path

from .conftest import METADATA_ID, Clock, Counting, append, commit, metadata

COMMITS = 50_000
NEWEST = COMMITS - 1
LAST_CHECKPOINT_AT = 49_900
UNIQUE = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    filled = MemoryStore()
    body = commit({"commitInfo": {"operation": "WRITE"}}, append(1)).encode()
    for version in range(COMMITS):
        filled.put(commit_path(version), body)
    for version in range(100, COMMITS, 100):
        filled.put(f"_delta_log/{version:020d}.checkpoint.{UNIQUE}.json", commit(metadata()).encode())
    return filled


def opened(store: MemoryStore, clock: Clock) -> tuple[DeltaLog, Counting]:
    counting = Counting(store)

    async def open_store() -> Any:
        return counting

    return DeltaLog(open_store, "main.s.t", now=clock), counting


@pytest.mark.parametrize("hint", [LAST_CHECKPOINT_AT, LAST_CHECKPOINT_AT - 10_000, None])
async def test_B16_the_first_look_is_bounded_and_the_next_is_one_read(
    store: MemoryStore, clock: Clock, hint: int | None
) -> None:
    if hint is None:
        store.delete(LAST_CHECKPOINT)
    else:
        store.put(LAST_CHECKPOINT, json.dumps({"version": hint}).encode())
    log, asked = opened(store, clock)
    found = await log.latest()
    assert found is not None
    assert (found.version, found.metadata_id, found.data_version) == (NEWEST, METADATA_ID, NEWEST)
    first = asked.take()
    listing = "list" if hint is None else f"list from {hint % 10_000:04d}"
    assert [one for one in first if one.startswith("list")] == [listing]
    assert not [one for one in first if one.endswith(".parquet")]
    # the hint, the checkpoint, and for a change of the metadata the commits above it, which are read sixteen at once
    assert len(first) <= 3 + (NEWEST - LAST_CHECKPOINT_AT) + 16
    for _ in range(5):
        clock.pass_(seconds=30)
        assert await log.latest(NEWEST) is not None
        assert asked.take() == [f"range {COMMITS}.json"]


async def test_B16_a_watermark_far_behind_is_found_without_reading_what_lies_between(
    store: MemoryStore, clock: Clock
) -> None:
    store.put(LAST_CHECKPOINT, json.dumps({"version": LAST_CHECKPOINT_AT}).encode())
    log, asked = opened(store, clock)
    found = await log.latest(NEWEST - 10_000)
    assert found is not None
    assert (found.version, found.data_version) == (NEWEST, NEWEST)
    assert len(asked.take()) <= 5 + (NEWEST - LAST_CHECKPOINT_AT) + 16
