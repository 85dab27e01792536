"""One body of tests for every keep: what is promised of one is promised of all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import AssetStateStoreAccessors
from hypothesis import given, settings

from databricks_bridge.core.errors import LedgerError, RecordTooLarge, WriteLost
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.airflow import KEY, LIMIT_BYTES, AirflowLedger, ledger_of
from databricks_bridge.ledgers.protocol import Ledger
from tests.core.builders import NOW, at, records
from tests.ledgers.keeps import KEEPS, Store

FIRST = Record("delays", "consumer", {"flights": at(3)}).after(NOW, "started flights")


@pytest.fixture(params=KEEPS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return KEEPS[request.param](tmp_path)


async def test_no_record_reads_as_none(ledger: Ledger) -> None:
    assert await ledger.read() is None


async def test_what_was_written_is_read(ledger: Ledger) -> None:
    await ledger.write(FIRST)
    assert await ledger.read() == FIRST
    second = FIRST.after(NOW, "again", watermarks={"flights": at(4)})
    await ledger.write(second)
    assert await ledger.read() == second


async def test_a_write_after_another_writer_is_lost_and_changes_nothing(ledger: Ledger) -> None:
    await ledger.write(FIRST)
    ours, theirs = FIRST.after(NOW, "ours"), FIRST.after(NOW, "theirs")
    await ledger.write(theirs)
    with pytest.raises(WriteLost, match="'delays' was changed by another writer"):
        await ledger.write(ours)
    assert await ledger.read() == theirs


async def test_of_two_first_writes_the_second_is_lost(ledger: Ledger) -> None:
    await ledger.write(FIRST)
    with pytest.raises(WriteLost):
        await ledger.write(FIRST)


@pytest.mark.parametrize("revision", [0, 1, 3, 99])
async def test_only_the_next_revision_is_taken(ledger: Ledger, revision: int) -> None:
    await ledger.write(FIRST)
    with pytest.raises(WriteLost):
        await ledger.write(replace(FIRST, revision=revision))
    assert await ledger.read() == FIRST


async def test_a_record_that_vanished_is_not_written_over_as_if_it_were_there(ledger: Ledger) -> None:
    with pytest.raises(WriteLost):
        await ledger.write(FIRST.after(NOW, "the second"))


@pytest.mark.parametrize("keep", KEEPS)
@settings(deadline=None, max_examples=40)
@given(record=records)
async def test_every_record_makes_the_way(keep: str, record: Record) -> None:
    with TemporaryDirectory() as folder:
        ledger = KEEPS[keep](Path(folder))
        written = replace(record, revision=1)
        await ledger.write(written)
        assert await ledger.read() == written


async def test_history_is_the_last_transitions_oldest_first(ledger: Ledger) -> None:
    assert await ledger.history(5) == []
    record = FIRST
    await ledger.write(record)
    for what in ("second", "third"):
        record = record.after(NOW, what)
        await ledger.write(record)
    assert [(one.revision, one.what) for one in await ledger.history(9)] == [
        (1, "started flights"),
        (2, "second"),
        (3, "third"),
    ]
    assert [one.what for one in await ledger.history(1)] == ["third"]
    assert await ledger.history(0) == []


def record_of_size(size: int) -> Record:
    empty = len(json.dumps(replace(FIRST, consumer="").to_json()))
    return replace(FIRST, consumer="x" * (size - empty))


async def test_the_airflow_keep_takes_a_record_up_to_its_limit() -> None:
    await AirflowLedger(Store()).write(record_of_size(LIMIT_BYTES))


async def test_a_larger_one_is_refused_with_its_size_and_what_to_do() -> None:
    store = Store()
    with pytest.raises(
        RecordTooLarge,
        match=f"has {LIMIT_BYTES + 1} bytes, the Airflow ledger keeps {LIMIT_BYTES}; move it to the object store",
    ):
        await AirflowLedger(store).write(record_of_size(LIMIT_BYTES + 1))
    assert store.rows == {}


@pytest.mark.parametrize("value", ["text", 5, [], {}, {"schema": 2}, {"schema": 1}])
async def test_a_broken_record_is_a_ledger_error(value: Any) -> None:
    store = Store()
    store.set(KEY, value)
    with pytest.raises(LedgerError):
        await AirflowLedger(store).read()
    with pytest.raises(LedgerError):
        await AirflowLedger(store).write(FIRST)
    assert store.get(KEY) == value


ASSET = Asset(name="databricks_bridge.delays", uri="x-databricks-bridge://subscription/delays")


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"asset_state_store": AssetStateStoreAccessors([])},
        {"asset_state_store": AssetStateStoreAccessors([Asset("other")])},
    ],
    ids=["no store", "no inlet", "another inlet"],
)
def test_a_task_without_the_inlet_is_told_what_to_add(context: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match=r"'delays': add inlets=\[subscription\.asset\].*partial\(\)"):
        ledger_of(context, ASSET, "delays")


def test_a_task_with_the_inlet_has_its_keep() -> None:
    assert isinstance(
        ledger_of({"asset_state_store": AssetStateStoreAccessors([ASSET])}, ASSET, "delays"), AirflowLedger
    )
