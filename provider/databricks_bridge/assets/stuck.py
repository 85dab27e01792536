"""Claims that are open for longer than their run should take: a metric wherever a record is read, and in a worker the
author's callback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from databricks_bridge.core.closing import refuse_closed
from databricks_bridge.core.stuck import StuckClaim, claim_age, due_since, stuck_claim

if TYPE_CHECKING:
    from databricks_bridge.core.record import Record
    from databricks_bridge.ledgers.protocol import Entry, Ledger

log = logging.getLogger(__name__)

STUCK, AGE = "databricks_bridge.claim.stuck", "databricks_bridge.claim.age"
"""A counter, once for each claim and generation in each process, and a gauge in seconds, 0 without a claim."""

OnStuckClaim = Callable[[StuckClaim], None]
_told: set[tuple[str, bool]] = set()


def utc_now() -> datetime:
    return datetime.now(UTC)


def note_claim(
    subscription: str,
    record: Record | None,
    now: datetime,
    expected: timedelta | None,
    on_stuck: OnStuckClaim | None = None,
) -> None:
    """Show the age of the open claim as a metric, and tell of one that is stuck: once in this process, never raising."""
    from airflow.sdk.observability import stats

    tags = {"subscription": subscription}
    stats.gauge(AGE, claim_age(record, now).total_seconds(), tags=tags)
    stuck = stuck_claim(record, expected, now)
    key = (stuck.claim.token, on_stuck is not None) if stuck is not None else None
    if stuck is None or key is None or key in _told:
        return
    _told.add(key)
    log.warning("%s", stuck)
    stats.incr(STUCK, tags=tags)
    if on_stuck is not None:
        try:
            on_stuck(stuck)
        except Exception:
            log.exception("on_stuck_claim of subscription %r failed; the task goes on", subscription)


def noting(
    read: Callable[[], Awaitable[Record | None]],
    subscription: str,
    expected: timedelta | None,
    now: Callable[[], datetime] = utc_now,
) -> Callable[[], Awaitable[Record | None]]:
    """The same reading with `note_claim` after it, for the watcher, which cannot carry a callback."""

    async def noted() -> Record | None:
        record = await read()
        note_claim(subscription, record, now(), expected)
        return record

    return noted


class TaskLedger:
    """A running task's ledger: what it reads or writes is noted, and a record that is not in use any more is refused.

    While the task's event loop lives, a claim that becomes stuck meanwhile is told of when it does.
    """

    def __init__(
        self,
        ledger: Ledger,
        subscription: str,
        expected: timedelta | None = None,
        on_stuck: OnStuckClaim | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._ledger, self._subscription = ledger, subscription
        self._expected, self._on_stuck, self._now = expected, on_stuck, now
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"TaskLedger({self._ledger!r})"

    async def read(self) -> Record | None:
        """Raises ConsumerMismatch for a subscription that was moved, renamed or retired."""
        record = await self._ledger.read()
        self._note(record)
        refuse_closed(record)
        return record

    async def write(self, record: Record) -> None:
        await self._ledger.write(record)
        self._note(record)

    async def history(self, count: int) -> Sequence[Entry]:
        return await self._ledger.history(count)

    def _note(self, record: Record | None) -> None:
        now = self._now()
        note_claim(self._subscription, record, now, self._expected, self._on_stuck)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        since = due_since(record)
        if since is not None and self._expected is not None and (left := since + self._expected - now) > timedelta(0):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(left.total_seconds(), self._note, record)
