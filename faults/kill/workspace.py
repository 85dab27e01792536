"""The local workspace in a process of its own, to be killed: `python -m faults.kill.workspace HOME PORT HOLDS`.

Its notebooks are answered at once, but for those whose job, or job and `.foreign` for runs that are not ours, has a file in
the folder HOLDS: they work on until it is gone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from databricks_bridge.local.deployment import running_deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.workspace_spec import WorkspaceSpec

NAME = "ops"
LOOK_AGAIN_SECONDS = 0.05


async def serve(home: Path, port: int, holds: Path) -> None:
    async def notebook(request: NotebookRun) -> NotebookResult:
        job = request.notebook.stem
        ours = request.parameters.get("bridge_subscription")
        hold = holds / (job if ours else f"{job}.foreign")
        await asyncio.to_thread(_wait_until_gone, hold)
        return NotebookResult(True, None, None, None)

    async with running_deployment(home, [WorkspaceSpec(NAME, port=port)], engine=InstantEngine(notebook)):
        await asyncio.Event().wait()


def _wait_until_gone(hold: Path) -> None:
    while hold.exists():
        time.sleep(LOOK_AGAIN_SECONDS)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
