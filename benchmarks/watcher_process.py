"""The event loop of a triggerer with many asset watchers in it. Prints one JSON line when it is ready and for each event.

Arguments: subscriptions, tables of each, schemas, poll seconds. The watchers' own ledger is at hand, as the triggerer's
parent process would answer; its records stay as they are.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
import time
from typing import Any

from benchmarks.children import pss_mb
from benchmarks.lake import name_of

# log lines of Airflow go to the standard output
_OUT = os.dup(1)


class Store:
    """The asset state store of one asset, which is in another process: here it is text."""

    def __init__(self, record: Any) -> None:
        self._record = json.dumps(record)

    def __getitem__(self, asset: Any) -> Store:
        return self

    async def aget(self, key: str) -> Any:
        return json.loads(self._record)


def _say(**what: Any) -> None:
    os.write(_OUT, f"{json.dumps(what)}\n".encode())


async def _main(subscriptions: int, each: int, schemas: int, poll: float) -> None:
    gc.collect()
    empty = pss_mb()
    from databricks_bridge.core.policy import Policy
    from databricks_bridge.core.positions import TablePosition
    from databricks_bridge.core.record import Record
    from databricks_bridge.core.sources import DeltaTable
    from databricks_bridge.core.subscription import SubscriptionSpec
    from databricks_bridge.feeds.hub import hub_of_this_loop
    from databricks_bridge.triggers.watch import SubscriptionWatchTrigger

    def watcher(number: int) -> SubscriptionWatchTrigger:
        names = [name_of(number * each + n, schemas) for n in range(each)]
        spec = SubscriptionSpec(f"flow{number}", tuple(DeltaTable(name, "ops") for name in names), "earliest", Policy())
        marks = {source.alias: TablePosition(0) for source in spec.sources}
        record = Record(spec.name, "c", marks, revision=1).to_json()
        kwargs = json.loads(json.dumps(spec.to_json()))
        trigger = SubscriptionWatchTrigger(subscription=kwargs, asset="a", poll_interval=poll, resend_after=3600.0)
        trigger.asset_state_store = Store(record)
        return trigger

    async def watch(number: int) -> None:
        trigger = watcher(number)
        async for event in trigger.run():
            _say(event=number, at=time.time(), updated=event.payload["updated"])

    tasks = [asyncio.create_task(watch(number)) for number in range(subscriptions)]
    feed = hub_of_this_loop().tables
    began = time.monotonic()
    while len(feed) < subscriptions * each or not all(watched.looks for watched in feed._tables.values()):
        await asyncio.sleep(0.5)
        if failed := next((task for task in tasks if task.done()), None):
            failed.result()
    await asyncio.sleep(poll)
    gc.collect()
    _say(ready=time.monotonic() - began - poll, empty=empty, pid=os.getpid(), errors=_errors(feed))
    await asyncio.to_thread(sys.stdin.readline)
    gc.collect()
    _say(done=True, memory=pss_mb() - empty, errors=_errors(feed), looks=sum(w.looks for w in feed._tables.values()))
    os._exit(0)


def _errors(feed: Any) -> int:
    return sum(watched.error is not None for watched in feed._tables.values())


if __name__ == "__main__":
    import airflow.jobs.triggerer_job_runner  # noqa: F401  # what an empty triggerer has loaded

    logging.disable(logging.INFO)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    counts = [int(argument) for argument in sys.argv[1:4]]
    asyncio.run(_main(counts[0], counts[1], counts[2], float(sys.argv[4])))
