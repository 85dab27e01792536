"""Who sits at the feeds, and the background work that a feed does for them."""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from dataclasses import dataclass
from typing import Any

from databricks_bridge.core.errors import BridgeError


@dataclass(frozen=True)
class Timing:
    """How a feed tells time: monotonic seconds, sleep in seconds, and a random number from 0 to 1."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Bell:
    """Rung by a feed when something has changed that its owner waits for. `interval` is how often it wants a look, in
    seconds.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def rest(self, seconds: float) -> None:
        """Until it rings, at most so long. What rang before counts, so that nothing falls between look and rest."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()


def in_background(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """A task of nobody's context: Airflow routes log lines by context, and this work is for all who wait."""
    return asyncio.create_task(work, name=name, context=contextvars.Context())


def again(error: BridgeError) -> BridgeError:
    """The same error for one more who waits: a traceback that grew with each raise would never end."""
    return copy(error).with_traceback(None)
