"""Three hundred waits for tables, behind a slow workspace: what they cost the triggerer's event loop."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from benchmarks.jobs_service import JobsService, serving
from databricks_bridge.triggers.delta_version import DeltaVersionTrigger

LATENCY_SECONDS = 1.5
WATCHED_SECONDS = 5.0


class Slow(JobsService):
    """Every answer takes its time; no table is ever told."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.counts["asked"] += 1
        await asyncio.sleep(LATENCY_SECONDS)
        return web.json_response({"error_code": "TEMPORARILY_UNAVAILABLE", "message": "later"}, status=503)


def trigger(number: int, via: str | None) -> DeltaVersionTrigger:
    table = {"table": f"main.silver.t{number}", "databricks_conn_id": "ops", "via": via}
    if via == "sql":
        table["warehouse"] = "small"
    later = datetime.now(UTC) + timedelta(hours=1)
    return DeltaVersionTrigger(
        table=table, newer_than=0, since=later.isoformat(), poll_interval=1.0, deadline=later.isoformat()
    )


async def test_E06_a_slow_workspace_does_not_hold_up_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Slow()) as service:
        url, _, port = service.host.rpartition(":")
        connection = {"conn_type": "databricks", "host": url, "port": int(port), "password": "dapi-secret"}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        triggers = [trigger(number, via) for number in range(100) for via in (None, "log", "sql")]
        loop = asyncio.get_running_loop()

        async def wait(one: DeltaVersionTrigger) -> None:
            try:
                async for _ in one.run():
                    pass
            finally:
                await one.cleanup()

        waiting = [asyncio.create_task(wait(one)) for one in triggers]
        while not service.counts["asked"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        loop.set_debug(True)
        # As long as one answer takes: whatever waits for one in the loop holds it at least so long.
        loop.slow_callback_duration = LATENCY_SECONDS
        lags, until = [], loop.time() + WATCHED_SECONDS
        with caplog.at_level(logging.WARNING, logger="asyncio"):
            while (began := loop.time()) < until:
                await asyncio.sleep(0.01)
                lags.append(loop.time() - began - 0.01)
        loop.set_debug(False)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert service.counts["asked"] > 10
    assert max(lags) < LATENCY_SECONDS
    assert [line for line in caplog.messages if "databricks_bridge" in line and "took" in line] == []
