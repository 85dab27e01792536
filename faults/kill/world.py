"""The processes: a local workspace, and Airflow's components each started by itself, so that each can die alone."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from demo import airflow_home
from demo.airflow_api import AirflowApi
from demo.databricks_api import Workspace
from demo.places import ROOT, Places, free_port
from demo.processes import wait_until
from faults.kill import workspace
from faults.kill.gate import FOLDER

Json = dict[str, Any]
COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
SHORT = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "6",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "6",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "3",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
}
"""Airflow's own time-outs, so that it notices a death within seconds."""


@dataclass
class World:
    """All that runs. Every process leads a session of its own, and whatever is left of a dead one's is ended at the end."""

    places: Places
    port: int = field(default_factory=free_port)
    sessions: list[int] = field(default_factory=list)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    client: Workspace | None = None
    api: AirflowApi | None = None

    @property
    def gates(self) -> Path:
        return self.places.home / "gates"

    @property
    def holds(self) -> Path:
        return self.places.home / "holds"

    def start(self, name: str) -> None:
        """Start a process: a component of Airflow, or the workspace."""
        if name == "workspace":
            command = ["-m", "faults.kill.workspace", str(self.places.local), str(self.port), str(self.holds)]
        else:
            command = ["-m", "airflow", name]
            command += ["--skip-serve-logs"] if name in ("scheduler", "triggerer") else []
        self.places.logs.mkdir(parents=True, exist_ok=True)
        with (self.places.logs / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, *command],
                env=self.environment or {**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[name] = process
        self.sessions.append(process.pid)

    def kill(self, name: str) -> None:
        """`kill -9` of a process that we started, and of nothing that descends from it."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def sweep(self) -> None:
        """End what outlived the process that started it."""
        alive = {process.pid for process in self.running.values()}
        self._end([session for session in self.sessions if session not in alive])
        self.sessions = [session for session in self.sessions if session in alive]

    def stop(self) -> None:
        self._end(self.sessions)
        for process in self.running.values():
            process.wait()

    def _end(self, sessions: list[int]) -> None:
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and os.getsid(process.pid) in sessions:
                    os.kill(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue

    def up(self) -> None:
        """Everything started and healthy."""
        for folder in (self.gates, self.holds, self.places.local):
            folder.mkdir(parents=True)
        self.start("workspace")
        wait_until(self.places.deployment.exists, "the workspace", 60, self.check)
        told = json.loads(self.places.deployment.read_text())["workspaces"][workspace.NAME]
        self.client = Workspace(workspace.NAME, told["host"], told["token"])
        home = airflow_home.prepare(self.places)
        bundle = {
            "name": "cells",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(Path(__file__).with_name("dags"))},
        }
        self.environment = {
            **airflow_home.environment(home, self.places, [self.client]),
            **SHORT,
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
            "PYTHONPATH": str(ROOT),
            FOLDER: str(self.gates),
        }
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=300)
        for name in COMPONENTS:
            self.start(name)
        self.api = AirflowApi(home.url, airflow_home.USER, home.password)
        self.healthy()

    def healthy(self) -> None:
        """Wait until all of Airflow is up, and the workspace answers."""
        wait_until(lambda: self.airflow.unhealthy() == [], "Airflow", 300, self.check)
        wait_until(self._answers, "the workspace", 60, self.check)

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/", timeout=5):
                return True
        except OSError as error:
            return getattr(error, "code", None) is not None

    @property
    def airflow(self) -> AirflowApi:
        assert self.api is not None
        return self.api

    @property
    def ops(self) -> Workspace:
        assert self.client is not None
        return self.client

    def check(self) -> None:
        """Raise when a process has ended that nobody killed."""
        for name, process in self.running.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}; see {self.places.logs / name}.log")

    def call(self, path: str, body: Json) -> Json:
        """A POST to Airflow's public API."""
        self.airflow.dag_ids()  # logs in where that is needed
        answer = self.airflow._http.post(path, json=body)
        if answer.status_code >= 300:
            raise RuntimeError(f"Airflow answered {answer.status_code} to {path}: {answer.text}")
        told: Json = answer.json()
        return told

    def record(self, subscription: str) -> Json | None:
        """The record of a subscription, read past all our code and past Airflow's."""
        query = (
            "SELECT s.value FROM asset_state_store s JOIN asset a ON a.id = s.asset_id "
            "WHERE s.key = 'databricks_bridge.record' AND (a.name = ? OR a.uri LIKE ?)"
        )
        with sqlite3.connect(f"file:{self.places.airflow / 'airflow.db'}?mode=ro", uri=True) as db:
            rows = db.execute(query, (subscription, f"%/{subscription}")).fetchall()
        value = json.loads(rows[0][0]) if rows else None
        return json.loads(value) if isinstance(value, str) else value


def until(ready: Callable[[], bool], what: str, seconds: float) -> None:
    """Poll with a deadline. Raises TimeoutError."""
    late = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > late:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}, in vain")
        time.sleep(0.2)
