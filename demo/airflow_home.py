"""An Airflow of the demo's own: its home, its settings, all given by environment variables."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from demo.databricks_api import Workspace
from demo.places import ROOT, Places, free_port

USER = "admin"
DAGS = ROOT / "dags"
CACHED_DATABASE = ROOT / ".cache" / "demo" / f"airflow-{version('apache-airflow')}.db"


@dataclass(frozen=True)
class AirflowHome:
    """Where Airflow will be found, and how to log in."""

    port: int
    password: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __repr__(self) -> str:
        return f"AirflowHome({self.url})"


def prepare(places: Places) -> AirflowHome:
    """Make the home, with a password for this demo alone."""
    home = AirflowHome(free_port(), secrets.token_urlsafe(12))
    places.airflow.mkdir(parents=True, exist_ok=True)
    passwords = places.airflow / "simple_auth_manager_passwords.json.generated"
    passwords.touch(mode=0o600)
    passwords.write_text(json.dumps({USER: home.password}))
    _write_program(_programs(places) / "airflow")
    if CACHED_DATABASE.exists():
        shutil.copyfile(CACHED_DATABASE, places.airflow / "airflow.db")
    return home


def has_database(places: Places) -> bool:
    """False when this Airflow's database has to be made first, which takes some ten seconds."""
    return (places.airflow / "airflow.db").exists()


def keep_database(places: Places) -> None:
    """Keep the database as `airflow db migrate` made it, empty, for the next demo."""
    CACHED_DATABASE.parent.mkdir(parents=True, exist_ok=True)
    new = CACHED_DATABASE.with_suffix(f".{os.getpid()}")
    shutil.copyfile(places.airflow / "airflow.db", new)
    new.replace(CACHED_DATABASE)


def environment(home: AirflowHome, places: Places, workspaces: Iterable[Workspace]) -> dict[str, str]:
    """The environment of every Airflow process. The connections carry tokens: they are here and nowhere else."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "DATABRICKS_"))}
    return {
        **inherited,
        **_settings(home, places),
        **{f"AIRFLOW_CONN_{workspace.name.upper()}": _connection(workspace) for workspace in workspaces},
    }


def _settings(home: AirflowHome, places: Places) -> dict[str, str]:
    bundle = {
        "name": "demo",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(DAGS)},
    }
    return {
        "PATH": os.pathsep.join((str(_programs(places)), os.environ.get("PATH", ""))),
        "AIRFLOW_HOME": str(places.airflow),
        # The one declared variable that the DAGs read their timers by.
        "AIRFLOW_VAR_BRIDGE_TIMERS": "short",
        "AIRFLOW__API__BASE_URL": home.url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(home.port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{home.url}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # One slot for each task that may be busy at once, and one to spare: more idle workers cost start-up time.
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        # The scheduler may start a task before the API server is up, which takes long on a busy machine.
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "20",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "3",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def _programs(places: Places) -> Path:
    return places.airflow / "bin"


def _write_program(path: Path) -> None:
    """The `airflow` that `airflow standalone` finds on PATH and starts its components with.

    The log servers of scheduler and triggerer listen on every interface, and no setting changes that, so they are left
    out. The web page reads the log files of this machine without them.
    """
    python = shlex.quote(sys.executable)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "#!/bin/sh\n"
        f'case "$1" in scheduler|triggerer) exec {python} -m airflow "$@" --skip-serve-logs ;; esac\n'
        f'exec {python} -m airflow "$@"\n'
    )
    path.chmod(0o755)


def _connection(workspace: Workspace) -> str:
    # The official hook takes scheme and port from fields of their own; in `host` it would ignore them and use https.
    url = urlsplit(workspace.host)
    connection = {
        "conn_type": "databricks",
        "schema": url.scheme,
        "host": url.hostname,
        "port": url.port,
        "password": workspace.token,
    }
    return json.dumps(connection)
