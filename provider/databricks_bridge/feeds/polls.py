"""The polls of a subscription's sources, side by side: one that gives no answer holds the others up for a bounded time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from databricks_bridge.core.errors import BridgeError, Unavailable
from databricks_bridge.core.left_out import left_out
from databricks_bridge.core.sources import DeltaTable

log = logging.getLogger(__name__)

T = TypeVar("T")

_END_SECONDS = 5.0


def wakes_a_warehouse(table: DeltaTable) -> bool:
    """Whether a poll may have to wait for a SQL warehouse to start, which takes minutes: given up, it would never start.

    :param table: the source.
    """
    return table.warehouse is not None or table.reader_warehouse is not None


async def gathered(
    polls: Mapping[str, Coroutine[Any, Any, T]], patience: float | None, *, never_cut: Collection[str] = ()
) -> dict[str, T | BridgeError]:
    """What each poll came to, its error included. Any error that is not ours is raised, and the other polls are cancelled.

    :param polls: by alias.
    :param patience: seconds from the first good answer on after which those without one are given up; None for never.
    :param never_cut: aliases whose polls are waited for however long they take.
    """
    if len(polls) == 1:
        ((alias, only),) = polls.items()
        return {alias: await _result(only)}
    tasks = {asyncio.create_task(poll): alias for alias, poll in polls.items()}
    found: dict[str, T | BridgeError] = {}
    try:
        left, until = set(tasks), None
        while left:
            cut = until is not None and not any(tasks[task] in never_cut for task in left)
            seconds = max(0.0, (until or 0.0) - asyncio.get_running_loop().time()) if cut else None
            done, left = await asyncio.wait(left, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                found[tasks[task]] = _outcome(task)
                if until is None and patience is not None and not isinstance(found[tasks[task]], BridgeError):
                    until = asyncio.get_running_loop().time() + patience
            if not done:
                found |= {tasks[task]: Unavailable(f"no answer within {patience:g} s of the others") for task in left}
                break
    finally:
        given_up = [task for task in tasks if not task.done()]
        for task in given_up:
            task.cancel()
        if given_up:
            await asyncio.wait(given_up, timeout=_END_SECONDS)  # a statement may have to be taken back
    return {alias: found[alias] for alias in polls}


async def _result(poll: Coroutine[Any, Any, T]) -> T | BridgeError:
    try:
        return await poll
    except BridgeError as error:
        return error


def _outcome(task: asyncio.Task[T]) -> T | BridgeError:
    try:
        return task.result()
    except BridgeError as error:
        return error


def warn_of(
    subscription: str,
    findings: Mapping[str, object],
    known: frozenset[str],
    warn: Callable[..., object] = log.warning,
) -> frozenset[str]:
    """Warn of the sources that gave no answer, once for each time that one begins to; which they are now.

    :param subscription: whose sources they are.
    :param findings: what the poll came to.
    :param known: what this returned for the poll before.
    :param warn: takes a format and its arguments.
    """
    now = left_out(findings)
    for alias in sorted(now.keys() - known):
        warn("%s of subscription %r is %s; the other sources go on without it", alias, subscription, now[alias])
    for alias in sorted(known - now.keys()):
        log.info("%s of subscription %r answers again", alias, subscription)
    return frozenset(now)
