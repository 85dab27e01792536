"""What a claim costs while a long backlog is worked off in ranges: as much at its beginning as at its end.

Requests and bytes are counted by the bucket, CPU by the process; each claim is one of a new process, as an operator makes it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.bucket import BUCKET, Bucket, Log, checkpoint_bytes, serve
from benchmarks.figures import Figure, number
from databricks_bridge.core.pending import ranges_of
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.feeds.look import Looker

BEHIND = 30_000
RANGE = 100
CHECKPOINT_EVERY = 100
TABLE = DeltaTable("main.silver.flights", "ops", alias="flights")
SPEC = SubscriptionSpec("backlog", (TABLE,), "earliest", Policy(), max_commits_per_run=RANGE)
CLAIMS = (0, BEHIND // RANGE // 2, BEHIND // RANGE - 1)
TURNS = 3


@dataclass(frozen=True)
class Cost:
    """What one claim took."""

    requests: int
    megabytes: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.requests} requests, {number(self.megabytes)} MB, {number(self.cpu_seconds)} s of CPU"


def measure() -> list[Figure]:
    """How many times as dear as the first claim the others are: the middle and the last one, by whatever they cost most."""
    last = BEHIND
    log = Log(last, last, checkpoint_bytes(1000), every=CHECKPOINT_EVERY)
    with serve(log, delay_seconds=0.0) as bucket:
        costs = [asyncio.run(_claim(bucket, claim * RANGE)) for claim in CLAIMS]
    for claim, cost in zip(CLAIMS, costs, strict=True):
        print(f"backlog: claim {claim + 1} of {BEHIND // RANGE}: {cost}")
    first, *others = costs
    return [Figure("times the first claim", max(_times(one, first) for one in others), most=1.5)]


def _times(cost: Cost, first: Cost) -> float:
    return max(cost.requests / first.requests, cost.megabytes / first.megabytes, cost.cpu_seconds / first.cpu_seconds)


async def _claim(bucket: Bucket[Log], at: int) -> Cost:
    """The cheapest of some turns: the machine has other things to do, and they are not the claim's."""
    turns = [await _once(bucket, at) for _ in range(TURNS)]
    return min(turns, key=lambda cost: cost.cpu_seconds)


async def _once(bucket: Bucket[Log], at: int) -> Cost:
    from obstore.store import S3Store

    async def opened() -> Any:
        return S3Store(BUCKET, **bucket.options())

    async def no_workspace(conn_id: str) -> Any:
        raise RuntimeError(f"the benchmark has no workspace {conn_id}")

    looker = Looker(no_workspace)
    looker.keep(TABLE, DeltaLog(opened, TABLE.table))
    marks = {TABLE.alias: TablePosition(at)}
    bucket.log.counts.clear()
    bucket.sent = 0
    started = time.process_time()
    findings = await looker.look(SPEC, marks, thorough=True)
    again = await looker.look(SPEC, marks, thorough=True)  # identities are looked at once more before the run starts
    cpu = time.process_time() - started
    [one] = ranges_of(SPEC, marks, findings)
    if not isinstance(one.to, TablePosition) or one.to.at != at + RANGE or again.keys() != findings.keys():
        raise RuntimeError(f"the range after {at} is {one}")
    counts = bucket.log.counts
    return Cost(counts["GET"] + counts["LIST"] + counts["HEAD"], bucket.sent / 1e6, cpu)
