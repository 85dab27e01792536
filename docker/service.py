"""Starts one service of docker-compose.yaml: waits for what it needs, gives it its secrets, and becomes it.

`service.py airflow COMPONENT` · `service.py local` · `service.py healthy COMPONENT` (a health check)

Services start in any order, so each waits for what it needs by trying again. The standard library alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

SECRETS = Path("/secrets")
HOME = Path("/lab/local")
API = "http://api-server:8080"
HEALTH_NAMES = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
PAUSE_SECONDS = 2.0


def main(words: list[str]) -> int:
    match words:
        case ["airflow", component]:
            return airflow(component)
        case ["local"]:
            return local()
        case ["healthy", component]:
            return healthy(component)
    print(__doc__, file=sys.stderr)
    return 2


def airflow(component: str) -> int:
    wait(lambda: all((SECRETS / name).exists() for name in ("postgres", "fernet", "jwt", "admin")), "the secrets")
    os.environ.update(settings())
    if local_ones():
        wait(lambda: all((HOME / name).exists() for name in ("ready.json", "deployment.json")), "the local workspaces")
        os.environ.update(connections())
    for name in [name for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_") and not value]:
        del os.environ[name]
    home = Path(os.environ["AIRFLOW_HOME"])
    password_file = home / "simple_auth_manager_passwords.json.generated"
    password_file.touch(mode=0o600)
    password_file.write_text(json.dumps({"admin": secret("admin")}))
    if component == "api-server":
        wait(migrated, "Postgres")
    else:
        wait(lambda: answer("/api/v2/monitor/health") is not None, "the API server")
    arguments = ["--skip-serve-logs"] if component in ("scheduler", "triggerer") else []
    os.execvp("airflow", ["airflow", component, *arguments])


def local() -> int:
    """The workspaces listen on loopback alone; in here a forwarder on the container's own address stands before them."""
    if not local_ones():
        print(
            "COMPOSE_PROFILES=external: Airflow works with real workspaces, and there is nothing to do here", flush=True
        )
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.pause()
    # One that was killed leaves it behind, and nobody else owns this home.
    (HOME / "ready.json").unlink(missing_ok=True)
    lab = Path(__file__).with_name("lab.yaml")
    forwarder = Path(__file__).with_name("forward.py")
    named = os.environ["PORTS"].split()
    subprocess.Popen([sys.executable, str(forwarder), *(one.partition("=")[2] for one in named)])
    subprocess.Popen([sys.executable, "-m", "demo.where", "--when-ready"])
    command = ["databricks-bridge", "local", "up", "--file", str(lab), "--home", str(HOME)]
    os.execvp(command[0], [*command, *(word for one in named for word in ("--port", one))])


def healthy(component: str) -> int:
    """0 when the component works. Airflow's own words for it, over its API, cost less than its command line."""
    if component == "local":
        return 0 if not local_ones() or (HOME / "ready.json").exists() else 1
    found = answer("/api/v2/monitor/health")
    if component == "api-server":
        return 0 if found and found["metadatabase"]["status"] == "healthy" else 1
    return 0 if found and (found.get(HEALTH_NAMES[component]) or {}).get("status") == "healthy" else 1


def local_ones() -> bool:
    """Whether Airflow works with the local workspaces."""
    return os.environ.get("WORKSPACES") != "external"


def settings() -> dict[str, str]:
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://airflow:{secret('postgres')}@postgres/airflow",
        "AIRFLOW__CORE__FERNET_KEY": secret("fernet"),
        "AIRFLOW__API_AUTH__JWT_SECRET": secret("jwt"),
        "AIRFLOW__API__SECRET_KEY": secret("jwt"),
    }


def connections() -> dict[str, str]:
    """A connection for each local workspace. The token is kept by the workspace, so it outlives restarts."""
    described = json.loads((HOME / "deployment.json").read_text())["workspaces"]
    return {f"AIRFLOW_CONN_{name.upper()}": connection(entry) for name, entry in described.items()}


def connection(entry: dict[str, str]) -> str:
    port = int(entry["host"].rpartition(":")[2])
    fields = {"conn_type": "databricks", "schema": "http", "host": "local", "port": port, "password": entry["token"]}
    return json.dumps(fields)


def migrated() -> bool:
    done = subprocess.run(["airflow", "db", "migrate"], capture_output=True, text=True)
    if done.returncode != 0:
        print("\n".join((done.stderr or done.stdout).strip().splitlines()[-1:]), flush=True)
    return done.returncode == 0


def answer(path: str) -> dict[str, dict[str, str]] | None:
    try:
        with urllib.request.urlopen(API + path, timeout=5) as response:
            body: dict[str, dict[str, str]] = json.load(response)
            return body
    except (OSError, urllib.error.URLError, ValueError):
        return None


def secret(name: str) -> str:
    return (SECRETS / name).read_text().strip()


def wait(ready: Callable[[], bool], what: str) -> None:
    said = False
    while not ready():
        if not said:
            print(f"waiting for {what}", flush=True)
            said = True
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
