"""A server to be measured: `ours`, a local workspace with a run that has ended; `bare`, one FastAPI endpoint with its bytes;
`idle`, the workspaces that are named, as `databricks-bridge local up` has them, without Spark.

Prints a JSON line: `host` and for `ours` also `token` and `path`; of `idle` a list of `host` and `token`. `bare` is given its
path and, in base64, its answer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from databricks_bridge.local.deployment import running_deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult
from databricks_bridge.local.workspace_spec import ADDRESS

TASKS = 2
PARAMETERS = 6
_DONE = NotebookResult(True, "0", None, None)


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def _ours(home: Path) -> None:
    async with running_deployment(home, ["ops"], engine=InstantEngine(lambda request: _DONE)) as up:
        from databricks_bridge.local.runs.admission import Order
        from databricks_bridge.local.server.job_settings import completed

        ops = up.workspaces["ops"]
        (ops.layout.workspace_files("ops") / "main.py").write_text("# Databricks notebook source\n")
        task = {"notebook_task": {"notebook_path": "/main", "base_parameters": {"date": "2026-11-29"}}}
        tasks = [{"task_key": f"task_{number}", **task} for number in range(TASKS)]
        parameters = [{"name": f"parameter_{number}", "default": "0" * 20} for number in range(PARAMETERS)]
        settings = completed({"name": "delays-by-weather", "tasks": tasks, "parameters": parameters})
        job = ops.store.add_job("ops", settings, int(ops.now() * 1000))
        run = ops.runs.create(ops, Order(job_id=job.job_id, settings=settings))
        await ops.runs.until_ended(run.run_id)
        _say(host=up.host("ops"), token=up.token("ops"), path=f"/api/2.2/jobs/runs/get?run_id={run.run_id}")
        await asyncio.Event().wait()


async def _idle(home: Path, names: list[str]) -> None:
    import databricks_bridge.local.command  # noqa: F401  # what the command itself has loaded

    async with running_deployment(home, names, engine=InstantEngine(lambda request: _DONE)) as up:
        _say(workspaces=[{"host": up.host(name), "token": up.token(name)} for name in names])
        await asyncio.Event().wait()


async def _bare(path: str, answer: bytes) -> None:
    import uvicorn
    from fastapi import FastAPI, Response

    app = FastAPI(openapi_url=None)

    @app.get(path.partition("?")[0])
    async def run() -> Response:
        return Response(answer, media_type="application/json")

    config = uvicorn.Config(app, host=ADDRESS, port=0, lifespan="off", access_log=False, log_level="warning")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    _say(host=f"http://{ADDRESS}:{server.servers[0].sockets[0].getsockname()[1]}")
    await serving


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "bare":
        asyncio.run(_bare(given[0], base64.b64decode(given[1])))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_ours(Path(folder)) if what == "ours" else _idle(Path(folder), given))
