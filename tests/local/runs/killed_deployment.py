"""A deployment that is killed at one of its commits: `python -m tests.local.runs.killed_deployment HOME POINTS`.

For each point n a fresh home, in which a file has come and a table has grown, is served by a process that kills itself
just before its n-th commit, and then by one that nobody kills. What is in the store after that is printed, a line each.
It forks, so that nothing is imported twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.deployment import running_deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.runs.model import SLOT_PHASES, Phase
from databricks_bridge.local.runs.records import all_attempts_of, runs_in
from databricks_bridge.local.server.job_settings import completed
from databricks_bridge.local.store import Store

SCALE = 0.001
INTERVAL = 60 * SCALE
JOBS = ("files", "after", "tables", "called", "nightly")
FLIGHTS = "main.silver.flights"


def main(home: Path, points: int) -> None:
    ready = home / "ready"
    in_a_fork(lambda: arrange(ready))
    whole = home / "whole"
    shutil.copytree(ready, whole)
    news(whole)
    in_a_fork(lambda: serve(whole, None))
    commits = int((whole / "commits").read_text())
    step = max(1, commits // points)
    for point in range(1, commits + 1, step):
        killed = home / str(point)
        shutil.copytree(ready, killed)
        news(killed)
        died = in_a_fork(lambda killed=killed, point=point: serve(killed, point))  # type: ignore[misc]
        began = time.monotonic()
        in_a_fork(lambda killed=killed: serve(killed, None))  # type: ignore[misc]
        found = {"point": point, "died": died == -signal.SIGKILL, "took": time.monotonic() - began}
        print(json.dumps({**found, **in_the_store(killed)}), flush=True)
        shutil.rmtree(killed)


def in_a_fork(work: Callable[[], Awaitable[None]]) -> int:
    """Run `work` in a child; its exit code, the negative signal if it was killed."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(work())  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - a child must not run on into the parent's code
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@dataclass
class Commits:
    """Counts the commits of this process, and ends it at one."""

    kill_at: int | None
    count: int = 0

    def connect(self) -> None:
        commits, connect = self, sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
                if sql == "COMMIT":
                    commits.count += 1
                    if commits.count == commits.kill_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                return super().execute(sql, *rest)

        sqlite3.connect = lambda *args, **more: connect(*args, factory=Connection, **more)  # type: ignore[assignment]


def engine(home: Path) -> InstantEngine:
    """Writes down which task runs it was given and which it has finished."""

    async def run(request: NotebookRun) -> NotebookResult:
        with (home / "engine.log").open("a") as log:
            log.write(f"began {request.run_id}\n")
            log.flush()
            await asyncio.sleep(0.005)
            log.write(f"finished {request.run_id}\n")
        return NotebookResult(True, None, None, None)

    return InstantEngine(run)


async def arrange(home: Path) -> None:
    """Make the jobs, and let every trigger have its first look."""
    async with running_deployment(home, ["ops"], engine=engine(home), time_scale=SCALE) as up:
        ops = up.workspaces["ops"]
        notebook = ops.layout.workspace_files("ops") / "main.py"
        notebook.touch()
        at = int(ops.now() * 1000)
        main = {"task_key": "main", "notebook_task": {"notebook_path": "/main"}}
        second = {**main, "task_key": "second", "depends_on": [{"task_key": "main"}], "run_if": "ALL_DONE"}
        yearly = {"quartz_cron_expression": "0 0 0 1 1 ?", "timezone_id": "UTC"}

        def add(name: str, *tasks: dict[str, Any], **settings: Any) -> int:
            return ops.store.add_job("ops", completed({"name": name, "tasks": list(tasks), **settings}), at).job_id

        files = add("files", main, second, trigger={"file_arrival": {"url": "/Volumes/main/landing/flights/"}})
        upstream = [{"workspace_id": ops.workspace_id, "job_id": str(files)}]
        add("after", main, trigger={"job_completion": {"jobs": upstream, "if_status": "DONE"}})
        called = add("called", main)
        call = {"task_key": "call", "run_job_task": {"job_id": called}}
        add("tables", call, trigger={"table_update": {"table_names": [FLIGHTS]}})
        add("nightly", main, schedule=yearly)
        await asyncio.sleep(INTERVAL * 4)


def news(home: Path) -> None:
    """A file comes, a table is written, and a year has ended for the schedule."""
    layout = Layout(home)
    file = layout.volume_path("ops", "/Volumes/main/landing/flights/a.json")
    file.parent.mkdir(parents=True)
    file.touch()
    log = layout.table_path("ops", FLIGHTS) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text('{"add":{"path":"a.parquet","dataChange":true}}\n')
    store = Store(layout.store_file)
    nightly = next(job for job in store.jobs() if job.name == "nightly")
    state = store.trigger_state(nightly.job_id)
    assert state is not None, "the schedule had its first look"
    state["triggers"][0]["state"]["done"] = "2020-06-01T00:00:00+00:00"
    store.save_trigger_state(nightly.job_id, nightly.trigger_revision, state)
    store.close()


async def serve(home: Path, kill_at: int | None) -> None:
    """Serve until everything has run and nothing more comes."""
    commits = Commits(kill_at)
    commits.connect()
    async with running_deployment(home, ["ops"], engine=engine(home), time_scale=SCALE) as up:
        store = up.workspaces["ops"].store
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            await asyncio.sleep(INTERVAL / 2)
            done = {run.name for run in runs_in(store, {Phase.DONE})}
            if done == set(JOBS) and not runs_in(store, {Phase.QUEUED, *SLOT_PHASES}):
                break
        # Whatever fires twice would by now.
        await asyncio.sleep(INTERVAL * 3)
    (home / "commits").write_text(str(commits.count))


def in_the_store(home: Path) -> dict[str, Any]:
    """The runs by job, with their tasks, how often each run has ended, and what the engine did."""
    store = Store(Layout(home).store_file)
    runs = [
        {
            "job": run.name,
            "trigger": run.trigger,
            "outcome": run.outcome,
            "ends": store.query(
                "SELECT count(*) AS n FROM run_ends WHERE body LIKE ?", (f'%"run_id": {run.run_id},%',)
            )[0]["n"],
            "attempts": [[one.run_id, one.phase, one.outcome] for one in all_attempts_of(store, run.run_id)],
        }
        for run in runs_in(store, set(Phase))
    ]
    store.close()
    log = home / "engine.log"
    return {"runs": runs, "engine": log.read_text().split("\n")[:-1] if log.is_file() else []}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
