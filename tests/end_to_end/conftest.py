"""Real Airflow beside a real local deployment, whose notebooks are answered at once: one pair for all these tests."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.testing import CLAIM_PARAMETERS
from demo import airflow_home
from demo.airflow_api import AirflowApi
from demo.databricks_api import Workspace
from demo.places import DemoFailed, Places
from demo.processes import Services, wait_until

DAGS = Path(__file__).parent / "dags"
LANDING = "/Volumes/main/landing/files/"


@dataclass(frozen=True)
class Bridge:
    """Both sides, as a test sees them."""

    deployment: Deployment
    airflow: AirflowApi
    workspaces: dict[str, Workspace]
    ledger: str

    def commit(self, rows: int, table: str = "main.silver.flights") -> int:
        """Append to a real Delta table in ops; its version afterwards."""
        return append(self.deployment.layout.table_path("ops", table), rows)

    def land(self, name: str) -> None:
        """A file arrives in the volume that the job `by-file` watches."""
        folder = self.deployment.layout.volume_path("ops", LANDING)
        hidden = folder / f".{name}"
        hidden.write_text("{}")
        hidden.rename(folder / name)

    def start(self, dag_id: str) -> str:
        """Start a run of a DAG; its id."""
        return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"])

    def wait(self, dag_id: str, run_id: str, seconds: float = 300) -> str:
        """Wait until the DAG run is over; its state."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        state = ""

        def over() -> bool:
            nonlocal state
            state = self.call("GET", path)["state"]
            return state in ("success", "failed")

        until(over, f"{dag_id} {run_id}", seconds)
        return state

    def call(self, method: str, path: str, body: Any = None) -> Any:
        http: httpx.Client = self.airflow._http
        answer = http.request(method, path, json=body)
        if answer.status_code == 401:
            self.airflow._authenticate()
            answer = http.request(method, path, json=body)
        if answer.status_code >= 300:
            raise DemoFailed(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        """What a try of a task logged, as one text."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}?full_content=true"
        return json.dumps(self.call("GET", path)["content"])

    def runs(self, workspace: str, job_name: str) -> list[dict[str, Any]]:
        """All runs of a job, oldest first."""
        client = self.workspaces[workspace]
        answer = client.get("/api/2.2/jobs/runs/list", job_id=client.job_id(job_name), limit=24)
        return list(reversed(answer.get("runs", [])))


def append(table: Path, rows: int) -> int:
    """Append to a Delta table; its version afterwards."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(str(table), pa.table({"n": list(range(rows))}), mode="append")
    return int(DeltaTable(str(table)).version())


def until(ready: Callable[[], bool], what: str, seconds: float) -> None:
    """Ask `ready` until it says yes. A loaded Airflow that does not answer in time, or not any more, has said no."""

    def answered() -> bool:
        with suppress(httpx.TransportError, DemoFailed):
            return ready()
        return False

    wait_until(answered, what, seconds, lambda: None)


def given(run: dict[str, Any]) -> dict[str, str]:
    """The job parameters of a run."""
    return {one["name"]: one["value"] for one in run["job_parameters"]}


@pytest.fixture(scope="package")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    home = tmp_path_factory.mktemp("bridge")
    places = Places(home / "airflow")
    with deployment_in_thread(
        home / "local", ["ops", "gold"], engine=InstantEngine(_answer), time_scale=1 / 60
    ) as deployment:
        workspaces = {name: Workspace(name, deployment.host(name), deployment.token(name)) for name in ("ops", "gold")}
        _furnish(deployment, workspaces)
        services = Services(places)
        try:
            airflow = _start_airflow(places, services, workspaces)
            yield Bridge(deployment, airflow, workspaces, f"file://{places.home}/ledger")
        finally:
            services.stop()


def _answer(run: NotebookRun) -> NotebookResult:
    if run.notebook.stem == "appends":
        append(run.metastore_root / "main" / "official" / "flights", 1)
    return NotebookResult(succeeded=True, exit_value=json.dumps(run.parameters), error=None, error_trace=None)


def _furnish(deployment: Deployment, workspaces: dict[str, Workspace]) -> None:
    deployment.layout.volume_path("ops", LANDING).mkdir(parents=True)
    for workspace in workspaces.values():
        workspace.client.workspace.mkdirs("/bridge")
        _notebook(workspace, "notebook")
        _notebook(workspace, "appends")
    table = ("flights_table", "flights_start", "flights_end")
    for way in ("poke", "reschedule", "deferrable", "asset", "store"):
        _job(workspaces["gold"], f"consume-{way}", parameters=(*CLAIM_PARAMETERS, *table))
    for way in ("marked-followed", "marked-deferred", "kept", "official"):
        _job(workspaces["gold"], f"consume-{way}", parameters=(*CLAIM_PARAMETERS, *table))
    _job(workspaces["gold"], "consume-replayed", parameters=(*CLAIM_PARAMETERS, *table, "flights_as_of"))
    _job(workspaces["gold"], "consume-runs", parameters=(*CLAIM_PARAMETERS, "by_file_run_ids"))
    _job(workspaces["gold"], "export-official", parameters=("flights_start", "flights_end"))
    _job(workspaces["ops"], "append-official", notebook="appends")
    _job(workspaces["ops"], "by-file", trigger={"file_arrival": {"url": LANDING}})


def _notebook(workspace: Workspace, name: str) -> None:
    source = base64.b64encode(b"# Databricks notebook source\n").decode()
    body = {"path": f"/bridge/{name}", "content": source, "format": "SOURCE", "language": "PYTHON", "overwrite": True}
    workspace.post("/api/2.0/workspace/import", body)


def _job(
    workspace: Workspace, name: str, parameters: tuple[str, ...] = (), notebook: str = "notebook", **settings: Any
) -> None:
    task = {"task_key": "main", "notebook_task": {"notebook_path": f"/bridge/{notebook}"}}
    declared = [{"name": one, "default": ""} for one in parameters]
    workspace.post(
        "/api/2.2/jobs/create",
        {"name": name, "tasks": [task], "parameters": declared, "queue": {"enabled": True}, **settings},
    )


def _start_airflow(places: Places, services: Services, workspaces: dict[str, Workspace]) -> AirflowApi:
    home = airflow_home.prepare(places)
    environment = airflow_home.environment(home, places, workspaces.values())
    bundle = {
        "name": "tests",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(DAGS)},
    }
    environment["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = json.dumps([bundle])
    # A watcher is started, and stopped, with the parse of its file.
    environment["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"] = "10"
    environment["BRIDGE_TEST_LEDGER"] = f"file://{places.home}/ledger"
    wrong = {"conn_type": "databricks", "host": workspaces["ops"].host, "password": "not-the-token"}
    environment["AIRFLOW_CONN_OPS_WRONG_TOKEN"] = json.dumps(wrong)
    command = [sys.executable, "-m", "airflow"]
    places.home.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, "db", "migrate"], env=environment, check=True, capture_output=True, timeout=180)
    services.start("airflow", [*command, "standalone"], environment, places.home)
    api = AirflowApi(home.url, airflow_home.USER, home.password)
    wait_until(lambda: not api.unhealthy(), "Airflow", 400, services.check)
    wait_until(lambda: {"after_runs", "mistake_missing_job"} <= api.dag_ids(), "the DAGs", 300, services.check)
    assert api.import_errors() == []
    return api


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", os.environ.get("NO_PROXY", "127.0.0.1"))
