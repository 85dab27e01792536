"""Operators run as Airflow's worker runs them, against a real local deployment: only Airflow's own side is stood in for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databricks_bridge import DatabricksIncrementalRunOperator, DeltaTable, Subscription
from databricks_bridge.assets.second_copy import AirflowVariables
from databricks_bridge.core.parameter_names import declarable_names
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.ledgers.airflow import KEY
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.local.local_kit import Api, Notebooks, client, write_notebook

TABLE = "main.silver.flights"
SOURCE = DeltaTable(TABLE, "ops")
DELAYS = Subscription("delays", SOURCE, start="earliest")
SOON = timedelta(milliseconds=30)


@dataclass
class Store:
    """The part of the asset state store that a ledger uses, as JSON."""

    rows: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, asset: Any) -> Store:
        return self

    def get(self, key: str, default: Any = None) -> Any:
        return json.loads(self.rows[key]) if key in self.rows else default

    def set(self, key: str, value: Any) -> None:
        self.rows[key] = json.dumps(value)


@dataclass
class Ti:
    """A running task instance, as the operator sees it."""

    task: Any
    run_id: str = "manual__1"
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 2
    dag_id: str = "delays"
    pushed: dict[str, Any] = field(default_factory=dict)

    @property
    def task_id(self) -> str:
        return str(self.task.task_id)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@dataclass
class Bench:
    """The deployment, and the state that Airflow keeps between tries."""

    deployment: Deployment
    notebooks: Notebooks
    api: Api
    job_id: int
    store: Store = field(default_factory=Store)
    pushed: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    dag_runs: int = 0
    active_dag_runs: set[str] = field(default_factory=set)

    def commit(self, rows: int = 1) -> int:
        """Append to the real Delta table; its version afterwards."""
        import pyarrow as pa
        from deltalake import DeltaTable as Delta
        from deltalake import write_deltalake

        path = str(self.deployment.layout.table_path("ops", TABLE))
        write_deltalake(path, pa.table({"n": list(range(rows))}), mode="append")
        return Delta(path).version()

    def operator(self, **arguments: Any) -> DatabricksIncrementalRunOperator:
        given: dict[str, Any] = {
            "task_id": "t",
            "subscription": DELAYS,
            "databricks_conn_id": "gold",
            "job_name": "gold",
            "retries": 2,
            "poll_interval": SOON,
            "inlets": [DELAYS.asset],
        }
        return DatabricksIncrementalRunOperator(**(given | arguments))

    def context(self, task: Any, *, run_type: str = "manual", fail_fast: bool = False, **ti: Any) -> Any:
        """A task of the last DAG run, unless `run_id` says another."""
        run = SimpleNamespace(run_type=run_type, run_after=datetime.now(UTC))
        instance = Ti(task, pushed=self.pushed, **{"run_id": f"manual__{max(1, self.dag_runs)}"} | ti)
        return {
            "ti": instance,
            "dag_run": run,
            "dag": SimpleNamespace(fail_fast=fail_fast),
            "asset_state_store": self.store,
        }

    def run(self, task: Any = None, **context: Any) -> Any:
        """A first try is one of a new DAG run, a later one of the last, unless `run_id` says another."""
        task = task or self.operator()
        self.dag_runs += context.get("try_number", 1) == 1 and "run_id" not in context
        return task.execute(self.context(task, **context))

    def runs(self) -> list[dict[str, Any]]:
        """All runs of the job, oldest first."""
        return list(reversed(self.api.get("runs/list", job_id=self.job_id, limit=24).get("runs", [])))

    def bounds(self) -> list[tuple[int, int]]:
        """What each run was given: from exclusive, to inclusive."""
        given = [of_run(run) for run in self.runs()]
        return [(int(one["flights_start"]) - 1, int(one["flights_end"])) for one in given]

    def record(self) -> Record:
        return record_from_json(self.store.get(KEY))

    def watermark(self) -> int:
        mark = self.record().watermarks["flights"]
        assert isinstance(mark, TablePosition)
        return mark.version


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    notebooks = Notebooks()
    with deployment_in_thread(tmp_path, ["ops", "analytics"], engine=InstantEngine(notebooks.run)) as deployment:
        for conn_id, workspace in (("OPS", "ops"), ("GOLD", "analytics")):
            connection = {
                "conn_type": "databricks",
                "host": deployment.host(workspace),
                "password": deployment.token(workspace),
            }
            monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps(connection))
        api = Api(client(deployment, "analytics"))
        path = write_notebook(deployment, "analytics", "gold")
        declared = [{"name": name, "default": ""} for name in sorted(declarable_names([SOURCE], ["region"]))]
        task = {"task_key": "main", "notebook_task": {"notebook_path": path}}
        job = api.post("create", name="gold", tasks=[task], parameters=declared, queue={"enabled": True})
        made = Bench(deployment, notebooks, api, int(job["job_id"]))
        made.commit(3)
        _give_airflow(monkeypatch, made)
        yield made


def _give_airflow(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    """What a task asks its Airflow for, without one: variables, and the states of DAG runs."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    def state(dag_id: str, run_id: str) -> str:
        return "running" if run_id in bench.active_dag_runs else "failed"

    monkeypatch.setattr(AirflowVariables, "get", lambda variables, key: bench.variables.get(key))
    monkeypatch.setattr(AirflowVariables, "set", lambda variables, key, value: bench.variables.update({key: value}))
    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(state))
