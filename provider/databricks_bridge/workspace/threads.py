"""Blocking calls, each in threads of what it asks: a host name, a store, a token service.

`asyncio.to_thread` and `loop.getaddrinfo` share one executor of a few threads (six on two cores) among all that is on the
event loop, Airflow's own work too. A few calls that are not answered would hold up everything else there.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class _Owner:
    executor: ThreadPoolExecutor
    calls: int = 0


_owners: dict[str, _Owner] = {}
_turn = threading.Lock()


async def in_thread_of(owner: str, work: Callable[[], T], *, seconds: float, at_once: int = 4) -> T:
    """What `work` returns, called in a thread of this owner. Raises what it raises, and TimeoutError.

    A wait that is cancelled, or over, leaves its thread to end by itself: `work` needs a time-out of its own, and until then
    the thread counts. What waits behind it is not begun when nobody waits for it any more, so threads never pile up.

    :param owner: who is asked; each has its own threads.
    :param work: the blocking call.
    :param seconds: the longest wait, in the queue of this owner too.
    :param at_once: threads of this owner at most.
    """
    with _turn:
        if owner not in _owners:
            executor = ThreadPoolExecutor(at_once, thread_name_prefix=f"databricks-bridge {owner}")
            _owners[owner] = _Owner(executor)
        _owners[owner].calls += 1
        call = _owners[owner].executor.submit(contextvars.copy_context().run, work)
    call.add_done_callback(partial(_ended, owner))
    async with asyncio.timeout(seconds):
        return await asyncio.wrap_future(call)


def _ended(owner: str, _: Future[Any]) -> None:
    """The last call takes the idle threads with it: there may be as many owners as tables."""
    with _turn:
        _owners[owner].calls -= 1
        if not _owners[owner].calls:
            _owners.pop(owner).executor.shutdown(wait=False)
