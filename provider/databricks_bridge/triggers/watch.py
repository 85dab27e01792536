"""The watcher behind `schedule=subscription.asset`: Airflow's own event-driven scheduling, level-triggered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.triggers.diary import Diary
from databricks_bridge.triggers.last_poll import note_poll

if TYPE_CHECKING:
    from databricks_bridge.core.record import Record
    from databricks_bridge.feeds.look import Looker
    from databricks_bridge.feeds.seat import Seat
    from databricks_bridge.feeds.watch import Watch
    from databricks_bridge.ledgers.protocol import Ledger

LONGEST_PAUSE_SECONDS = 600.0
"""After errors in a row the pause between looks doubles up to this."""


class SubscriptionWatchTrigger(BaseEventTrigger):
    """Sends an event when the subscription has something to do: its payload is for reading, never for computing.

    `poll_interval`, `resend_after` and `expected_run_time` are seconds. All arguments are plain JSON and the same at every parse, for Airflow
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
        expected_run_time: float | None = None,
    ) -> None:
        super().__init__()
        self.subscription = subscription
        self.asset = asset
        self.ledger = ledger
        self.poll_interval = poll_interval
        self.resend_after = resend_after
        self.expected_run_time = expected_run_time
        self._seat: Seat | None = None
        self._looker: Looker | None = None
        self._watch: Watch | None = None
        self._said = ""
        self._partly = False
        name = subscription.get("name", asset) if isinstance(subscription, Mapping) else asset
        self._diary = Diary(str(name), self.serialize()[1], self.log.warning)
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
                "expected_run_time": self.expected_run_time,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        failures = 0
        while True:
            payload = None
            try:
                payload = await self._look()
                failures = 0
                note_poll(type(self).__name__, self._now())
                payload = self._answered(payload)
            except BridgeError as error:
                failures += 1
                payload = self._fail(error)
            except Exception as error:
                failures += 1
                self.log.exception("the look failed in a way new to us; looking again")
                payload = self._fail(error)
            await self._keep_note()
            if payload is not None:
                yield TriggerEvent(payload)
            pause = min(self.poll_interval * 2 ** min(failures, 10), LONGEST_PAUSE_SECONDS)
            await self._rest(pause)

    def _fail(self, error: Exception) -> dict[str, Any] | None:
        """Tell of it in the log and as a metric, and by an event where it lasts: the consumer meets the same error."""
        self._said = self._diary.failed(error, self._now())
        return self._due(self._said)

    def _answered(self, payload: dict[str, Any] | None) -> dict[str, Any] | None:
        """The poll was answered; by some sources only is trouble like any other, which what the others have does not hide."""
        watch, now = self._watch, self._now()
        error = watch.partly() if watch is not None else None
        if error is not None:
            self._partly = True
            what = self._diary.failed(error, now)
            return self._due(what) if payload is None else payload
        if watch is None or watch.out is not None or not self._partly:
            self._partly = False
            self._diary.well(now)
        return payload

    def _due(self, what: str) -> dict[str, Any] | None:
        if self._watch is None or not self._diary.event_is_due(self._now()):
            return None
        payload = self._watch.in_trouble(what)
        if payload is not None:
            self._diary.told(self._now())
        return payload

    async def _keep_note(self) -> None:
        """Keep what `databricks-bridge status` shows. Whatever fails here, the watcher goes on."""
        from databricks_bridge.core.watching import WATCH_KEY

        store = self.asset_state_store
        if store is None:
            return
        try:
            own = store[Asset.ref(name=self.asset)]
            if not self._diary.read:
                self._diary.started(await own.aget(WATCH_KEY), self._now())
            note = self._diary.due_note(self._watch.latest if self._watch else {}, self._now())
            if note is not None:
                await own.aset(WATCH_KEY, note)
        except Exception:
            self.log.debug("what status shows of this watcher cannot be kept", exc_info=True)

    async def _rest(self, seconds: float) -> None:
        """Until the next look: a feed that has news ends it."""
        await (self._sleep(seconds) if self._seat is None else self._seat.rest(seconds))

    async def cleanup(self) -> None:
        self._looker = self._watch = None
        if self._seat is not None:
            seat, self._seat = self._seat, None
            await seat.close()

    async def _look(self) -> dict[str, Any] | None:
        # Imported here: every DAG file imports this module, and only the triggerer looks.
        from databricks_bridge.assets.stuck import noting
        from databricks_bridge.core.subscription import spec_from_json
        from databricks_bridge.feeds.runs import ending_or_none, is_active
        from databricks_bridge.feeds.seat import FeedLooker, Seat
        from databricks_bridge.feeds.watch import Watch
        from databricks_bridge.hooks.databricks import open_workspace

        if self._watch is None:
            spec = spec_from_json(self.subscription)
            seat = Seat(open_workspace, self.poll_interval)
            looker = self._looker or FeedLooker(seat)
            resend_after = timedelta(seconds=self.resend_after)
            expected = None if self.expected_run_time is None else timedelta(seconds=self.expected_run_time)
            read = noting(self._reader(spec.name, looker), spec.name, expected)
            self._watch = Watch(
                spec,
                read,
                looker,
                resend_after,
                self._now,
                self._say,
                lambda claim: is_active(lambda conn_id: looker.workspace(conn_id), claim),
                lambda claim: ending_or_none(lambda conn_id: looker.workspace(conn_id), claim),
            )
            if self._looker is None:
                self._looker, self._seat = looker, seat
        return await self._watch.look()

    def _reader(self, name: str, looker: Looker) -> Callable[[], Awaitable[Record | None]]:
        from databricks_bridge.ledgers.address import AirflowAddress, open_ledger, parse_address

        address = parse_address(self.ledger)
        if isinstance(address, AirflowAddress):
            return self._read_asset_state

        def never() -> Ledger:
            raise AssertionError("the address is not Airflow's")

        return open_ledger(address, name, airflow=never, workspace=looker.workspace).read

    async def _read_asset_state(self) -> Record | None:
        from databricks_bridge.core.record import record_from_json
        from databricks_bridge.ledgers.airflow import KEY

        if self.asset_state_store is None:
            return None
        value: Any = await self.asset_state_store[Asset.ref(name=self.asset)].aget(KEY)
        return None if value is None else record_from_json(value)

    def _say(self, what: str) -> None:
        if what != self._said:
            self.log.info("%s", what)
            self._said = what
