"""The service `external` of docker-compose.yaml: whether a real Databricks workspace answers each connection that the DAGs name.

`external.py` says what it finds, once and after each change · `external.py healthy` is the health check
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
import warnings
from pathlib import Path

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.hooks.databricks import open_workspace

CONNECTIONS = ("ops", "met", "analytics")
FOUND = Path("/tmp/external")
LOOK_EVERY = 60.0  # seconds
FINE = "every connection is answered"


def main(words: list[str]) -> int:
    if words == ["healthy"]:
        return 0 if FOUND.exists() and FOUND.read_text() == FINE else 1
    if os.environ.get("WORKSPACES") != "external":
        print(
            "set COMPOSE_PROFILES=external in .env: --profile alone leaves Airflow with the local workspaces",
            flush=True,
        )
        return 1
    # What the official hook logs of each try would hide the few lines that count.
    logging.disable()
    while True:
        found = "\n".join(filter(None, (problem(name) for name in CONNECTIONS))) or FINE
        if not FOUND.exists() or FOUND.read_text() != found:
            print(found, flush=True)
            FOUND.write_text(found)
        time.sleep(LOOK_EVERY)


def problem(name: str) -> str | None:
    """What is wrong with a connection, without its secrets; None when its workspace answers."""
    variable = f"AIRFLOW_CONN_{name.upper()}"
    if not os.environ.get(variable):
        return f"{name}: {variable} is not set in .env"
    try:
        asyncio.run(_ask(name))
    except BridgeError as error:
        return f"{name}: {error}"
    return None


async def _ask(name: str) -> None:
    async with await open_workspace(name, budget_seconds=20) as workspace:
        # So would what it uses that is deprecated. Only here: opening imports Airflow, which sets filters of its own.
        warnings.simplefilter("ignore")
        await workspace.get("/api/2.2/jobs/list", {"limit": 1})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
