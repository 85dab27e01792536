"""Small reads from S3: signed as S3 wants it, and obstore asked for everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from databricks_bridge.delta import small_reads
from databricks_bridge.delta.small_reads import SmallReads, sign
from databricks_bridge.workspace.client import Workspace

from .bucket import Bucket, fill, serve

KEYS = {"access_key_id": "KEY", "secret_access_key": "secret", "session_token": "tok/+="}


def test_the_signature_is_that_of_the_worked_example() -> None:
    """S3 API reference, "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk"."""
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "range": "bytes=0-9",
        "x-amz-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }
    keys = {
        "access_key_id": "AKIAIOSFODNN7EXAMPLE",
        "secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    }
    signed = sign("/test.txt", headers, keys, "us-east-1", datetime(2013, 5, 24, tzinfo=UTC))
    assert signed["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


class Made:
    """In the place of obstore: says that it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get_range_async(self, path: str, *, start: int, end: int) -> bytes:
        self.asked.append(path)
        return b"by obstore"


@pytest.fixture
async def bucket(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    async with serve() as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL", served.url)
        yield served


@pytest.fixture
async def reads(bucket: Bucket) -> AsyncIterator[tuple[SmallReads, Made]]:
    made = Made()
    async with Workspace(bucket.url, lambda: None) as workspace:  # type: ignore[arg-type, return-value]
        one = SmallReads(workspace, "lake/t 1", KEYS, "eu-west-3", lambda: made, lambda: datetime.now(UTC))  # type: ignore[arg-type, return-value]
        yield one, made
    SmallReads._open.clear()


async def test_a_key_that_is_there_and_one_that_is_not(bucket: Bucket, reads: tuple[SmallReads, Made]) -> None:
    fill(bucket, 1)
    one, made = reads
    found = await one.get_range_async("_delta_log/00000000000000000001.json", start=0, end=20)
    assert found == bucket.files["t 1/_delta_log/00000000000000000001.json"][:20]
    with pytest.raises(FileNotFoundError, match="NoSuchKey"):
        await one.get_range_async("_delta_log/00000000000000000002.json", start=0, end=20)
    assert made.asked == []
    assert {h["x-amz-security-token"] for h in bucket.headers} == {"tok/+="}


@pytest.mark.parametrize(
    "refusal", [(403, "AccessDenied"), (404, "NoSuchBucket"), (503, "SlowDown"), (301, "PermanentRedirect")]
)
async def test_whatever_is_not_plain_is_asked_of_obstore(
    bucket: Bucket, reads: tuple[SmallReads, Made], refusal: tuple[int, str]
) -> None:
    one, made = reads
    bucket.refuse_get = refusal
    assert await one.get_range_async("x", start=0, end=20) == b"by obstore"
    assert made.asked == ["x"]


async def test_a_store_that_cannot_be_reached_is_asked_of_obstore(
    reads: tuple[SmallReads, Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert await reads[0].get_range_async("x", start=0, end=20) == b"by obstore"


async def test_few_of_the_real_stores_are_kept_open(bucket: Bucket) -> None:
    opened: list[Any] = []

    def make() -> Any:
        opened.append(Made())
        return opened[-1]

    workspace: Any = None
    for _ in range(100):
        SmallReads(workspace, "lake/t", KEYS, "eu-west-3", make, lambda: datetime.now(UTC))._store()
    assert len(opened) == 100
    assert len(SmallReads._open) == small_reads._OPEN_MAX
    SmallReads._open.clear()
