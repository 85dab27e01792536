"""What all who wait on one event loop share: a client for each workspace, the feed of versions, the feeds of runs."""

from __future__ import annotations

import asyncio

from databricks_bridge.feeds.leases import Leases
from databricks_bridge.feeds.run_feed import RunFeed
from databricks_bridge.feeds.tables import TableFeed
from databricks_bridge.workspace.client import Workspace


class Hub:
    """The feeds of one event loop. Each client is closed with the last who uses it."""

    def __init__(self) -> None:
        self.workspaces: Leases[str, Workspace] = Leases(Workspace.close)
        self.runs: Leases[str, RunFeed] = Leases(_nothing)
        self.tables = TableFeed()

    @property
    def idle(self) -> bool:
        """Whether nobody uses anything of it."""
        return not self.workspaces and not self.runs and not self.tables


async def _nothing(_: RunFeed) -> None:
    return None


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def hub_of_this_loop() -> Hub:
    """The hub of the running event loop: a triggerer has one, and every test its own."""
    for loop in [loop for loop in _hubs if loop.is_closed()]:
        del _hubs[loop]
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
