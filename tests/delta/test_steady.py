"""What a poll costs, by request class, and when the log is listed."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import AsyncIterator

import pytest
from obstore.store import S3Store

from databricks_bridge.core.errors import NotFound, NotPermitted
from databricks_bridge.delta.commits import HEAD_BYTES
from databricks_bridge.delta.log import LIST_EVERY, PAUSE, DeltaLog
from databricks_bridge.delta.names import commit_path

from .bucket import Bucket, fill, serve
from .conftest import OPTIMIZED, Clock, Counting, Folder, Open, append, commit, metadata

STEADY = {"GET": 1, "LIST": 0, "HEAD": 0}


def classes(asked: list[str]) -> dict[str, int]:
    """Requests by price class."""
    kinds = {"list": "LIST", "range": "GET", "get": "GET", "head": "HEAD"}
    found = [kinds[item.split()[0]] for item in asked]
    return {kind: found.count(kind) for kind in ("GET", "LIST", "HEAD")}


async def looked(log: DeltaLog, asked: Counting, known: int | None) -> tuple[int, dict[str, int]]:
    found = await log.latest(known)
    assert found is not None
    return found.version, classes(asked.take())


async def test_a_poll_that_finds_nothing_is_one_read(folder: Folder, open_log: Open, clock: Clock) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await looked(log, asked, 3)
    for _ in range(119):
        clock.pass_(seconds=30)
        assert await looked(log, asked, 3) == (3, STEADY)
    clock.pass_(seconds=30)
    assert await looked(log, asked, 3) == (3, {"GET": 0, "LIST": 1, "HEAD": 0})


async def test_polls_that_find_nothing_answer_with_one_object(folder: Folder, open_log: Open, clock: Clock) -> None:
    folder.commits(0, 3)
    log, _ = open_log(folder.root)
    first = await log.latest(3)
    clock.pass_(seconds=30)
    assert await log.latest(3) is first
    other = await log.latest(2)
    assert other is not None
    assert (other.version, other.data_version) == (3, 3), "who knows less is told more"
    assert await log.latest(3) == first


async def test_a_commit_is_read_once_and_a_listing_follows(folder: Folder, open_log: Open, clock: Clock) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await looked(log, asked, 3)
    folder.commits(4, 4)
    assert await looked(log, asked, 3) == (4, {"GET": 1, "LIST": 1, "HEAD": 0})
    assert await looked(log, asked, 4) == (4, STEADY)
    folder.commits(5, 7)
    folder.write(f"{8:020d}.json", commit(*OPTIMIZED))
    found = await log.latest(4)
    assert found is not None
    assert (found.version, found.data_version) == (8, 7)
    assert asked.take() == ["list from 0004", "range 5.json", "range 6.json", "range 7.json", "range 8.json"]
    clock.pass_(minutes=59)
    await looked(log, asked, 8)
    clock.pass_(minutes=4)
    assert await looked(log, asked, 8) == (8, STEADY), "a listing after a find begins the hour again"


async def test_a_large_commit_of_a_known_operation_costs_its_beginning(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await log.latest(3)
    asked.take()
    large = commit({"commitInfo": {"operation": "WRITE"}}, *[append(n) for n in range(5000)]).encode()
    assert len(large) > 6 * HEAD_BYTES
    folder.write(f"{4:020d}.json", large)
    found = await log.latest(3)
    assert found is not None
    assert (found.version, found.data_version) == (4, 4)
    assert found.fingerprint == hashlib.sha256(large[:HEAD_BYTES]).hexdigest()
    assert asked.take() == ["list from 0003", "range 4.json", "range 4.json"], "its beginning and its end"


async def test_a_large_commit_that_may_replace_the_table_is_read_to_its_end(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await log.latest(3)
    asked.take()
    many = [append(n) for n in range(2000)]
    folder.write(f"{4:020d}.json", commit({"commitInfo": {"operation": "RESTORE"}}, *many, metadata("older")))
    found = await log.latest(3)
    assert found is not None
    assert found.metadata_id == "older"
    assert asked.take() == ["get 4.json", "list from 0003", "range 4.json", "range 4.json"]


async def test_a_checkpoint_beside_a_new_commit_is_not_read(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 9)
    log, asked = open_log(folder.root)
    await log.latest(9)
    asked.take()
    folder.commits(10, 10)
    folder.checkpoint(10)
    folder.write(f"{10:020d}.crc", "{}")
    assert await looked(log, asked, 9) == (10, {"GET": 1, "LIST": 1, "HEAD": 0})


@pytest.mark.parametrize("seconds", [PAUSE.total_seconds(), 7 * 24 * 3600, -1])
async def test_after_a_pause_or_a_clock_set_back_the_log_is_listed(
    folder: Folder, open_log: Open, clock: Clock, seconds: float
) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await looked(log, asked, 3)
    clock.pass_(seconds=seconds)
    assert await looked(log, asked, 3) == (3, {"GET": 0, "LIST": 1, "HEAD": 0})
    assert await looked(log, asked, 3) == (3, STEADY)


async def test_a_known_version_that_was_not_seen_is_listed_for(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await looked(log, asked, 3)
    assert await looked(log, asked, 4) == (3, {"GET": 0, "LIST": 1, "HEAD": 0})


async def test_a_table_created_again_or_cleaned_shows_at_the_hourly_listing(
    folder: Folder, open_log: Open, clock: Clock
) -> None:
    folder.commits(0, 5)
    log, _ = open_log(folder.root)
    before = await log.latest(5)
    assert before is not None
    assert before.known_fingerprint == before.fingerprint
    shutil.rmtree(folder.root)
    again = Folder(folder.root)
    again.write(f"{0:020d}.json", commit(metadata("other"), append(100)))
    for version in range(1, 6):
        again.write(f"{version:020d}.json", commit(append(version + 100)))
    for _ in range(int(LIST_EVERY.total_seconds()) // 60 - 1):
        clock.pass_(minutes=1)
        assert await log.latest(5) == before
    clock.pass_(minutes=1)
    after = await log.latest(5)
    assert after is not None
    assert (after.version, after.metadata_id) == (5, "other")
    assert after.known_fingerprint not in (None, before.fingerprint)
    for version in range(5):
        again.remove(version, version)
    again.checkpoint(4, "other")
    clock.pass_(hours=1)
    found = await log.latest(2)
    assert found is not None
    assert (found.version, found.known_fingerprint) == (5, None), "commit 2 is cleaned away"


async def test_the_fingerprint_of_an_older_watermark_is_read_once(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 5)
    log, asked = open_log(folder.root)
    expected = hashlib.sha256((folder.log / f"{2:020d}.json").read_bytes()).hexdigest()
    for _ in range(3):
        found = await log.latest(2)
        assert found is not None
        assert found.known_fingerprint == expected
    assert asked.take().count("range 2.json") == 1


async def test_a_commit_of_no_bytes_is_looked_at_until_it_has_some(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await looked(log, asked, 3)
    folder.write(f"{4:020d}.json", "")
    for _ in range(2):
        assert await looked(log, asked, 3) == (3, {"GET": 1, "LIST": 1, "HEAD": 0})
    folder.commits(4, 4)
    assert (await looked(log, asked, 3))[0] == 4


@pytest.fixture
async def bucket() -> AsyncIterator[Bucket]:
    async with serve() as served:
        fill(served, 7)
        yield served


async def log_in(bucket: Bucket, clock: Clock) -> DeltaLog:
    """A log that has had its first look, with nothing counted yet."""

    async def store() -> S3Store:
        return S3Store(
            "lake",
            prefix="t 1",
            endpoint=bucket.url,
            region="eu-west-3",
            access_key_id="k",
            secret_access_key="s",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    log = DeltaLog(store, "main.s.t", now=clock)
    assert await log.latest(7) is not None
    bucket.asked.clear()
    return log


async def test_B16_hours_of_polls_by_request_class(bucket: Bucket, clock: Clock) -> None:
    log = await log_in(bucket, clock)
    for _ in range(6 * 60):
        clock.pass_(minutes=1)
        found = await log.latest(7)
        assert found is not None
        assert found.version == 7
    lists = bucket.asked.count("GET list")
    assert (lists, len(bucket.asked) - lists) == (6, 6 * 59)


async def test_B17_a_refused_read_becomes_a_listing(bucket: Bucket, clock: Clock) -> None:
    log = await log_in(bucket, clock)
    bucket.refuse_get = (403, "AccessDenied")
    found = await log.latest(7)
    assert found is not None
    assert found.version == 7
    assert bucket.asked == [f"GET t 1/{commit_path(8)}", "GET list"]
    bucket.refuse_list = (403, "AccessDenied")
    with pytest.raises(NotPermitted):
        await log.latest(7)


async def test_B17_a_bucket_that_is_gone_is_not_nothing_new(bucket: Bucket, clock: Clock) -> None:
    log = await log_in(bucket, clock)
    bucket.refuse_get = bucket.refuse_list = (404, "NoSuchBucket")
    with pytest.raises(NotFound, match="NoSuchBucket"):
        await log.latest(7)


async def test_a_zero_byte_commit_in_a_bucket_is_being_written(bucket: Bucket, clock: Clock) -> None:
    log = await log_in(bucket, clock)
    bucket.files[f"t 1/{commit_path(8)}"] = b""
    found = await log.latest(7)
    assert found is not None
    assert found.version == 7
