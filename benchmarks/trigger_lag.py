"""From a commit or a file to the start of the run that it fires, beyond the timers, with 200 jobs and 200 watched tables.

A trigger is looked at once in each evaluation interval, which is one of the timers. Runs are instant.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, number
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult
from databricks_bridge.local.runs.model import Phase
from databricks_bridge.local.runs.records import attempts_of, runs_in
from databricks_bridge.local.server.job_settings import completed
from databricks_bridge.local.triggers.scheduler import EVALUATION_INTERVAL_SECONDS, LONGEST_TICK_SECONDS

JOBS, TABLES_OF_A_JOB = 200, 2
CHANGES, SPREAD_SECONDS = 400, 40.0
SCALE = 0.02
INTERVAL, TICK = EVALUATION_INTERVAL_SECONDS * SCALE, LONGEST_TICK_SECONDS


def measure() -> list[Figure]:
    """The 99th percentile of the lag beyond one evaluation interval, in ticks of the loop; and runs too many or too few."""
    random.seed(7)
    engine = InstantEngine(lambda request: NotebookResult(True, None, None, None))
    with (
        tempfile.TemporaryDirectory() as home,
        deployment_in_thread(Path(home), ["ops"], engine=engine, time_scale=SCALE) as up,
    ):
        jobs = [_add(up, place) for place in range(JOBS)]
        time.sleep(INTERVAL * 3)
        written: dict[int, list[float]] = {job_id: [] for job_id in jobs}
        for change in range(CHANGES):
            place = change % JOBS
            written[jobs[place]].append(_change(up, place, change // JOBS))
            # At random places of the loop's rhythm.
            time.sleep(random.uniform(0, 2 * SPREAD_SECONDS / CHANGES))
        time.sleep(INTERVAL * 3)
        store = up.workspaces["ops"].store
        started: dict[int, list[float]] = {job_id: [] for job_id in jobs}
        for run in runs_in(store, set(Phase)):
            started[run.job_id or 0].append(attempts_of(store, run.run_id)[0].start_time / 1000)
    wrong = sum(abs(len(started[job_id]) - len(written[job_id])) for job_id in jobs)
    lags = sorted(
        after - before
        for job_id in jobs
        if len(started[job_id]) == len(written[job_id])
        for before, after in zip(written[job_id], started[job_id], strict=True)
    )
    if not lags:
        raise RuntimeError("no change fired as many runs as it should")
    late = lags[int(len(lags) * 0.99) - 1]
    print(
        f"trigger-lag: {len(lags)} changes, median {number(lags[len(lags) // 2])} s, p99 {number(late)} s, slowest "
        f"{number(lags[-1])} s; a look every {number(INTERVAL)} s, a tick of {number(TICK)} s"
    )
    return [
        Figure("ticks beyond the timers, p99", max(0.0, late - INTERVAL) / TICK, most=2),
        Figure("runs too many or too few", wrong, most=0),
    ]


def _add(up: Deployment, place: int) -> int:
    """A job: the even ones watch a folder, the odd ones two tables each."""
    ops = up.workspaces["ops"]
    notebook = ops.layout.workspace_files("ops") / "main.py"
    notebook.touch()
    trigger = (
        {"table_update": {"table_names": [_table(place, number) for number in range(TABLES_OF_A_JOB)]}}
        if place % 2
        else {"file_arrival": {"url": _folder(place)}}
    )
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/main"}}
    settings = completed({"name": f"job-{place}", "tasks": [task], "trigger": trigger, "max_concurrent_runs": 10})
    return ops.store.add_job("ops", settings, int(ops.now() * 1000)).job_id


def _change(up: Deployment, place: int, turn: int) -> float:
    """A new file, or a commit of one of the job's tables; when it was there."""
    if place % 2 == 0:
        file = up.layout.volume_path("ops", _folder(place)) / f"{turn}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        return time.time()
    log = up.layout.table_path("ops", _table(place, turn % TABLES_OF_A_JOB)) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    draft = log / ".draft"
    draft.write_text('{"add":{"path":"a.parquet","dataChange":true}}\n')
    draft.rename(log / f"{version:020d}.json")
    return time.time()


def _folder(place: int) -> str:
    return f"/Volumes/main/landing/place{place}/"


def _table(place: int, number: int) -> str:
    return f"main.silver.t{place}_{number}"
