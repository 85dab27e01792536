"""The watcher behind `schedule=subscription.asset`: Airflow's own event-driven scheduling, level-triggered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from databricks_bridge.core.emission import Sent, after_sending, may_send, revision_of
from databricks_bridge.core.errors import BridgeError, SourceError
from databricks_bridge.core.policy import Ready
from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.core.subscription import SubscriptionSpec, spec_from_json
from databricks_bridge.core.waiting import decide_wait, ready_at_once
from databricks_bridge.ledgers.address import AirflowAddress, open_ledger, parse_address
from databricks_bridge.ledgers.airflow import KEY
from databricks_bridge.ledgers.memory import MemoryLedger

if TYPE_CHECKING:
    from databricks_bridge.feeds.look import Looker
    from databricks_bridge.ledgers.protocol import Ledger

LONGEST_PAUSE_SECONDS = 600.0
"""After errors in a row the pause between looks doubles up to this."""


class SubscriptionWatchTrigger(BaseEventTrigger):
    """Sends an event when the subscription has something to do: its payload is for reading, never for computing.

    `poll_interval` and `resend_after` are seconds. All arguments are plain JSON and the same at every parse, for Airflow
    tells watchers apart by them. It never returns and never raises: either would make Airflow start it anew every second.
    """

    def __init__(
        self,
        *,
        subscription: Mapping[str, Any],
        asset: str,
        ledger: str = "airflow",
        poll_interval: float = 30.0,
        resend_after: float = 60.0,
    ) -> None:
        super().__init__()
        self.subscription = subscription
        self.asset = asset
        self.ledger = ledger
        self.poll_interval = poll_interval
        self.resend_after = resend_after
        self._looker: Looker | None = None
        self._ledger: Ledger | None = None
        self._said = ""
        self._now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "databricks_bridge.triggers.watch.SubscriptionWatchTrigger",
            {
                "subscription": self.subscription,
                "asset": self.asset,
                "ledger": self.ledger,
                "poll_interval": self.poll_interval,
                "resend_after": self.resend_after,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        sent: Sent | None = None
        failures = 0
        while True:
            try:
                record, payload = await self._look(sent)
                failures = 0
            except BridgeError as error:
                failures += 1
                self._say(f"{type(error).__name__}: {error}")
                payload = None
            except Exception:
                failures += 1
                self.log.exception("the look failed in a way new to us; looking again")
                payload = None
            if payload is not None:
                sent = after_sending(record, sent, self._now(), self._resend_after)
                yield TriggerEvent(payload)
            await self._sleep(min(self.poll_interval * 2 ** min(failures, 10), LONGEST_PAUSE_SECONDS))

    async def cleanup(self) -> None:
        if self._looker is not None:
            looker, self._looker, self._ledger = self._looker, None, None
            await looker.__aexit__(None, None, None)

    @property
    def _resend_after(self) -> timedelta:
        return timedelta(seconds=self.resend_after)

    async def _look(self, sent: Sent | None) -> tuple[Record | None, dict[str, Any] | None]:
        spec = spec_from_json(self.subscription)
        record = await self._read(spec)
        if not may_send(record, sent, self._now(), self._resend_after):
            return record, None
        reason = ready_at_once(spec, record)
        updated: tuple[str, ...] = ()
        if reason is None:
            try:
                decision = await self._decide(spec, record)
            except SourceError as error:
                # The consumer meets the same error, and a failed task is where an author looks.
                decision = Ready((), str(error))
            if not isinstance(decision, Ready):
                self._say(decision.reason)
                return record, None
            reason, updated = decision.reason, decision.updated
        payload = {
            "schema": 1,
            "subscription": spec.name,
            "updated": list(updated),
            "reason": reason,
            "revision": revision_of(record),
        }
        return record, payload

    async def _decide(self, spec: SubscriptionSpec, record: Record | None) -> Any:
        marks = record.watermarks if record else {}
        findings = await self._open_looker().look(spec, marks)
        return decide_wait(spec, marks, record.last_claimed_at if record else None, findings, self._now())

    def _open_looker(self) -> Looker:
        from databricks_bridge.feeds.look import Looker
        from databricks_bridge.hooks.databricks import open_workspace

        if self._looker is None:
            self._looker = Looker(open_workspace)
        return self._looker

    async def _read(self, spec: SubscriptionSpec) -> Record | None:
        address = parse_address(self.ledger)
        if not isinstance(address, AirflowAddress):
            if self._ledger is None:
                self._ledger = open_ledger(
                    address, spec.name, airflow=MemoryLedger, workspace=self._open_looker().workspace
                )
            return await self._ledger.read()
        if self.asset_state_store is None:
            return None
        value: Any = await self.asset_state_store[Asset.ref(name=self.asset)].aget(KEY)
        return None if value is None else record_from_json(value)

    def _say(self, what: str) -> None:
        if what != self._said:
            self.log.info("%s", what)
            self._said = what
