"""Logs in a bucket: what each refusal is called, and what is asked of the store."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from databricks_bridge.core.errors import BridgeError, NotAuthenticated, NotFound, NotPermitted, Unavailable
from databricks_bridge.delta.credentials import bucket_region
from databricks_bridge.delta.files import Files
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.names import commit_path

from .bucket import MODIFIED, Bucket, fill, serve


@pytest.fixture
async def bucket() -> AsyncIterator[Bucket]:
    async with serve() as served:
        yield served


@pytest.fixture
def bucket_in_thread() -> Iterator[Bucket]:
    """For what blocks while it reads: the bucket is served by another thread's loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    served = serve()
    try:
        yield asyncio.run_coroutine_threadsafe(served.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(served.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def store_of(bucket: Bucket) -> S3Store:
    return S3Store(
        "lake",
        prefix="t 1",
        endpoint=bucket.url,
        region="eu-west-3",
        access_key_id="AKIA-SECRET",
        secret_access_key="SECRET",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def log_of(bucket: Bucket) -> DeltaLog:
    async def store() -> S3Store:
        return store_of(bucket)

    return DeltaLog(store, "main.s.t")


async def test_a_table_in_a_bucket(bucket: Bucket) -> None:
    fill(bucket, 7)
    log = log_of(bucket)
    found = await log.latest()
    assert found is not None
    assert (found.version, found.committed_at) == (7, MODIFIED)
    bucket.asked.clear()
    found = await log.latest(7)
    assert found is not None
    assert bucket.asked == [f"GET t 1/{commit_path(8)}"]


async def test_B17_the_folder_may_not_be_listed(bucket: Bucket) -> None:
    bucket.refuse_list = (403, "AccessDenied")
    with pytest.raises(NotPermitted, match=r"listing _delta_log of main\.s\.t"):
        await log_of(bucket).latest()


async def test_B17_the_hint_may_not_be_read(bucket: Bucket) -> None:
    fill(bucket, 2)
    log = log_of(bucket)
    await log.latest()
    bucket.refuse_get = (403, "AccessDenied")
    found = await log.latest(2)
    assert found is not None
    with pytest.raises(NotPermitted):
        await log_of(bucket).latest()


@pytest.mark.parametrize("refused_when", ["opened", "read"])
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchKey", NotFound),
        (403, "AccessDenied", NotPermitted),
        (401, "x", NotAuthenticated),
        (503, "SlowDown", Unavailable),
    ],
)
def test_a_refusal_within_a_parquet_file_is_our_own_error(
    bucket_in_thread: Bucket, refused_when: str, status: int, code: str, kind: type[BridgeError]
) -> None:
    """pyarrow reads a checkpoint by ranges, and what the store says meanwhile must come out as it does elsewhere."""
    bucket, path = bucket_in_thread, "_delta_log/7.checkpoint.parquet"
    written = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(100_000))}), written, compression="none", use_dictionary=False)
    bucket.files[f"t 1/{path}"] = written.getvalue()
    files = Files(store_of(bucket), "main.s.t")
    if refused_when == "opened":
        bucket.refuse_get = (status, code)
        with pytest.raises(BridgeError) as caught:
            files.reader(path)
    else:
        opened = pq.ParquetFile(files.reader(path))
        bucket.refuse_get = (status, code)
        with pytest.raises(BridgeError) as caught:
            opened.read()
    assert type(caught.value) is kind
    assert f"reading {path} of main.s.t" in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchBucket", NotFound),
        (401, "ExpiredToken", NotAuthenticated),
        (503, "SlowDown", Unavailable),
        (400, "ExpiredToken", NotAuthenticated),
    ],
)
async def test_B17_each_refusal_is_its_own_error(
    bucket: Bucket, status: int, code: str, kind: type[BridgeError]
) -> None:
    fill(bucket, 2)
    bucket.refuse_list = (status, code)
    with pytest.raises(BridgeError) as caught:
        await log_of(bucket).latest(1)
    assert type(caught.value) is kind
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_B17_an_empty_listing_is_no_version(bucket: Bucket) -> None:
    assert await log_of(bucket).latest() is None


async def test_a_zero_byte_commit_in_a_bucket_is_not_read(bucket: Bucket) -> None:
    fill(bucket, 2)
    bucket.files[f"t 1/{commit_path(3)}"] = b""
    found = await log_of(bucket).latest()
    assert found is not None
    assert found.version == 2


async def test_the_region_is_in_the_answer_whoever_asks(bucket: Bucket) -> None:
    assert await bucket_region("lake", endpoint=bucket.url) == "eu-west-3"
    assert await bucket_region("lake", endpoint="http://127.0.0.1:1") is None
