"""An AvailableNow notebook as a job run, on the warm engine, against the same notebook in a process that is attached already.

The job run is timed from the call of run-now to the end of the run: a new process, its session, the notebook, the clean-up.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.children import child, line_of, say
from benchmarks.figures import Figure, number
from databricks_bridge.local.deployment import Deployment, running_deployment
from databricks_bridge.local.engine.jars import prepare
from databricks_bridge.local.engine.jvm import process_environment
from databricks_bridge.local.engine.spark import SparkEngine, session_settings

NOTEBOOK = Path(__file__).with_name("available_now.notebook")
WARM_UP, ROUNDS = 5, 9


def measure() -> list[Figure]:
    """The median of job runs over the median of runs in the attached process, taken in turns."""
    with tempfile.TemporaryDirectory() as home:
        runs, attached = asyncio.run(_measured(Path(home)))
    print(
        f"warm-run: {ROUNDS} job runs, median {number(median(runs))} s, from {number(min(runs))} to {number(max(runs))}; "
        f"attached median {number(median(attached))} s, from {number(min(attached))} to {number(max(attached))}"
    )
    ratios = [run / floor for run, floor in zip(runs, attached, strict=True)]
    return [Figure("times the same notebook in an attached process", median(ratios), most=1.3)]


async def _measured(home: Path) -> tuple[list[float], list[float]]:
    runs, attached = [], []
    async with _lab(home) as lab:
        for _ in range(WARM_UP + ROUNDS):
            runs.append(await lab.as_job_run())
            attached.append(await asyncio.to_thread(lab.attached))
    return runs[WARM_UP:], attached[WARM_UP:]


@dataclass(frozen=True)
class _Lab:
    """A deployment on Spark with the job, and the attached process."""

    up: Deployment
    http: httpx.AsyncClient
    job_id: int
    process: Any

    async def as_job_run(self) -> float:
        """Seconds of one job run."""
        began = time.monotonic()
        started = await self.http.post("/api/2.2/jobs/run-now", json={"job_id": self.job_id})
        ended = await self.up.workspaces["ops"].runs.until_ended(started.raise_for_status().json()["run_id"])
        seconds = time.monotonic() - began
        if ended.outcome != "SUCCESS":
            raise RuntimeError(f"the job run ended as {ended.outcome}: {ended.message}")
        return seconds

    def attached(self) -> float:
        """Seconds of the notebook in the attached process."""
        say(self.process, "run")
        told = json.loads(line_of(self.process))
        if told["error"]:
            raise RuntimeError(f"the notebook failed in the attached process: {told['error']}")
        return float(told["seconds"])


@asynccontextmanager
async def _lab(home: Path) -> AsyncIterator[_Lab]:
    jars = await asyncio.to_thread(prepare, print)
    engine = SparkEngine(home / "engine", jars)
    async with running_deployment(home, ["ops"], engine=engine) as up:
        ops = up.workspaces["ops"]
        notebook = ops.layout.workspace_files("ops") / "increment.py"
        notebook.write_text(NOTEBOOK.read_text())
        ops.layout.volume_path("ops", "/Volumes/main/bench/checkpoints/job").parent.mkdir(parents=True)
        controller = await engine._running()
        settings = session_settings(ops.layout.metastore_root("ops"))
        gateway = await controller.ask(op="open", key="attached", settings=settings)
        given = {
            "key": "attached",
            "notebook": str(notebook),
            "volumes_root": str(ops.layout.volumes_root("ops")),
            "parameters": {"name": "attached"},
            "log": str(home / "attached.log"),
        }
        headers = {"Authorization": f"Bearer {up.token('ops')}"}
        with child("benchmarks.attached_process", env=process_environment(gateway)) as process:
            say(process, json.dumps(given))
            await asyncio.to_thread(line_of, process)
            async with httpx.AsyncClient(base_url=up.host("ops"), headers=headers, trust_env=False) as http:
                task = {"notebook_path": "/increment", "base_parameters": {"name": "job"}}
                settings_of_job = {"name": "increment", "tasks": [{"task_key": "main", "notebook_task": task}]}
                made = (await http.post("/api/2.2/jobs/create", json=settings_of_job)).raise_for_status()
                yield _Lab(up, http, made.json()["job_id"], process)
        await controller.ask(op="close", key="attached")
