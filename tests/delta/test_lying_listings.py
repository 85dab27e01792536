"""A store whose listing from an offset leaves out keys that begin with the offset: absence is never inferred from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from obstore.store import S3Store

from databricks_bridge.core.errors import HistoryGap, Unavailable
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.names import commit_path

from .bucket import Bucket, fill, serve
from .conftest import METADATA_ID, append, commit

ROOT = "t 1"
SETTINGS = {"delta.enableChangeDataFeed": "true", "delta.deletedFileRetentionDuration": "interval 9000 days"}


@pytest.fixture
async def bucket(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    async with serve() as served:
        served.drops_begun_with_offset = True
        yield served


def opened(bucket: Bucket) -> DeltaLog:
    store = S3Store(
        "lake",
        prefix=ROOT,
        endpoint=bucket.url,
        region="eu-west-3",
        access_key_id="key",
        secret_access_key="secret",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    async def open_store() -> Any:
        return store

    return DeltaLog(open_store, "main.s.t")


def filled(bucket: Bucket, last: int, *, checkpoint: int | None = None) -> None:
    fill(bucket, last)
    head = {"metaData": {"id": METADATA_ID, "configuration": SETTINGS}}
    bucket.files[f"{ROOT}/{commit_path(0)}"] = commit(head, append(0)).encode()
    if checkpoint is not None:
        bucket.files[f"{ROOT}/_delta_log/{checkpoint:020d}.checkpoint.{METADATA_ID}.json"] = commit(head).encode()


@pytest.mark.parametrize("from_", range(-1, 6))
async def test_T13_a_range_that_is_there_has_no_gap(bucket: Bucket, from_: int) -> None:
    filled(bucket, 6)
    log = opened(bucket)
    assert await log.gap(from_, 6) is None
    assert [one.version async for one in log.commits(from_, 6)] == list(range(from_ + 1, 7))
    assert [one.version async for one in log.commits(from_, from_ + 1)] == [from_ + 1]


@pytest.mark.parametrize("known", [None, 0, 4, 5, 6])
async def test_the_newest_version_is_found_from_anywhere(bucket: Bucket, known: int | None) -> None:
    filled(bucket, 6, checkpoint=5)
    log = opened(bucket)
    for _ in range(2):
        found = await log.latest(known)
        assert found is not None
        assert (found.version, found.metadata_id) == (6, METADATA_ID)


@pytest.mark.parametrize("gone", [3, 4, 5])
async def test_what_is_gone_is_gone(bucket: Bucket, gone: int) -> None:
    filled(bucket, 6, checkpoint=6)
    del bucket.files[f"{ROOT}/{commit_path(gone)}"]
    with pytest.raises(HistoryGap, match=f"commit {gone} of main.s.t is not in the log"):
        assert [one async for one in opened(bucket).commits(2, 6)]
    assert f"commit {gone} of" in str(await opened(bucket).gap(2, 6))


async def test_what_is_not_there_yet_is_no_gap(bucket: Bucket) -> None:
    filled(bucket, 6)
    with pytest.raises(Unavailable, match=r"commit 7 of main\.s\.t is not in the log, at least not yet"):
        assert [one async for one in opened(bucket).commits(6, 7)]


async def test_a_snapshot_that_starts_at_the_offset_can_be_built(bucket: Bucket) -> None:
    """The one checkpoint stands where the search for it begins, a hundred versions back."""
    filled(bucket, 110, checkpoint=8)
    for version in range(8):
        del bucket.files[f"{ROOT}/{commit_path(version)}"]
    assert await opened(bucket).gap(107, 110) is None
