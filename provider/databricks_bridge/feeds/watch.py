"""What the asset watcher does at each look, without Airflow: whether there is something to send, and what to say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from databricks_bridge.core.closing import refuse_closed
from databricks_bridge.core.emission import Sent, after_sending, may_send, revision_of
from databricks_bridge.core.errors import SourceError
from databricks_bridge.core.policy import Hold, Ready
from databricks_bridge.core.record import Record
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.core.waiting import decide_wait, ready_at_once
from databricks_bridge.feeds.look import Looker


@dataclass
class Watch:
    """One subscription under watch. `sent` is what is remembered of the last event, and nothing else is."""

    spec: SubscriptionSpec
    read: Callable[[], Awaitable[Record | None]]
    looker: Looker
    resend_after: timedelta
    now: Callable[[], datetime]
    say: Callable[[str], None]
    sent: Sent | None = None

    async def look(self) -> dict[str, Any] | None:
        """The payload of an event that is due now, or None. Raises what the ledger or a workspace raises."""
        record = await self.read()
        refuse_closed(record)
        if not may_send(record, self.sent, self.now(), self.resend_after):
            return None
        reason = ready_at_once(self.spec, record)
        updated: tuple[str, ...] = ()
        if reason is None:
            decision = await self._decide(record)
            if isinstance(decision, Hold):
                self.say(decision.reason)
                return None
            reason, updated = decision.reason, decision.updated
        self.sent = after_sending(record, self.sent, self.now(), self.resend_after)
        return {
            "schema": 1,
            "subscription": self.spec.name,
            "updated": list(updated),
            "reason": reason,
            "revision": revision_of(record),
        }

    async def _decide(self, record: Record | None) -> Hold | Ready:
        marks = record.watermarks if record else {}
        claimed_at = record.last_claimed_at if record else None
        try:
            findings = await self.looker.look(self.spec, marks)
            return decide_wait(self.spec, marks, claimed_at, findings, self.now())
        except SourceError as error:
            # The consumer meets the same error, and a failed task is where an author looks.
            return Ready((), str(error))
