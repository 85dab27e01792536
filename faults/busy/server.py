"""The workspace as a process of its own: `python -m faults.busy.server HOME SCALE NOTEBOOK_SECONDS`.

Each line `start` on standard input forks one that serves, and the answer is its process id: nothing is imported twice. It
writes down which task runs its engine began and finished, and each second how many tasks and threads it has.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from databricks_bridge.local.deployment import running_deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun

WORKSPACE = "ops"
ENGINE_LOG, COUNTS, ERRORS = "engine.log", "counts.json", "server.log"
COUNT_SECONDS = 1.0


def main(home: Path, scale: float, notebook_seconds: float) -> None:
    served: int | None = None
    for line in sys.stdin:
        if line.strip() != "start":
            break
        if served is not None:
            os.waitpid(served, 0)
        served = os.fork()
        if served == 0:
            _serve_in_child(home, scale, notebook_seconds)
        print(served, flush=True)


def _serve_in_child(home: Path, scale: float, notebook_seconds: float) -> None:
    errors = os.open(home / ERRORS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(errors, standard)
    os.close(errors)
    try:
        asyncio.run(_serve(home, scale, notebook_seconds))
    except BaseException as error:  # noqa: BLE001 - a child must not run on into the parent's code
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


async def _serve(home: Path, scale: float, notebook_seconds: float) -> None:
    with (home / ENGINE_LOG).open("a") as log:

        async def notebook(request: NotebookRun) -> NotebookResult:
            print(f"began {request.run_id}", file=log, flush=True)
            await asyncio.sleep(notebook_seconds)
            print(f"finished {request.run_id}", file=log, flush=True)
            return NotebookResult(True, None, None, None)

        async with running_deployment(home, [WORKSPACE], engine=InstantEngine(notebook), time_scale=scale):
            while True:
                _count(home)
                await asyncio.sleep(COUNT_SECONDS)


def _count(home: Path) -> None:
    draft = home / f"{COUNTS}.new"
    draft.write_text(json.dumps({"tasks": len(asyncio.all_tasks()), "threads": threading.active_count()}))
    draft.replace(home / COUNTS)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
