"""From a commit in the source to a run that Databricks has accepted, on real Airflow by its own event-driven scheduling.

The floor is Airflow's own: from the event of a watcher that does nothing else to a task of a DAG of the same shape.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.bare_watch import noted
from benchmarks.figures import Figure, number
from databricks_bridge.core.parameter_names import names_of
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult
from demo import airflow_home
from demo.airflow_api import AirflowApi
from demo.databricks_api import Workspace
from demo.places import ROOT, DemoFailed, Places
from demo.processes import Services, wait_until

DAGS = ROOT / "benchmarks" / "submit_lag_dags"
TABLE, JOB = "main.silver.flights", "consume"
POLL_SECONDS = 1.0
OURS_SECONDS = 0.5
"""What our own work may take on the way: the look at the table, the claim, the call."""
ROUNDS = 9
LONG = 240.0


def measure() -> list[Figure]:
    """The lag over one poll, Airflow's own time and half a second; both the medians of the same rounds."""
    with tempfile.TemporaryDirectory() as home, _running(Path(home)) as lab:
        floors, lags = [], []
        for _ in range(ROUNDS + 1):
            floors.append(lab.floor())
            lags.append(lab.lag())
    # the first of each finds nothing warm
    floor, lag = median(floors[1:]), median(lags[1:])
    allowed = POLL_SECONDS + floor + OURS_SECONDS
    print(
        f"submit-lag: {ROUNDS} commits, median {number(lag)} s ({number(lag / floor)} times Airflow's own), worst "
        f"{number(max(lags[1:]))} s; Airflow's own watcher-to-task time: median {number(floor)} s, worst {number(max(floors[1:]))} s"
    )
    worst = max(lags[1:]) / (POLL_SECONDS + max(floors[1:]) + OURS_SECONDS)
    return [
        Figure("of one poll + Airflow's own watcher-to-task time + 0.5 s, median", lag / allowed, most=1),
        Figure("of the same, worst against worst", worst, most=1),
    ]


class _Lab:
    """An Airflow with both DAGs beside a workspace."""

    def __init__(self, folder: Path, deployment: Deployment, workspace: Workspace, airflow: AirflowApi) -> None:
        self._folder, self._workspace, self._airflow = folder, workspace, airflow
        self._table = deployment.layout.table_path("ops", TABLE)

    def floor(self) -> float:
        """Seconds from the bare watcher's event to its task."""
        before = len(noted(self._folder, "executed"))
        (self._folder / "signal").touch()
        _until(lambda: len(noted(self._folder, "executed")) > before, "the bare task")
        self._rest("bare")
        return noted(self._folder, "executed")[-1] - noted(self._folder, "sent")[-1]

    def lag(self) -> float:
        """Seconds from a commit to the run that was started for it."""
        import pyarrow as pa
        from deltalake import DeltaTable as Delta
        from deltalake import write_deltalake

        before = len(self._runs())
        write_deltalake(str(self._table), pa.table({"n": [1]}), mode="append")
        version = Delta(str(self._table)).version()
        committed = (self._table / "_delta_log" / f"{version:020d}.json").stat().st_mtime
        _until(lambda: len(self._runs()) > before, "the run")
        self._rest("ours")
        return min(self._runs()[before:]) - committed

    def _runs(self) -> list[float]:
        """When each run was accepted, oldest first."""
        query = {"job_id": self._workspace.job_id(JOB), "limit": 24}
        runs = self._workspace.get("/api/2.2/jobs/runs/list", **query).get("runs", [])
        return sorted(run["start_time"] / 1000 for run in runs)

    def _rest(self, dag_id: str) -> None:
        """Until no run of the DAG is under way."""
        _until(
            lambda: all(run["state"] in ("success", "failed") for run in self._airflow.dag_runs(dag_id)),
            f"the DAG {dag_id} to rest",
        )


def _until(ready: Callable[[], bool], what: str) -> None:
    wait_until(ready, what, LONG, lambda: None, pause=0.1)


@contextmanager
def _running(home: Path) -> Iterator[_Lab]:
    engine = InstantEngine(lambda run: NotebookResult(succeeded=True, exit_value=None, error=None, error_trace=None))
    places, folder = Places(home / "airflow"), home / "notes"
    folder.mkdir()
    with deployment_in_thread(home / "local", ["ops"], engine=engine) as deployment:
        workspace = Workspace("ops", deployment.host("ops"), deployment.token("ops"))
        _furnish(deployment, workspace)
        services = Services(places)
        try:
            yield _Lab(folder, deployment, workspace, _start_airflow(places, services, workspace, folder))
        finally:
            services.stop()


def _furnish(deployment: Deployment, workspace: Workspace) -> None:
    (deployment.layout.workspace_files("ops") / "notebook.py").write_text("# Databricks notebook source\n")
    declared = [{"name": name, "default": ""} for name in sorted(names_of([DeltaTable(TABLE)], []))]
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/notebook"}}
    workspace.post("/api/2.2/jobs/create", {"name": JOB, "tasks": [task], "parameters": declared})


def _start_airflow(places: Places, services: Services, workspace: Workspace, folder: Path) -> AirflowApi:
    home = airflow_home.prepare(places)
    bundle = {
        "name": "benchmark",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(DAGS)},
    }
    environment = {
        **airflow_home.environment(home, places, [workspace]),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
        "BENCH_FOLDER": str(folder),
        "BENCH_POLL_SECONDS": str(POLL_SECONDS),
    }
    command = [sys.executable, "-m", "airflow"]
    places.home.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, "db", "migrate"], env=environment, check=True, capture_output=True, timeout=180)
    services.start("airflow", [*command, "standalone"], environment, places.home)
    api = AirflowApi(home.url, airflow_home.USER, home.password)
    wait_until(lambda: not api.unhealthy(), "Airflow", LONG, services.check)
    wait_until(lambda: api.dag_ids() >= {"bare", "ours"}, "the DAGs", LONG, services.check)
    if errors := api.import_errors():
        raise DemoFailed(f"a DAG file cannot be imported: {errors[0]}")
    return api
