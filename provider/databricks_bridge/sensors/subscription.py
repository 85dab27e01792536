"""A sensor that is done when a subscription's policy says ready."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from databricks_bridge.assets.inlets import with_inlet
from databricks_bridge.sensors.waiting import DEFAULT_DEFERRABLE, DEFAULT_TIMEOUT, POKE_SECONDS, Answer, WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.core.record import Record
    from databricks_bridge.triggers.subscription import SubscriptionTrigger


class DatabricksSubscriptionSensor(WaitingSensor):
    """Waits until `subscription` has something pending and its timers let it go; or until a claim is to be resolved.

    It decides *when*; the operator after it decides *what*. It writes nothing, so it may run as often as it likes.
    Poke, reschedule and `deferrable=True` behave alike. Returns `{"subscription", "updated", "reason"}`.
    A claim that waits for a person is looked at first: its run may have been repaired. Where the sensor cannot see the run, it
    lets the operator look. Raises NotFound, NotPermitted, NotAuthenticated, SourceError, ClaimBlocked, ClaimUndecided.
    """

    ui_color = "#d7ebe6"
    template_fields: Sequence[str] = ()
    _record: Record | None = None

    def __init__(
        self,
        *,
        subscription: Subscription,
        deferrable: bool = DEFAULT_DEFERRABLE,
        poke_interval: timedelta | float = POKE_SECONDS,
        timeout: timedelta | float | None = DEFAULT_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **with_inlet(kwargs, subscription))
        self.deferrable = deferrable
        self.subscription = subscription

    async def _look_once(self, context: Context) -> Answer | None:
        from databricks_bridge.assets.ledgers import task_ledger
        from databricks_bridge.core.left_out import words_of
        from databricks_bridge.core.outcomes import Ending
        from databricks_bridge.core.policy import Ready
        from databricks_bridge.core.waiting import decide_wait, ready_at_once, to_look_at
        from databricks_bridge.feeds.look import Looker
        from databricks_bridge.feeds.runs import ending_or_none
        from databricks_bridge.hooks.databricks import open_workspace

        spec = self.subscription.spec
        async with Looker(partial(open_workspace, budget_seconds=self._budget)) as looker:
            record = await task_ledger(self.subscription, context, looker).read()
            self._record = record
            waits = to_look_at(record)
            ending = Ending.FAILED if waits is None else await ending_or_none(looker.workspace, waits)
            reason = ready_at_once(spec, record, ending)
            updated: tuple[str, ...] = ()
            if reason is None:
                marks = record.watermarks if record else {}
                findings = await looker.look(spec, marks)
                for words in words_of(findings):
                    self.log.warning("%s; the other sources go on without it", words)
                claimed_at = record.last_claimed_at if record else None
                decision = decide_wait(spec, marks, claimed_at, findings, datetime.now(UTC))
                self.log.info("%s", decision.reason)
                if not isinstance(decision, Ready):
                    return None
                reason, updated = decision.reason, decision.updated
        return {"subscription": spec.name, "updated": list(updated), "reason": reason}

    def _trigger(self, context: Context, poll_interval: float, deadline: str) -> SubscriptionTrigger:
        from databricks_bridge.triggers.subscription import SubscriptionTrigger

        # The record that the look has just read: a deferred trigger has no access to it.
        spec = self.subscription.spec
        now = datetime.now(UTC)
        return SubscriptionTrigger.of(spec, self._record, poll_interval=poll_interval, deadline=deadline, now=now)

    def _answer(self, event: dict[str, Any]) -> Answer:
        return {name: event[name] for name in ("subscription", "updated", "reason")}

    @property
    def _awaited(self) -> str:
        return f"something pending in {self.subscription.name!r}"
