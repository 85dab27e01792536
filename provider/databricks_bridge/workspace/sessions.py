"""HTTP sessions whose event loop ended before whoever opened them could close them: closed without a word.

`dag.test()` and pytest run a trigger in a loop of its own and drop both. Nothing can be awaited there any more, and aiohttp
would log "Unclosed client session" for each, after a test run on a stream that is closed.
"""

from __future__ import annotations

import asyncio
import atexit
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp

_open: dict[asyncio.AbstractEventLoop, set[aiohttp.ClientSession]] = {}


def kept(session: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """The session, which is closed with its event loop at the latest: when the next one is opened, or at exit.

    :param session: one of the running event loop.
    """
    for loop in [loop for loop in _open if loop.is_closed()]:
        _close_all(_open.pop(loop))
    loop = asyncio.get_running_loop()
    _open[loop] = {one for one in _open.get(loop, ()) if not one.closed} | {session}
    return session


def _close_all(sessions: set[aiohttp.ClientSession]) -> None:
    for session in sessions:
        if (connector := session.connector) is not None and not connector.closed:
            close_now = getattr(connector, "_close_immediately", None) or getattr(connector, "_close", None)
            with suppress(Exception):  # its transports may be of a loop that is gone
                if close_now is not None:
                    close_now()


@atexit.register
def _at_exit() -> None:
    for loop in list(_open):
        _close_all(_open.pop(loop))
