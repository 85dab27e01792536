"""What the asset watcher does at each look, without Airflow: whether there is something to send, and what to say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from databricks_bridge.core.closing import refuse_closed
from databricks_bridge.core.emission import (
    AtWork,
    Sent,
    after_asking,
    after_sending,
    is_at_work,
    may_send,
    revision_of,
    to_ask,
    waits_for_a_person,
)
from databricks_bridge.core.errors import BridgeError, NotFound, SourceError, Unavailable
from databricks_bridge.core.left_out import LeftOut, left_out, words_of
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.policy import Hold, Ready
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.repair import shown
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.core.waiting import REPAIRED, decide_wait, ready_at_once, to_look_at
from databricks_bridge.feeds.look import Looker
from databricks_bridge.feeds.polls import warn_of

LONGEST_QUESTION_SECONDS = 30.0


async def _cannot_ask(claim: Claim) -> bool:
    raise Unavailable(f"nobody can be asked about run {claim.run_id}")


async def _cannot_tell(claim: Claim) -> Ending | None:
    return None


@dataclass
class Watch:
    """One subscription under watch. `sent` is what is remembered of the last event, `at_work` of the run of an open claim.

    `record` is the last one read, `latest` the newest position of each source when they were last polled, in words. `out` are the sources that the last look
    left out, None where it polled none.
    `active` says whether the run of a claim is under way; it raises what a workspace raises. `ending` says how the run of a
    claim that waits for a person stands, None where that cannot be told.
    """

    spec: SubscriptionSpec
    read: Callable[[], Awaitable[Record | None]]
    looker: Looker
    resend_after: timedelta
    now: Callable[[], datetime]
    say: Callable[[str], None]
    active: Callable[[Claim], Awaitable[bool]] = _cannot_ask
    ending: Callable[[Claim], Awaitable[Ending | None]] = _cannot_tell
    sent: Sent | None = None
    left_out: frozenset[str] = frozenset()
    out: dict[str, LeftOut] | None = None
    at_work: AtWork | None = None
    record: Record | None = None
    latest: dict[str, str] = field(default_factory=dict)
    looked_at: datetime | None = None

    async def look(self) -> dict[str, Any] | None:
        """The payload of an event that is due now, or None. Raises what the ledger or a workspace raises."""
        self.out = None
        record = self.record = await self.read()
        refuse_closed(record)
        waits = to_look_at(record)
        if waits is not None:
            return await self._repaired(record, waits)
        if not may_send(record, self.sent, self.now(), self.resend_after):
            return None
        if await self._is_at_work(record):
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
        return self._event(record, reason, updated)

    async def _repaired(self, record: Record | None, claim: Claim) -> dict[str, Any] | None:
        """An event for a claim that waits for a person, once its run was repaired; else silence. Asked once in `resend_after`."""
        now = self.now()
        if self.looked_at is not None and now < self.looked_at + self.resend_after:
            return None
        self.looked_at = now
        ending = await self.ending(claim)
        again = self.sent is not None and self.sent.revision == revision_of(record)
        if ending not in REPAIRED or (again and self.sent is not None and now < self.sent.at + self.sent.pause):
            return None
        self.sent = after_sending(record, self.sent, now, self.resend_after)
        return self._event(record, ready_at_once(self.spec, record, ending), ())

    def _event(self, record: Record | None, reason: str | None, updated: tuple[str, ...]) -> dict[str, Any]:
        return {
            "schema": 1,
            "subscription": self.spec.name,
            "updated": list(updated),
            "reason": reason,
            "revision": revision_of(record),
        }

    def partly(self) -> BridgeError | None:
        """The error of a look that left sources out; None where it polled all, or none."""
        if not self.out:
            return None
        kind = Unavailable if all(isinstance(one.error, Unavailable) for one in self.out.values()) else BridgeError
        return kind("; ".join(words_of(self.out)))

    def in_trouble(self, what: str) -> dict[str, Any] | None:
        """The payload of an event about trouble; None where the consumer could do nothing: its claim waits for a person."""
        if waits_for_a_person(self.record):
            return None
        return {
            "schema": 1,
            "subscription": self.spec.name,
            "updated": [],
            "reason": f"the watcher cannot poll: {what}",
            "revision": revision_of(self.record),
        }

    async def _is_at_work(self, record: Record | None) -> bool:
        """A workspace that cannot be asked is no reason for silence: an event too many costs the consumer one look."""
        now = self.now()
        if record is not None and record.claim is not None and to_ask(record, self.at_work, now, self.resend_after):
            claim = record.claim
            try:
                async with asyncio.timeout(LONGEST_QUESTION_SECONDS):
                    active = await self.active(claim)
            except NotFound:
                active = False
            except (BridgeError, TimeoutError) as error:
                self.at_work = None
                self.say(f"whether run {claim.run_id} is under way cannot be asked: {error or type(error).__name__}")
                return False
            self.at_work = after_asking(claim, active, now)
        return is_at_work(record, self.at_work, now, self.resend_after)

    async def _decide(self, record: Record | None) -> Hold | Ready:
        marks = record.watermarks if record else {}
        claimed_at = record.last_claimed_at if record else None
        try:
            findings = await self.looker.look(self.spec, marks)
            self.out = left_out(findings)
            self.left_out = warn_of(self.spec.name, findings, self.left_out)
            self.latest = {
                alias: shown(one.position)
                for alias, one in findings.items()
                if not isinstance(one, LeftOut) and one.position is not None
            }
            return decide_wait(self.spec, marks, claimed_at, findings, self.now())
        except SourceError as error:
            # The consumer meets the same error, and a failed task is where an author looks.
            return Ready((), str(error))
