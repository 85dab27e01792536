"""What a day of polling costs in requests, by price class: the real log reader on made-up logs and a made-up clock.

Ten thousand tables are stood for by a hundred, each at its own second of the minute and with its own commits: tables
do not know of one another, so more of them would only repeat the same numbers.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.figures import Figure, number
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.names import checksum_path, commit_path

TABLES = 10_000
SAMPLE = 100
POLL = timedelta(seconds=30)
DAY = timedelta(days=1)
# How many of the sample get a commit so often: most tables are loaded once a night.
LOADS = {timedelta(days=1): 80, timedelta(hours=1): 15, timedelta(minutes=10): 5}
# S3 list prices, dollars a million.
DOLLARS = {"GET": 0.4, "LIST": 5.0}
_START = datetime(2026, 11, 29, tzinfo=UTC)
_CHECKSUM = json.dumps({"metadata": {"id": "11111111-2222-3333-4444-555555555555"}}).encode()
_APPEND = json.dumps({"commitInfo": {"operation": "WRITE"}}).encode() + b'\n{"add":{"path":"p","dataChange":true}}\n'


class Checksum:
    """The answer to a whole read: the file with which Spark names the table's metadata beside each commit."""

    async def bytes_async(self) -> bytes:
        return _CHECKSUM


@dataclass
class Store:
    """The log of one table as an object store would answer for it; `last` grows. Every request is counted."""

    last: int
    counts: Counter[str] = field(default_factory=Counter)

    async def get_range_async(self, path: str, *, start: int, end: int) -> bytes:
        self.counts["GET"] += 1
        version = int(path[-25:-5])
        if version > self.last:
            raise FileNotFoundError(path)
        return _APPEND

    async def get_async(self, path: str) -> Any:
        self.counts["GET"] += 1
        if path.endswith(".crc"):
            return Checksum()
        raise FileNotFoundError(path)

    async def list(self, prefix: str, *, offset: str | None, chunk_size: int) -> AsyncIterator[list[dict[str, Any]]]:
        self.counts["LIST"] += 1
        first = int(offset[-20:]) if offset else 0
        yield [
            {"path": path(v), "size": len(_APPEND), "e_tag": f"{v}", "last_modified": _START}
            for v in range(first, self.last + 1)
            for path in (commit_path, checksum_path)
        ]


def measure() -> list[Figure]:
    """Requests for each table and poll, and for each table and hour."""
    counts, finds = asyncio.run(_day())
    polls, hours = SAMPLE * (DAY / POLL), SAMPLE * (DAY / timedelta(hours=1))
    times = TABLES / SAMPLE
    cost = sum(counts[kind] * times / 1e6 * price for kind, price in DOLLARS.items())
    by_listing = polls * times / 1e6 * DOLLARS["LIST"]
    each = ", ".join(f"{number(counts[kind] * times)} {kind}" for kind in DOLLARS)
    print(
        f"poll-cost: {TABLES:,} tables each {POLL.seconds} s for a day: {each}, {number(cost)} dollars a day at S3's list "
        f"prices, {number(by_listing)} by a listing each; {number(finds * times)} polls found commits, and each of them "
        f"listed the log once more: {number(counts['LIST'] / hours)} LIST for each table and hour with those"
    )
    return [
        Figure("GET for each table and poll", counts["GET"] / polls, most=1.1),
        Figure("LIST for each table and hour beside one after each find", (counts["LIST"] - finds) / hours, most=1.0),
    ]


async def _day() -> tuple[Counter[str], int]:
    counts: Counter[str] = Counter()
    finds = 0
    number_of_table = 0
    for every, tables in LOADS.items():
        for _ in range(tables):
            found = await _table_for_a_day(number_of_table, every, counts)
            finds, number_of_table = finds + found, number_of_table + 1
    return counts, finds


async def _table_for_a_day(table: int, every: timedelta, counts: Counter[str]) -> int:
    """Polls one table for a day, and counts how often something was found."""
    store, now = Store(500, counts), _START + POLL * (table / SAMPLE)

    async def opened() -> Any:
        return store

    log = DeltaLog(opened, f"table {table}", now=lambda: now)
    known, finds = store.last, 0
    due = _START + every * ((table * 37 % SAMPLE + 0.5) / SAMPLE)
    for _ in range(int(DAY / POLL)):
        while due <= now:
            store.last, due = store.last + 1, due + every
        latest = await log.latest(known)
        if latest is None or latest.version != store.last:
            raise RuntimeError(f"the log of table {table} ends with {store.last}, and {latest} was found")
        finds, known = finds + (latest.version > known), latest.version
        now += POLL
    return finds
