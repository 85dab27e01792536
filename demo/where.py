"""Where to look when all is up, and what to click first: the same lines after `make demo KEEP=1` and with docker compose.

python -m demo.where [--when-ready]       inside the composition's service `local`
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from demo.places import AUDIT_DAG, GOLD_DAG, WORKSPACES

COMPOSED = Path("/lab/local")
LOOK_EVERY = 3.0  # seconds


@dataclass(frozen=True)
class Where:
    """What is up: addresses, and the commands that a person gives. `workspaces` by name."""

    airflow: str
    login: str
    workspaces: Mapping[str, str]
    links: str
    wave: str
    stop: str


def lines(where: Where) -> list[str]:
    """No secret is in them but what `login` says."""
    width = max(map(len, where.workspaces), default=0) + len("workspace ")
    return [
        f"{'Airflow':{width}}  {where.airflow}  {where.login}",
        *(f"{f'workspace {name}':{width}}  {host}" for name, host in where.workspaces.items()),
        "The workspaces are local stand-ins, not Databricks. Links that sign you in to their pages:",
        f"    {where.links}",
        f"First open the DAG {GOLD_DAG} in Airflow, and the job bronze-flights in ops. Then land files:",
        f"    {where.wave}",
        f"They fire the jobs in ops and met by themselves; {AUDIT_DAG} and {GOLD_DAG} in Airflow follow.",
        "Stop all of it:",
        f"    {where.stop}",
    ]


def composed(home: Path = COMPOSED) -> Where:
    """With docker compose. Raises OSError while the workspaces are not up."""
    found = json.loads((home / "deployment.json").read_text())["workspaces"]
    inside = "docker compose exec local databricks-bridge local"
    return Where(
        airflow=os.environ.get("AIRFLOW_URL", "http://127.0.0.1:8080"),
        login="login admin, password: docker compose exec api-server cat /secrets/admin",
        workspaces={name: found[name]["host"] for name in WORKSPACES},
        links=f"{inside} links --home {home}",
        wave=f"{inside} wave --home {home}",
        stop="docker compose down",
    )


def ready(home: Path, api: str) -> bool:
    """Whether the workspaces are furnished and Airflow answers."""
    if not ((home / "ready.json").exists() and (home / "deployment.json").exists()):
        return False
    try:
        with urllib.request.urlopen(f"{api}/api/v2/monitor/health", timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


def main(words: list[str]) -> int:
    """0 when it told, 1 when nothing is up, 2 for words that it does not know."""
    if words not in ([], ["--when-ready"]):
        print(__doc__, file=sys.stderr)
        return 2
    while words and not ready(COMPOSED, os.environ.get("API", "http://api-server:8080")):
        time.sleep(LOOK_EVERY)
    try:
        print("\n".join(lines(composed())), flush=True)
    except OSError as error:
        print(f"the local workspaces are not up ({error}); see `docker compose ps`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
