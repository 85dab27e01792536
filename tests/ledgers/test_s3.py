"""The object-store keep over HTTP, against a bucket that answers as S3 does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from databricks_bridge.core.errors import LedgerError, WriteLost
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.object_store import ObjectStoreKeep, ObjectStoreLedger, name_of, open_url
from databricks_bridge.ledgers.objects import StoreObjects
from tests.core.builders import NOW, at
from tests.ledgers.bucket import MODIFIED, Bucket, serve

URL = "s3://lake/bridge/ledger"
FIRST = Record("delays", "consumer", {"flights": at(3)}).after(NOW, "started")


@pytest.fixture
async def bucket(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    async with serve() as bucket:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
        monkeypatch.setenv("AWS_REGION", "eu-west-3")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield bucket


async def test_records_are_objects_below_the_prefix(bucket: Bucket) -> None:
    keep = ObjectStoreKeep(URL)
    ledger = keep.ledger("delays")
    assert await ledger.read() is None
    record = FIRST
    await ledger.write(record)
    for revision in range(2, 9):
        record = record.after(NOW, f"write {revision}")
        await ledger.write(record)
    assert f"bridge/ledger/delays/{name_of(8)}" in bucket.files
    assert await ObjectStoreKeep(URL).ledger("delays").read() == record
    assert await keep.names() == ["delays"]
    assert [(one.revision, one.at) for one in await ledger.history(2)] == [(7, MODIFIED), (8, MODIFIED)]


async def test_a_put_that_was_answered_with_an_error_after_it_happened_is_a_success(bucket: Bucket) -> None:
    bucket.fail_after_put = name_of(1)
    ledger = ObjectStoreKeep(URL).ledger("delays")
    await ledger.write(FIRST)
    ours = [status for key, status in bucket.puts if key.endswith(name_of(1))]
    assert ours == [500, 412], "the client tried again by itself and found its own object"
    assert await ledger.read() == FIRST


async def test_the_second_writer_is_refused_by_the_bucket(bucket: Bucket) -> None:
    await ObjectStoreKeep(URL).ledger("delays").write(FIRST)
    with pytest.raises(WriteLost):
        await ObjectStoreKeep(URL).ledger("delays").write(FIRST)


async def test_a_bucket_without_conditional_puts_is_refused(bucket: Bucket) -> None:
    bucket.careless = True
    with pytest.raises(LedgerError, match="s3://lake/bridge/ledger/delays took a second put-if-absent"):
        await ObjectStoreKeep(URL).ledger("delays").write(FIRST)


async def test_a_refused_bucket_is_a_ledger_error_without_secrets(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url + "/nowhere")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    with pytest.raises(LedgerError, match=r"cannot (read|list) ") as raised:
        await ObjectStoreKeep(URL).ledger("delays").read()
    assert "s3cr3t" not in str(raised.value)


def ledger_in(bucket: Bucket) -> ObjectStoreLedger:
    async def no_pause(seconds: float) -> None:
        await asyncio.sleep(0)

    where = f"{URL}/delays"
    return ObjectStoreLedger(StoreObjects(lambda: open_url(URL), "delays", where), where, sleep=no_pause)


async def test_a_put_refused_as_a_conflict_that_nobody_won_is_put_again(bucket: Bucket) -> None:
    bucket.conflicts = [None, None]
    ledger = ledger_in(bucket)
    await ledger.write(FIRST)
    assert bucket.conflicts == []
    assert await ledger.read() == FIRST


async def test_a_put_refused_as_a_conflict_that_another_writer_won_is_a_lost_write(bucket: Bucket) -> None:
    theirs = Record("delays", "consumer", {"flights": at(2)}).after(NOW, "theirs")
    bucket.conflicts = [json.dumps({"nonce": "theirs", "record": theirs.to_json()}).encode()]
    with pytest.raises(WriteLost):
        await ledger_in(bucket).write(FIRST)
    assert await ledger_in(bucket).read() == theirs


async def test_conflicts_without_end_are_an_error_that_asks_for_another_try(bucket: Bucket) -> None:
    bucket.conflicts = [None] * 99
    with pytest.raises(LedgerError, match="nothing was written: try again") as told:
        await ledger_in(bucket).write(FIRST)
    assert "delete" not in str(told.value)
    bucket.conflicts = []
    await ledger_in(bucket).write(FIRST)


async def test_a_record_that_another_writer_is_still_writing_is_read_again(bucket: Bucket) -> None:
    ledger = ledger_in(bucket)
    await ledger.write(FIRST)
    (key,) = (key for key in bucket.files if key.endswith(name_of(1)))
    whole, bucket.files[key] = bucket.files[key], b'{"nonce": "x", "rec'
    reads = 0

    async def written_meanwhile(seconds: float) -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            bucket.files[key] = whole

    ledger._sleep = written_meanwhile
    assert await ledger.read() == FIRST
    assert reads == 2


async def test_no_error_of_a_ledger_says_to_delete(bucket: Bucket) -> None:
    ledger = ledger_in(bucket)
    await ledger.write(FIRST)
    for key in bucket.files:
        if key.endswith(name_of(1)):
            bucket.files[key] = b"torn"
    with pytest.raises(LedgerError, match="another writer may have just written it, so leave it there") as told:
        await ledger.read()
    assert "delete" not in str(told.value)
