"""What the fixture `databricks_local` gives a test: local workspaces, and the few calls that tests make most."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from databricks_bridge.core.errors import BridgeError, NotFound
from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.model import Engine
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.rest import Json, Rest

T = TypeVar("T")
CLAIM_PARAMETERS = (
    "bridge_subscription",
    "bridge_epoch",
    "bridge_generation",
    "bridge_token",
    "bridge_ranges",
    "bridge_full_rebuild",
)
"""What every claim sends to its job, beside the range of each source."""
PLACEHOLDER = "# Databricks notebook source\n"
PAUSE_SECONDS = 0.02
# Of our operators and sensors, of the official ones, of every task.
_SHORT: Mapping[str, object] = {
    "poll_interval": timedelta(milliseconds=100),
    "poke_interval": 0.1,
    "polling_period_seconds": 1,
    "retry_delay": timedelta(milliseconds=100),
}


def connection_to(host: str, token: str) -> str:
    """An Airflow connection, as its environment variables have it. The official hook takes scheme and port from fields of
    their own.
    """
    url = urlsplit(host)
    fields = {"conn_type": "databricks", "schema": url.scheme, "host": url.hostname, "port": url.port}
    return json.dumps(fields | {"password": token})


class StillWaiting(BridgeError, AssertionError):
    """What a test waits for has not come in time."""


@dataclass(frozen=True)
class LocalWorkspace:
    """One local workspace. `name` is also the Airflow connection's id, `hosted` the workspace behind it."""

    name: str
    hosted: Workspace

    @property
    def host(self) -> str:
        return self.hosted.host

    @property
    def token(self) -> str:
        return self.hosted.credentials.token

    @property
    def rest(self) -> Rest:
        return Rest(self.name, self.host, self.token, self.hosted.ca_file)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> Json:
        """One call of the Databricks REST API, such as `call("GET", "/api/2.2/jobs/list")`. Raises WorkspaceError."""
        return self.rest.call(method, path, body, **query)

    def notebook(self, path: str, source: str) -> None:
        """Put a notebook, in Databricks' source format, at `path`."""
        self.rest.notebook(path, source)

    def job(
        self, name: str, notebook: str, *, parameters: Iterable[str] = (), sources: Iterable[str] = (), **settings: Any
    ) -> int:
        """Make a job of one notebook task; its id. `parameters` are declared with the default "".

        `sources` are the aliases of the tables whose ranges an incremental run is given; what a claim sends is declared.
        `settings` are those of jobs/create: `trigger={"file_arrival": {"url": ...}}`, `max_concurrent_runs=1`.
        """
        ranges = [f"{alias}_{end}" for alias in sources for end in ("table", "start", "end", "as_of")]
        declared = [*parameters, *(CLAIM_PARAMETERS if ranges else ()), *ranges]
        body = {
            "name": name,
            "tasks": [{"task_key": "main", "notebook_task": {"notebook_path": notebook}}],
            "parameters": [{"name": one, "default": ""} for one in declared],
            "queue": {"enabled": True},
            **settings,
        }
        return int(self.call("POST", "/api/2.2/jobs/create", body)["job_id"])

    def runs(self, job_name: str) -> list[Json]:
        """All runs of a job, oldest first, as runs/get shows them. Raises NotFound when no job has that name."""
        job_id = self.rest.job_id(job_name)
        if job_id is None:
            raise NotFound(f"the workspace {self.name} has no job named {job_name}")
        page = self.call("GET", "/api/2.2/jobs/runs/list", job_id=job_id, limit=24)
        found = [self.call("GET", "/api/2.2/jobs/runs/get", run_id=run["run_id"]) for run in page.get("runs", [])]
        return list(reversed(found))

    def parameters(self, job_name: str) -> list[dict[str, str]]:
        """What each run of a job was given, oldest first."""
        return [{one["name"]: one["value"] for one in run.get("job_parameters", [])} for run in self.runs(job_name)]

    def result(self, run: Mapping[str, Any]) -> str | None:
        """What the notebook of a run gave back, as runs/get-output has it."""
        output = self.call("GET", "/api/2.2/jobs/runs/get-output", run_id=run["tasks"][0]["run_id"])
        value = output.get("notebook_output", {}).get("result")
        return None if value is None else str(value)

    def ended(self, job_name: str, count: int = 1, *, seconds: float = 60) -> list[Json]:
        """The job's runs as soon as `count` of them have ended. Raises StillWaiting after `seconds`."""

        def over() -> list[Json]:
            return [run for run in self.runs(job_name) if run["status"]["state"] == "TERMINATED"]

        return eventually(
            lambda: runs if len(runs := over()) >= count else None, f"{count} runs of {job_name}", seconds
        )

    def volume(self, path: str) -> Path:
        """The folder or file on this machine behind `/Volumes/catalog/schema/volume/...`; a volume is made when missing."""
        local = self.hosted.layout.volume_path(self.hosted.metastore, path)
        volume = Path(*local.parts[: len(self.hosted.layout.volumes_root(self.hosted.metastore).parts) + 3])
        volume.mkdir(parents=True, exist_ok=True)
        return local

    def land(self, path: str, content: str | bytes) -> None:
        """A file arrives at `/Volumes/catalog/schema/volume/.../name`, whole, as an upload does."""
        file = self.volume(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        hidden = file.with_name(f".{file.name}")
        hidden.write_bytes(content.encode() if isinstance(content, str) else content)
        hidden.rename(file)

    def table(self, full_name: str) -> str:
        """The folder of the Delta table `catalog.schema.table`, as `deltalake.DeltaTable` takes it."""
        return str(self.hosted.layout.table_path(self.hosted.metastore, full_name))

    def append(self, full_name: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Append rows to a Delta table with a change feed, made when missing; the version that they are in."""
        import pyarrow as pa
        from deltalake import DeltaTable as Table
        from deltalake import write_deltalake

        path = self.table(full_name)
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(path, pa.Table.from_pylist([dict(row) for row in rows]), mode="append", configuration=feed)
        return int(Table(path).version())

    def airflow_connection(self) -> str:
        """The value of the environment variable AIRFLOW_CONN_<NAME>."""
        return connection_to(self.host, self.token)


@dataclass(frozen=True)
class LocalDatabricks:
    """The workspaces of one test, fresh for it. `ledger` is where this test's subscriptions keep their records."""

    workspaces: Mapping[str, LocalWorkspace]
    ledger: str
    set_for_test: Callable[[Any, str, Any], None] = field(repr=False)

    def __getitem__(self, name: str) -> LocalWorkspace:
        return self.workspaces[name]

    @property
    def workspace(self) -> LocalWorkspace:
        """The first one, which most tests need alone."""
        return next(iter(self.workspaces.values()))

    def run_dag(self, dag: Any, **arguments: Any) -> Any:
        """`dag.test(**arguments)`, with what its tasks wait for by the clock made short; the DAG run.

        Polling, retries and the gap before them take a moment for this test; the subscription's own timers stay.
        """
        for task in dag.tasks:
            for name, short in _SHORT.items():
                if hasattr(task, name):
                    self.set_for_test(task, name, short)
        return dag.test(**arguments)

    def environment(self) -> dict[str, str]:
        """What Airflow has to be told: a connection for each workspace, named like it, and the ledger."""
        connections = {
            f"AIRFLOW_CONN_{name.upper()}": one.airflow_connection() for name, one in self.workspaces.items()
        }
        return connections | {"AIRFLOW__DATABRICKS_BRIDGE__LEDGER": self.ledger}


def eventually(look: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """What `look` gives as soon as it is true. Raises StillWaiting after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise StillWaiting(f"no {what} after {seconds:g} s")
        time.sleep(PAUSE_SECONDS)
    return found


@contextmanager
def local_databricks(
    home: Path,
    workspaces: Sequence[str],
    engine: Engine,
    *,
    ledger: Path,
    notebooks: Mapping[str, str],
    time_scale: float,
    set_for_test: Callable[[Any, str, Any], None],
) -> Iterator[LocalDatabricks]:
    """Workspaces in `home`, with the sources of `notebooks` at their paths in each of them, and an empty `ledger`."""
    shutil.rmtree(ledger, ignore_errors=True)
    with deployment_in_thread(home, workspaces, engine=engine, time_scale=time_scale) as up:
        found = {name: LocalWorkspace(name, hosted) for name, hosted in up.workspaces.items()}
        for workspace in found.values():
            for path, source in notebooks.items():
                workspace.notebook(path, source)
        yield LocalDatabricks(found, ledger.as_uri(), set_for_test)
