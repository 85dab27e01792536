"""The event loop of a triggerer with watchers on many workspaces, whose ledgers are in two object stores.

Arguments: workspaces, watchers of each, poll seconds. Prints one JSON line when the watchers that must not be held up have
polled, and one for each event.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from typing import Any

from benchmarks.lake import name_of

ANSWERS, MAY_HANG = "s3://lake/ledgers", "s3://held/ledgers"

# log lines of Airflow go to the standard output
_OUT = os.dup(1)


def _say(**what: Any) -> None:
    os.write(_OUT, f"{json.dumps(what)}\n".encode())


def spec_of(number: int, workspaces: int) -> Any:
    """The subscription of this number, of one table; the workspaces have them in turn."""
    from databricks_bridge.core.policy import Policy
    from databricks_bridge.core.sources import DeltaTable
    from databricks_bridge.core.subscription import SubscriptionSpec

    table = DeltaTable(name_of(number, workspaces), f"ws{number % workspaces}")
    return SubscriptionSpec(f"flow{number}", (table,), "earliest", Policy())


def is_healthy(number: int, workspaces: int) -> bool:
    """Whether neither its workspace (the first one) nor the store of its ledger (of one watcher in each) may hang."""
    return number % workspaces != 0 and number >= workspaces


async def _main(workspaces: int, each: int, poll: float) -> None:
    from databricks_bridge.triggers.watch import SubscriptionWatchTrigger

    triggers = [
        SubscriptionWatchTrigger(
            subscription=json.loads(json.dumps(spec_of(number, workspaces).to_json())),
            asset=f"a{number}",
            ledger=MAY_HANG if number < workspaces else ANSWERS,
            poll_interval=poll,
            resend_after=3600.0,
        )
        for number in range(workspaces * each)
    ]

    async def watch(number: int) -> None:
        async for event in triggers[number].run():
            _say(event=number, at=time.time(), reason=event.payload["reason"], updated=event.payload["updated"])

    tasks = [asyncio.create_task(watch(number)) for number in range(len(triggers))]
    healthy = [one for number, one in enumerate(triggers) if is_healthy(number, workspaces)]
    while not all(one._watch is not None and one._watch.latest for one in healthy):
        await asyncio.sleep(0.2)
        if failed := next((task for task in tasks if task.done()), None):
            failed.result()
    await asyncio.sleep(poll)  # until each is polled at a moment of its own
    _say(ready=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    import airflow.jobs.triggerer_job_runner  # noqa: F401  # what an empty triggerer has loaded

    logging.disable(logging.INFO)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
