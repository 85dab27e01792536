"""What is pending in a table: how far one poll reads it, when it changed, and until when it can be read."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.pending import TableFinding, changes_of, ranges_of
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.subscription import SubscriptionSpec, spec_from_json
from databricks_bridge.delta.model import CommitSummary, LatestVersion, Readable
from databricks_bridge.feeds.look import Looker

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
TABLE = DeltaTable("main.silver.orders", "ops")
WEEK = timedelta(days=7)


class Log:
    """A table at version 30,000, whose data from version 11 on was committed `age` ago; `asked` are the gaps asked for."""

    def __init__(self, age: timedelta = timedelta(0)) -> None:
        self.since = NOW - age
        self.asked: list[tuple[int, int, bool]] = []

    async def latest(self, known: int | None = None) -> LatestVersion:
        return LatestVersion(
            version=30_000,
            metadata_id="m",
            committed_at=NOW,
            data_version=29_990,
            data_committed_at=NOW - timedelta(hours=3),
        )

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        for version in range(from_exclusive + 1, to_inclusive + 1):
            yield CommitSummary(version=version, operation="WRITE", carries_data=True)

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        self.asked.append((from_exclusive, to_inclusive, stream))
        return None

    async def readable_until(self, from_exclusive: int) -> Readable | None:
        return Readable(version=from_exclusive + 1, since=self.since, until=self.since + WEEK)


async def no_workspace(conn_id: str) -> Any:
    raise AssertionError(conn_id)


async def poll(
    log: Log, *, table: DeltaTable = TABLE, most: int | None = None
) -> tuple[SubscriptionSpec, TableFinding]:
    spec = SubscriptionSpec("gold", (table,), "earliest", Policy(), max_commits_per_run=most)
    looker = Looker(no_workspace, now=lambda: NOW)
    looker.keep(table, log)
    marks = {"orders": TablePosition(10, metadata_id="m")}
    found = (await looker.look(spec, marks, thorough=True))["orders"]
    assert isinstance(found, TableFinding)
    return spec, found


@pytest.mark.parametrize(("most", "to"), [(100, 110), (1, 11), (None, 30_000), (10**6, 30_000)])
async def test_T16_no_more_is_read_through_than_the_next_range(most: int | None, to: int) -> None:
    log = Log()
    await poll(log, most=most)
    assert log.asked == [(10, to, False)]


async def test_T05_a_table_changed_when_its_data_was_committed() -> None:
    _, found = await poll(Log())
    assert found.changed_at == NOW - timedelta(hours=3)


@pytest.mark.parametrize(("days", "said"), [(5.5, False), (5.7, True), (6.9, True)])
async def test_T63_what_can_soon_not_be_read_is_said_before(
    days: float, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    spec, found = await poll(Log(timedelta(days=days)))
    assert bool(caplog.messages) is said
    marks = {"orders": TablePosition(10, metadata_id="m")}
    findings = {"orders": found}
    [called] = changes_of(ranges_of(spec, marks, findings), findings, NOW)
    if said:
        assert "main.silver.orders: version 11 can be read by a batch until 2026-1" in caplog.messages[0]
        assert called.startswith("orders (version 11 can be read by a batch until 2026-1")
    else:
        assert called == "orders"


async def test_a_stream_is_not_stopped_by_it(caplog: pytest.LogCaptureFixture) -> None:
    log, stream = Log(timedelta(days=6.9)), replace(TABLE, reads="stream")
    _, found = await poll(log, table=stream)
    assert log.asked == [(10, 30_000, True)]
    assert found.ageing is None
    assert caplog.messages == []


def test_how_it_is_read_is_kept_with_the_subscription() -> None:
    spec = SubscriptionSpec("gold", (replace(TABLE, reads="stream"),), "earliest", Policy())
    assert spec_from_json(spec.to_json()) == spec
    assert "reads" not in str(SubscriptionSpec("gold", (TABLE,), "earliest", Policy()).to_json())
    with pytest.raises(InvalidArgument, match=r"reads of main\.silver\.orders is 'both'; give 'batch' or 'stream'"):
        replace(TABLE, reads="both")  # type: ignore[arg-type]


async def test_T63_what_could_be_read_is_asked_again_after_a_while() -> None:
    """A task that waits for days with one process: what is pending ages meanwhile, though nothing is new."""
    now, log = NOW, Log()
    looker = Looker(no_workspace, now=lambda: now)
    looker.keep(TABLE, log)
    spec = SubscriptionSpec("gold", (TABLE,), "earliest", Policy())
    for minutes, asked in ((0, 1), (5, 1), (10, 2), (15, 2), (7 * 24 * 60, 3)):
        now = NOW + timedelta(minutes=minutes)
        await looker.look(spec, {"orders": TablePosition(10, metadata_id="m")}, thorough=True)
        assert len(log.asked) == asked, minutes
