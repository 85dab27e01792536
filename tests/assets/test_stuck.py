"""A claim that is open for too long: metrics through Airflow's own statsd client, and the author's callback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from airflow.sdk.observability import stats

from databricks_bridge import DeltaTable, Subscription
from databricks_bridge.assets import stuck
from databricks_bridge.assets.ledgers import task_ledger
from databricks_bridge.assets.stuck import TaskLedger, note_claim, noting
from databricks_bridge.core.closing import retired
from databricks_bridge.core.errors import ConsumerMismatch, InvalidArgument
from databricks_bridge.core.positions import Range
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.stuck import StuckClaim
from databricks_bridge.ledgers.memory import MemoryLedger
from tests.core.builders import NOW, TARGET, at, seconds

HOUR = timedelta(hours=1)
CLAIM = Claim((Range("flights", "main.silver.flights", at(5), at(8)),), "t" * 64, 0, TARGET, (), NOW, run_id=11)
FIRST = Record("delays", TARGET.consumer, {"flights": at(5)}).after(NOW, "claimed", claim=CLAIM)
STUCK, AGE = "databricks_bridge.claim.stuck", "databricks_bridge.claim.age"


@dataclass
class Sent:
    """What was sent to a backend: `name`, value, tags."""

    lines: list[tuple[str, float, dict[str, str]]]

    def of(self, name: str) -> list[float]:
        return [value for sent, value, tags in self.lines if sent == name and tags == {"subscription": "delays"}]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    lines: list[tuple[str, float, dict[str, str]]] = []
    monkeypatch.setattr(stats, "incr", lambda name, *, tags: lines.append((name, 1, tags)))
    monkeypatch.setattr(stats, "gauge", lambda name, value, *, tags: lines.append((name, value, tags)))
    stuck._told.clear()
    yield Sent(lines)
    stuck._told.clear()


def test_a_stuck_claim_is_told_once_for_each_generation_and_its_age_each_time(sent: Sent) -> None:
    told: list[StuckClaim] = []
    second = replace(FIRST, claim=replace(CLAIM, token="u" * 64, generation=1))
    for record, at_ in ((FIRST, 60), (FIRST, 3600), (FIRST, 7200), (second, 7200), (second, 9000)):
        note_claim("delays", record, seconds(at_), HOUR, told.append)
    note_claim("delays", replace(FIRST, claim=None), seconds(9001), HOUR, told.append)
    assert sent.of(AGE) == [60, 3600, 7200, 7200, 9000, 0]
    assert sent.of(STUCK) == [1, 1]
    assert [(one.claim.generation, one.age) for one in told] == [(0, HOUR), (1, 2 * HOUR)]


def test_a_watcher_that_told_first_does_not_take_the_callback_away(sent: Sent) -> None:
    told: list[StuckClaim] = []
    note_claim("delays", FIRST, seconds(3600), HOUR)
    note_claim("delays", FIRST, seconds(3600), HOUR, told.append)
    assert (len(told), sent.of(STUCK)) == (1, [1, 1])


def test_a_callback_that_fails_fails_nothing_else(sent: Sent, caplog: pytest.LogCaptureFixture) -> None:
    def broken(claim: StuckClaim) -> None:
        raise RuntimeError("the pager is down")

    with caplog.at_level(logging.WARNING):
        note_claim("delays", FIRST, seconds(3600), HOUR, broken)
    assert sent.of(STUCK) == [1]
    assert "on_stuck_claim of subscription 'delays' failed; the task goes on" in caplog.text
    assert "the pager is down" in caplog.text


async def test_reading_with_a_note_reads_the_same(sent: Sent) -> None:
    ledger = MemoryLedger()
    await ledger.write(FIRST)
    assert await noting(ledger.read, "delays", HOUR, lambda: seconds(3600))() == FIRST
    assert (sent.of(AGE), sent.of(STUCK)) == ([3600], [1])


async def test_a_task_that_follows_the_run_is_told_when_the_time_comes(sent: Sent) -> None:
    told = asyncio.Event()
    ledger = TaskLedger(MemoryLedger(), "delays", timedelta(seconds=0.2), lambda claim: told.set())
    await ledger.write(replace(FIRST, claim=replace(CLAIM, created_at=datetime.now(UTC))))
    assert sent.of(STUCK) == []
    await asyncio.wait_for(told.wait(), 10)
    assert sent.of(STUCK) == [1]


async def test_a_claim_that_is_committed_in_time_is_never_told(sent: Sent) -> None:
    ledger = TaskLedger(MemoryLedger(), "delays", timedelta(seconds=0.1))
    record = replace(FIRST, claim=replace(CLAIM, created_at=datetime.now(UTC)))
    await ledger.write(record)
    await ledger.write(record.after(NOW, "committed", claim=None))
    await asyncio.sleep(0.2)
    assert sent.of(STUCK) == []
    assert len(await ledger.history(9)) == 2


async def test_a_subscription_that_is_not_in_use_is_refused_where_a_task_reads(sent: Sent) -> None:
    kept = MemoryLedger()
    await kept.write(retired(replace(FIRST, claim=None, revision=0), Reason("ada", "done"), NOW))
    with pytest.raises(ConsumerMismatch, match="is retired"):
        await TaskLedger(kept, "delays").read()


class NoLooker:
    workspace = None


async def test_every_task_of_a_subscription_reads_through_it(tmp_path: Any, sent: Sent) -> None:
    told: list[StuckClaim] = []
    subscription = Subscription(
        "delays",
        DeltaTable("main.silver.flights", "ops"),
        start="latest",
        ledger=tmp_path.as_uri(),
        expected_run_time=HOUR,
        on_stuck_claim=told.append,
    )
    looker: Any = NoLooker()
    ledger = task_ledger(subscription, cast("Any", {}), looker)
    await ledger.write(FIRST)
    assert await ledger.read() == FIRST
    assert [one.subscription for one in told] == ["delays"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"expected_run_time": timedelta(0)}, "expected_run_time is datetime.timedelta(0)"),
        ({"expected_run_time": 60}, "expected_run_time is 60"),
        ({"on_stuck_claim": print}, "expected_run_time= from which on"),
        ({"on_stuck_claim": "page me", "expected_run_time": HOUR}, "on_stuck_claim is 'page me'"),
    ],
)
def test_mistakes_are_refused_at_parse(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Subscription("delays", DeltaTable("main.silver.flights", "ops"), start="latest", **arguments)
    assert words in str(refused.value)


class Backend:
    """A metrics backend in shape."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, float, dict[str, str]]] = []

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: dict[str, str]) -> None:
        self.got.append(("incr", stat, count, tags))

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: dict[str, str]) -> None:
        self.got.append(("gauge", stat, value, tags))


def test_the_metrics_arrive_at_the_backend_that_airflow_is_set_up_with() -> None:
    from airflow.sdk._shared.observability.metrics import base_stats_logger

    backend: Any = Backend()
    stuck._told.clear()
    stats.initialize(factory=lambda: backend, export_legacy_names=True)
    try:
        note_claim("delays", FIRST, seconds(3600), HOUR)
    finally:
        stats.initialize(factory=base_stats_logger.NoStatsLogger, export_legacy_names=True)
        stuck._told.clear()
    tags = {"subscription": "delays"}
    assert backend.got == [("gauge", AGE, 3600, tags), ("incr", STUCK, 1, tags)]
