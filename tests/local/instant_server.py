"""A deployment in a process of its own, to be killed: `python instant_server.py HOME`. Its notebooks never end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from databricks_bridge.local.deployment import running_deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun


async def never_ends(request: NotebookRun) -> NotebookResult:
    await asyncio.Event().wait()
    raise AssertionError("waited for nothing, and it came")


async def main(home: Path) -> None:
    async with running_deployment(home, ["ops", "met"], engine=InstantEngine(never_ends)):
        await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1])))
