"""What all clients of one workspace share in a process: the HTTP session, the rates, and one pause after a 429."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from databricks_bridge.core.errors import Throttled
from databricks_bridge.workspace.limits import Limits
from databricks_bridge.workspace.names import HostResolver
from databricks_bridge.workspace.sessions import kept

CONNECTIONS = 20
"""Requests under way at a time, to the workspace and to each bucket. More would only be in the service's hands when it says
429."""

JITTER_SECONDS = 1.0
"""What waits for the end of a pause comes back within so long after it, or a tenth of the pause."""

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True)
class Pacing:
    """How one client tells time: monotonic seconds, sleep, and a random number from 0 to 1."""

    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


class Gate:
    """Shut after a 429 until the pause that it asked for is over; then one call goes first, and the others after it.

    Otherwise all that wait would come at once, be refused at once, and the service would never recover.
    """

    def __init__(self) -> None:
        self._until = float("-inf")
        self._refusals = 0
        self._trial: asyncio.Future[None] | None = None

    def is_open(self, now: float) -> bool:
        """Whether a call may be sent that is not the one on trial."""
        return not self._refusals and now >= self._until

    async def enter(self, pacing: Pacing, deadline: float, where: str) -> bool:
        """Waits until a call may be sent; True for the one that goes first, which must `leave`.

        Raises Throttled at once when the pause is longer than the caller has time.
        """
        while True:
            left = self._until - pacing.clock()
            if left > 0:
                if pacing.clock() + left > deadline:
                    raise Throttled(f"{where}: the workspace asked for a pause of {left:.0f} s more", retry_after=left)
                await pacing.sleep(left + pacing.random() * max(JITTER_SECONDS, left / 10))
            elif self._trial is not None:
                await asyncio.wait({self._trial})
            elif self._refusals:
                self._trial = asyncio.get_running_loop().create_future()
                return True
            else:
                return False

    def refused(self, now: float, retry_after: float | None) -> None:
        """A 429: shut for the pause that it names, or for one that doubles."""
        pause = min(_FIRST_PAUSE_SECONDS * 2**self._refusals, _LONGEST_PAUSE_SECONDS)
        self._refusals = min(self._refusals + 1, 10)
        self._until = max(self._until, now + (pause if retry_after is None else retry_after))

    def leave(self, *, answered: bool) -> None:
        """The call on trial is over. `answered` opens the gate: anything but another 429, or being given up."""
        if answered:
            self._refusals = 0
        if self._trial is not None:
            trial, self._trial = self._trial, None
            trial.set_result(None)


@dataclass
class Line:
    """The way to one workspace. Its parts belong to one event loop."""

    limits: Limits = field(default_factory=Limits)
    gate: Gate = field(default_factory=Gate)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONNECTIONS))
    stores: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    users: int = 0
    _session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The shared session, made at the first call."""
        if self._session is None:
            # no cookies: a session cookie would go before the token of the next try
            made = aiohttp.ClientSession(
                # `slots` and `stores` are the bounds: buckets that share a host name, or a hundred in all, must not
                connector=aiohttp.TCPConnector(limit=0, resolver=HostResolver()),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            self._session = kept(made)
        return self._session

    def slots_of(self, store: str) -> asyncio.Semaphore:
        """The bound of what is under way to one store by this workspace's session.

        :param store: its name, a bucket's.
        """
        return self.stores.setdefault(store, asyncio.Semaphore(CONNECTIONS))

    @asynccontextmanager
    async def turn(self, method: str, path: str, pacing: Pacing, deadline: float) -> AsyncIterator[None]:
        """Enters when this call may be sent; inside, one answer is fetched and read."""
        where = f"{method} {path}"
        while True:
            first = await self.gate.enter(pacing, deadline, where)
            answered = False
            try:
                async with self.limits.bucket(method, path), self.slots:
                    if not first and not self.gate.is_open(pacing.clock()):
                        continue  # shut while this call waited for its rate
                    try:
                        yield
                        answered = True
                    except Throttled as error:
                        self.gate.refused(pacing.clock(), error.retry_after)
                        raise
                    except Exception:
                        answered = True
                        raise
                    return
            finally:
                if first:
                    self.gate.leave(answered=answered)


_lines: dict[asyncio.AbstractEventLoop, dict[str, Line]] = {}


def take_line(host: str) -> Line:
    """The line to this host in the running event loop; give it back with `leave_line`."""
    for loop in [loop for loop in _lines if loop.is_closed()]:
        del _lines[loop]
    line = _lines.setdefault(asyncio.get_running_loop(), {}).setdefault(host, Line())
    line.users += 1
    return line


async def leave_line(host: str, line: Line) -> None:
    """The last who leaves closes the session."""
    line.users -= 1
    if line.users > 0:
        return
    for loop, lines in list(_lines.items()):
        if lines.get(host) is line:
            del lines[host]
        if not lines:
            del _lines[loop]
    if line._session is not None:
        await line._session.close()
