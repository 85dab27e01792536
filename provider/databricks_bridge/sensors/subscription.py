"""A sensor that is done when a subscription's policy says ready."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSensorTimeout

from databricks_bridge.assets.inlets import with_inlet

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.core.record import Record


class DatabricksSubscriptionSensor(BaseSensorOperator):
    """Waits until `subscription` has something pending and its timers let it go; or until a claim is to be resolved.

    It decides *when*; the operator after it decides *what*. It writes nothing, so it may run as often as it likes.
    Poke, reschedule and `deferrable=True` behave alike. Returns `{"subscription", "updated", "reason"}`.
    Raises NotFound, NotPermitted, NotAuthenticated, SourceError, ClaimBlocked, ClaimUndecided.
    """

    ui_color = "#d7ebe6"
    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        subscription: Subscription,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poke_interval: timedelta | float = 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **with_inlet(kwargs, subscription.asset))
        self.subscription = subscription
        self.deferrable = deferrable

    def poke(self, context: Context) -> PokeReturnValue:
        _, done = asyncio.run(self._look_once(context))
        return PokeReturnValue(is_done=done is not None, xcom_value=done)

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        record, done = asyncio.run(self._look_once(context))
        if done is not None:
            return done
        from databricks_bridge.triggers.subscription import SubscriptionTrigger

        timeout = timedelta(seconds=self.timeout)
        self.defer(
            trigger=SubscriptionTrigger.of(
                self.subscription.spec,
                record,
                poll_interval=float(self.poke_interval),
                deadline=(datetime.now(UTC) + timeout).isoformat(),
            ),
            method_name="execute_complete",
            timeout=timeout + timedelta(minutes=1),
        )
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Take the trigger's event. Raises the error that it carries, or AirflowSensorTimeout at the deadline."""
        from databricks_bridge.triggers.polling import raise_for

        raise_for(event)
        if event["status"] == "deadline":
            raise AirflowSensorTimeout(f"nothing pending in {self.subscription.name!r} until {event['deadline']}")
        self.log.info("%s is ready: %s", event["subscription"], event["reason"])
        return {name: event[name] for name in ("subscription", "updated", "reason")}

    async def _look_once(self, context: Context) -> tuple[Record | None, dict[str, Any] | None]:
        from databricks_bridge.assets.ledgers import task_ledger
        from databricks_bridge.core.policy import Ready
        from databricks_bridge.core.waiting import decide_wait, ready_at_once
        from databricks_bridge.feeds.look import Looker
        from databricks_bridge.hooks.databricks import open_workspace

        spec = self.subscription.spec
        async with Looker(open_workspace) as looker:
            record = await task_ledger(self.subscription, context, looker).read()
            reason = ready_at_once(spec, record)
            updated: tuple[str, ...] = ()
            if reason is None:
                marks = record.watermarks if record else {}
                findings = await looker.look(spec, marks)
                claimed_at = record.last_claimed_at if record else None
                decision = decide_wait(spec, marks, claimed_at, findings, datetime.now(UTC))
                self.log.info("%s", decision.reason)
                if not isinstance(decision, Ready):
                    return record, None
                reason, updated = decision.reason, decision.updated
        return record, {"subscription": spec.name, "updated": list(updated), "reason": reason}
