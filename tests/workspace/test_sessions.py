"""A process whose event loops ended with sessions open says nothing of it (T61)."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

WAIT = """
import asyncio, gc, logging, sys
from aiohttp import web
from databricks_bridge.feeds.seat import Seat
from databricks_bridge.workspace.client import Workspace

logging.basicConfig(stream=sys.stderr)

async def nothing(request):
    return web.json_response({})

async def credentials():
    return {}

async def wait():
    app = web.Application()
    app.router.add_get("/x", nothing)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host = "http://127.0.0.1:%d" % site._server.sockets[0].getsockname()[1]

    async def opened(name):
        return Workspace(host, credentials)

    seat = Seat(opened, 30)  # as dag.test() leaves a trigger: never cleaned up
    assert await (await seat.workspace("ops")).get("/x") == {}
    await runner.cleanup()

for _ in range(LOOPS):
    asyncio.run(wait())
    gc.collect()
"""


@pytest.mark.parametrize("loops", [1, 3])
def test_loops_that_end_with_open_sessions_make_no_noise(loops: int) -> None:
    program = textwrap.dedent(WAIT).replace("LOOPS", str(loops))
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Unclosed" not in done.stderr
    assert "Logging error" not in done.stderr


def test_a_client_that_was_closed_opens_no_session_again() -> None:
    import asyncio

    from databricks_bridge.core.errors import Unavailable
    from databricks_bridge.workspace.client import Workspace

    async def late() -> None:
        client = Workspace("http://127.0.0.1:9", _nothing, budget_seconds=0)
        await client.close()
        with pytest.raises(Unavailable, match="was closed"):
            client.session()

    asyncio.run(late())


async def _nothing() -> dict[str, str]:
    return {}
