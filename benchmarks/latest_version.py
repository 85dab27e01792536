"""How long a poll for a table's newest version takes, against one GET and against opening the table with delta-rs."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.bucket import BUCKET, PREFIX, Bucket, Log, checkpoint_bytes, serve
from benchmarks.figures import Figure, number
from databricks_bridge.delta.commits import HEAD_BYTES
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.names import commit_path

DELAY_SECONDS = 0.02
COMMITS = 100_000
CHECKPOINT_EVERY = 100
FAR_BEHIND = 10_000
LENGTHS = (100, 10_000, COMMITS, 1_000_000)
POLLS = 60


def measure() -> list[Figure]:
    """Ratios of medians, all of one run."""
    parquet = checkpoint_bytes(COMMITS)
    with serve(_log(COMMITS, parquet), delay_seconds=DELAY_SECONDS) as bucket:
        floor, poll, requests = asyncio.run(_poll_and_floor(bucket))
        polls = {}
        for length in LENGTHS:
            bucket.log = _log(length, parquet)
            polls[length] = asyncio.run(_poll_and_floor(bucket))[1]
        bucket.log = _log(COMMITS, parquet)
        near = statistics.median(_open_with_deltalake(bucket) for _ in range(5))
        near_requests = sum(bucket.log.counts.values()) / 5
        bucket.log = Log(COMMITS - 1, COMMITS - 1 - FAR_BEHIND, parquet)
        far = statistics.median(_open_with_deltalake(bucket) for _ in range(3))
    listed = ", ".join(f"{length:,} commits {number(seconds / floor)}" for length, seconds in polls.items())
    print(f"latest-version: in units of one GET: {listed}")
    print(
        f"latest-version: deltalake.DeltaTable().version(): {number(near / floor)} with {number(near_requests)} requests, "
        f"{number(far / floor)} with a checkpoint {FAR_BEHIND:,} commits behind"
    )
    return [
        Figure("of one GET", poll / floor, most=1.1),
        Figure("requests, all GET", requests, most=1),
        Figure("times longest over shortest log", max(polls.values()) / min(polls.values()), most=1.2),
        Figure("times faster than deltalake", near / poll, least=25),
        Figure("times with a far checkpoint", far / poll, least=250),
    ]


def _log(commits: int, parquet: bytes) -> Log:
    """A log whose newest checkpoint is as far behind as it gets before the next one is written."""
    last = commits - 1
    return Log(last, max(0, last // CHECKPOINT_EVERY * CHECKPOINT_EVERY), parquet)


async def _poll_and_floor(bucket: Bucket[Log]) -> tuple[float, float, float]:
    """Median seconds of one GET and of one poll, taken in turns, and the requests of a poll."""
    from obstore.store import S3Store

    store = S3Store(BUCKET, **bucket.options())

    async def opened() -> S3Store:
        return store

    log = DeltaLog(opened, "main.silver.flights")
    last = bucket.log.last
    first = await log.latest(last)
    if first is None or first.version != last:
        raise RuntimeError(f"the log ends with {last}, and {first} was found")

    async def get() -> None:
        await store.get_range_async(commit_path(last), start=0, end=HEAD_BYTES)

    async def poll() -> None:
        await log.latest(last)

    gets, polls = [], []
    bucket.log.counts.clear()
    for _ in range(POLLS):
        gets.append(await _timed(get))
        polls.append(await _timed(poll))
    requests = dict(bucket.log.counts)
    if requests.keys() != {"GET"}:
        raise RuntimeError(f"polls asked for more than GETs: {requests}")
    return statistics.median(gets), statistics.median(polls), requests["GET"] / POLLS - 1


async def _timed(act: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await act()
    return time.perf_counter() - started


def _open_with_deltalake(bucket: Bucket[Log]) -> float:
    from deltalake import DeltaTable

    started = time.perf_counter()
    version = DeltaTable(f"s3://{BUCKET}/{PREFIX}", storage_options=bucket.storage_options()).version()
    seconds = time.perf_counter() - started
    if version != bucket.log.last:
        raise RuntimeError(f"deltalake found version {version}, and the log ends with {bucket.log.last}")
    return seconds
