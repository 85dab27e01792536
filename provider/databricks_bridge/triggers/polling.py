"""The loop that all deferred waits share: it outlives bad answers, and it ends at an absolute deadline."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from math import isnan
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from databricks_bridge.core import errors
from databricks_bridge.core.errors import BridgeError, NotFound, Unavailable, WorkspaceError
from databricks_bridge.core.texts import bounded
from databricks_bridge.feeds.seat import Seat
from databricks_bridge.hooks.databricks import open_workspace
from databricks_bridge.triggers.last_poll import note_poll

SHORTEST_INTERVAL = 1.0
USUAL_INTERVAL = 30.0
"""Seconds between polls: never less than the one, the other where the stored argument is none."""

REFUSALS_BORNE = 5
"""So many refusals in a row are taken for a token being changed, or a gateway that is; after that the wait ends with the
error."""

LONGEST_MESSAGE = 4000
"""Bytes of an error in an event: it is kept in Airflow's database, and others wrote a part of it."""

LAST_LOOK_SECONDS = 30.0
"""A look may take until the deadline, and the last one at least so long."""


class PollingTrigger(BaseTrigger):
    """Calls `_poll` until it gives a payload, an error that waiting cannot mend, or the deadline.

    `poll_interval` is in seconds, `deadline` an ISO time with zone. The constructor only keeps what it is given.
    Event payloads have `deadline` and `status`: "ready" with what `_poll` gave, which may have another status of its own,
    "error" with `error` and `message`, or "deadline".
    """

    def __init__(self, *, poll_interval: float, deadline: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poll_interval = poll_interval
        self.deadline = deadline
        self._now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._taken: Seat | None = None

    @abstractmethod
    async def _poll(self) -> dict[str, Any] | None:
        """One look: the payload when the wait is over, else None."""

    @property
    def _seat(self) -> Seat:
        """Our place at the feeds that all triggers of this process share."""
        if self._taken is None:
            self._taken = Seat(open_workspace, self._interval())
        return self._taken

    async def cleanup(self) -> None:
        """Leave the feeds."""
        if self._taken is not None:
            seat, self._taken = self._taken, None
            await seat.close()

    async def _rest(self, seconds: float) -> None:
        """Until the next look: the feeds end it where they have news."""
        await (self._sleep(seconds) if self._taken is None else self._taken.rest(seconds))

    async def run(self) -> AsyncIterator[TriggerEvent]:
        refusals = 0
        while True:
            payload = None
            try:
                async with asyncio.timeout(max(self._seconds_left(), LAST_LOOK_SECONDS)):
                    payload = await self._poll()
                refusals = 0
                note_poll(type(self).__name__, self._now())
            except Unavailable as error:
                self.log.warning("%s; looking again", error)
            except TimeoutError:
                self.log.warning("the look was not done at the deadline")
            except NotFound as error:
                payload = _error(error)
            except WorkspaceError as error:
                refusals += 1
                self.log.warning("%s; refusal %s of %s", error, refusals, REFUSALS_BORNE)
                payload = _error(error) if refusals >= REFUSALS_BORNE else None
            except BridgeError as error:
                payload = _error(error)
            except Exception:
                self.log.exception("the look failed in a way new to us; looking again")
            if payload is not None:
                yield TriggerEvent({"status": "ready", "deadline": self.deadline, **payload})
                return
            left = self._seconds_left()
            if left <= 0:
                yield TriggerEvent({"status": "deadline", "deadline": self.deadline})
                return
            await self._rest(min(self._interval(), left))

    def _seconds_left(self) -> float:
        try:
            return (datetime.fromisoformat(self.deadline) - self._now()).total_seconds()
        except (TypeError, ValueError):
            self.log.warning("the deadline %r is no time with a zone; waiting ends here", self.deadline)
            return 0.0

    def _interval(self) -> float:
        """Seconds between two polls: what was asked for, at least the shortest; the usual where that is no number."""
        asked = self.poll_interval
        if not isinstance(asked, int | float) or isnan(asked):
            return USUAL_INTERVAL
        return max(SHORTEST_INTERVAL, float(asked))


def _error(error: BridgeError) -> dict[str, Any]:
    return {"status": "error", "error": type(error).__name__, "message": bounded(error, LONGEST_MESSAGE)}


def raise_for(event: dict[str, Any]) -> None:
    """Raise the error that an event carries, of its own type; return for any other event."""
    if event.get("status") != "error":
        return
    kind = getattr(errors, str(event.get("error")), BridgeError)
    raise _rebuilt(kind, str(event["message"]))


def _rebuilt(kind: type[BridgeError], message: str) -> BridgeError:
    try:
        return kind(message)
    except TypeError:
        return BridgeError(message)
