"""The event loop of a triggerer with many deferred waits in it, ours or the official ones.

Arguments: kind ("ours", "official"), and as JSON the waits: run ids, or job ids with "job" before them. Prints a JSON line
when all have begun, and one for each that ends: `{"wait", "at", "status"}`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

# log lines of Airflow go to the standard output
_OUT = os.dup(1)
POLL_SECONDS = float(os.environ.get("BENCH_POLL_SECONDS", "10"))


def _say(**what: Any) -> None:
    os.write(_OUT, f"{json.dumps(what)}\n".encode())


def _ours(wait: Any) -> Any:
    from databricks_bridge.triggers.run import RunTrigger
    from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger

    now = datetime.now(UTC)
    common: dict[str, Any] = {"poll_interval": POLL_SECONDS, "deadline": (now + timedelta(days=1)).isoformat()}
    if isinstance(wait, int):
        return RunTrigger(databricks_conn_id="ops", run_id=wait, **common)
    return TriggeredRunTrigger(
        databricks_conn_id="ops",
        job_id=wait[1],
        job_name=None,
        triggers=["FILE_ARRIVAL"],
        run_state=["SUCCESS"],
        since=now.isoformat(),
        **common,
    )


def _official(wait: Any) -> Any:
    from airflow.providers.databricks.triggers.databricks import DatabricksExecutionTrigger

    # as the official operators make it
    return DatabricksExecutionTrigger(
        run_id=wait, databricks_conn_id="ops", polling_period_seconds=int(POLL_SECONDS), retry_delay=1
    )


async def _wait(number: int, wait: Any, made: Callable[[Any], Any]) -> None:
    trigger = made(wait)
    status = "no event"
    try:
        async for event in trigger.run():
            payload = event.payload
            status = payload.get("status", "ready")
            break
    except Exception as error:  # noqa: BLE001  # a wait that died is what is counted
        status = f"died: {type(error).__name__}"
    _say(wait=number, at=time.time(), status=status)
    await trigger.cleanup()


async def _main(kind: str, waits: list[Any]) -> None:
    made = {"ours": _ours, "official": _official}[kind]
    tasks = [asyncio.create_task(_wait(number, wait, made)) for number, wait in enumerate(waits)]
    await asyncio.sleep(0.1)
    _say(ready=True, pid=os.getpid())
    await asyncio.gather(*tasks)
    _say(done=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    import airflow.jobs.triggerer_job_runner  # noqa: F401  # what a triggerer has loaded

    logging.disable(logging.CRITICAL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
