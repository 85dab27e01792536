"""The asset watcher's loop: what it sends, that it survives whatever happens, and how it is stored."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest
from airflow.triggers.base import BaseEventTrigger

from databricks_bridge.core.errors import NotFound, Unavailable
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.record import Record
from databricks_bridge.feeds.watch import Watch
from databricks_bridge.ledgers.airflow import KEY
from databricks_bridge.triggers.watch import SubscriptionWatchTrigger
from tests.core.builders import FLIGHTS, NOW, at, seconds, spec_of
from tests.core.driving import running_record

SPEC = spec_of(FLIGHTS)
NEW = TableFinding(at(5), 5, NOW)


class Looks:
    """A looker that answers from a script; an exception is raised."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)

    async def look(self, spec: Any, watermarks: Any) -> dict[str, Any]:
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, dict) else {"flights": answer}

    async def __aexit__(self, *_: object) -> None:
        self.script.clear()


class Store:
    """The asset state store of one asset, as the triggerer injects it."""

    def __init__(self, record: Record | None = None) -> None:
        self.record = record

    def __getitem__(self, asset: Any) -> Store:
        assert asset.name == "databricks_bridge.delays"
        return self

    async def aget(self, key: str) -> Any:
        assert key == KEY
        return self.record.to_json() if self.record else None


def watcher(looks: Looks, record: Record | None = None) -> tuple[SubscriptionWatchTrigger, list[float], Store]:
    """A watcher whose clock is moved by its own sleeps."""
    trigger = SubscriptionWatchTrigger(subscription=SPEC.to_json(), asset="databricks_bridge.delays")
    slept: list[float] = []

    async def sleep(duration: float) -> None:
        slept.append(duration)
        await asyncio.sleep(0)

    def now() -> datetime:
        return seconds(sum(slept))

    store = Store(record)
    trigger._now, trigger._sleep, trigger._looker = now, sleep, looks  # type: ignore[assignment]
    trigger.asset_state_store = store  # type: ignore[assignment]
    return trigger, slept, store


async def events(trigger: SubscriptionWatchTrigger, count: int) -> list[dict[str, Any]]:
    sent = []
    async for event in trigger.run():
        sent.append(event.payload)
        if len(sent) == count:
            break
    return sent


def test_it_is_stored_as_plain_json_and_the_same_at_every_parse() -> None:
    first, second = (SubscriptionWatchTrigger(subscription=SPEC.to_json(), asset="a").serialize() for _ in range(2))
    assert json.loads(json.dumps(first[1])) == first[1]
    assert BaseEventTrigger.hash(*first) == BaseEventTrigger.hash(*second)
    assert SubscriptionWatchTrigger(**first[1]).serialize() == first


async def test_it_sends_when_something_is_pending_and_again_with_doubling_pauses() -> None:
    trigger, slept, _ = watcher(Looks(NEW))
    sent = await events(trigger, 3)
    assert [one["updated"] for one in sent] == [["flights"]] * 3
    assert sent[0]["reason"] == "ops_share.silver.flights (-1, 5]"
    assert sum(slept) == pytest.approx(180, abs=30)


async def test_it_is_silent_while_nothing_is_new() -> None:
    empty = TableFinding(None, None, None)
    trigger, slept, _ = watcher(Looks(*[empty] * 20, NEW))
    await events(trigger, 1)
    assert len(slept) == 20


async def test_errors_are_waited_out_with_growing_pauses_and_never_raised() -> None:
    trigger, slept, _ = watcher(Looks(Unavailable("503"), RuntimeError("new to us"), NotFound("no table"), NEW))
    assert (await events(trigger, 1))[0]["updated"] == ["flights"]
    assert slept == [60, 120, 240]


async def test_a_source_that_needs_a_decision_wakes_the_consumer_who_will_fail_with_it() -> None:
    other = TableFinding(at(9, "t2"), 9, NOW)
    trigger, _, _ = watcher(Looks(other), Record("delays", "c", {"flights": at(3)}, revision=1))
    (sent,) = await events(trigger, 1)
    assert "is another table now" in sent["reason"]


async def test_garbage_in_the_ledger_or_in_its_arguments_is_waited_out() -> None:
    for arguments in ({"subscription": None}, {"subscription": {}}, {"subscription": SPEC.to_json(), "ledger": "x"}):
        trigger = SubscriptionWatchTrigger(**({"asset": "a"} | arguments))  # type: ignore[arg-type]
        slept: list[float] = []

        async def sleep(duration: float, slept: list[float] = slept) -> None:
            slept.append(duration)
            if len(slept) == 3:
                raise asyncio.CancelledError

        trigger._sleep = sleep
        with pytest.raises(asyncio.CancelledError):
            await events(trigger, 1)
        assert slept == [60, 120, 240]


async def test_after_a_restart_it_sends_once_more() -> None:
    async def read() -> Record | None:
        return None

    for _ in range(2):
        watch = Watch(SPEC, read, Looks(NEW), seconds(60) - seconds(0), lambda: NOW, lambda _: None)  # type: ignore[arg-type]
        assert await watch.look() is not None
        assert await watch.look() is None


async def test_a_record_that_is_not_in_use_any_more_sends_nothing_and_says_why() -> None:
    retired = Record("delays", "retired (was http://w job 7)", {"flights": at(3)})
    trigger, slept, _ = watcher(Looks(NEW), retired)

    async def twice(pause: float) -> None:
        slept.append(pause)
        if len(slept) == 2:
            raise asyncio.CancelledError

    trigger._sleep = twice
    with pytest.raises(asyncio.CancelledError):
        await anext(trigger.run())
    assert trigger._said.startswith("ConsumerMismatch: subscription 'delays' is retired")


async def test_a_claim_that_is_stuck_is_told_of_by_the_watcher_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability import stats

    counted: list[str] = []
    monkeypatch.setattr(stats, "incr", lambda name, **_: counted.append(name))
    trigger, _, _ = watcher(Looks(NEW), running_record())
    trigger.expected_run_time = 1.0
    assert (await anext(trigger.run())).payload["subscription"] == "delays"
    assert counted == ["databricks_bridge.claim.stuck"]
