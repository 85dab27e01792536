"""The deferred wait of `DatabricksSubscriptionSensor`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from databricks_bridge.core.policy import Ready
from databricks_bridge.core.positions import position_from_json
from databricks_bridge.core.record import Record
from databricks_bridge.core.subscription import SubscriptionSpec, spec_from_json
from databricks_bridge.core.waiting import decide_wait
from databricks_bridge.feeds.polls import warn_of
from databricks_bridge.feeds.seat import FeedLooker
from databricks_bridge.triggers.polling import PollingTrigger

READ_AGAIN_AFTER = timedelta(hours=1)
"""A watermark that a person moved meanwhile is seen at the latest then, where nothing new wakes the task before."""


class SubscriptionTrigger(PollingTrigger):
    """Looks at the sources of a subscription until its policy says ready.

    A deferred trigger cannot read the asset state store, so the watermarks travel in `watermarks`. At `read_again_at`, an
    ISO time with zone, the task is woken with the status "read again", to read the record anew. All arguments are plain
    JSON, and an older release's stored arguments must go on working.
    """

    def __init__(
        self,
        *,
        subscription: Mapping[str, Any],
        watermarks: Mapping[str, Any],
        last_claimed_at: str | None,
        poll_interval: float,
        deadline: str,
        read_again_at: str | None = None,
    ) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.subscription = subscription
        self.watermarks = watermarks
        self.last_claimed_at = last_claimed_at
        self.read_again_at = read_again_at
        self._looker: FeedLooker | None = None
        self._told = ""
        self._left_out: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, spec: SubscriptionSpec, record: Record | None, *, poll_interval: float, deadline: str, now: datetime
    ) -> SubscriptionTrigger:
        """The wait of this subscription from its record, as it is `now`, on."""
        marks = record.watermarks if record else {}
        claimed_at = record.last_claimed_at if record else None
        return cls(
            subscription=spec.to_json(),
            watermarks={alias: mark.to_json() for alias, mark in sorted(marks.items())},
            last_claimed_at=claimed_at.isoformat() if claimed_at else None,
            poll_interval=poll_interval,
            deadline=deadline,
            read_again_at=(now + READ_AGAIN_AFTER).isoformat(),
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "databricks_bridge.triggers.subscription.SubscriptionTrigger",
            {
                "subscription": self.subscription,
                "watermarks": self.watermarks,
                "last_claimed_at": self.last_claimed_at,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
                "read_again_at": self.read_again_at,
            },
        )

    async def _poll(self) -> dict[str, Any] | None:
        spec = spec_from_json(self.subscription)
        marks = {alias: position_from_json(value) for alias, value in self.watermarks.items()}
        claimed_at = datetime.fromisoformat(self.last_claimed_at) if self.last_claimed_at else None
        if self._looker is None:
            self._looker = FeedLooker(self._seat)
        findings = await self._looker.look(spec, marks)
        self._left_out = warn_of(spec.name, findings, self._left_out, self.log.warning)
        decision = decide_wait(spec, marks, claimed_at, findings, self._now())
        if isinstance(decision, Ready):
            return {"subscription": spec.name, "updated": list(decision.updated), "reason": decision.reason}
        if self.read_again_at and self._now() >= datetime.fromisoformat(self.read_again_at):
            return {"status": "read again"}
        if decision.reason != self._told:
            self.log.info("%s", decision.reason)
            self._told = decision.reason
        return None
