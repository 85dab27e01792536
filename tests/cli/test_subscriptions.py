"""`subscription rename` and `retire`: what they write, what they refuse, and what a crash in the middle leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from databricks_bridge.core.closing import Closed, How, closed
from databricks_bridge.core.errors import ConsumerMismatch, LedgerError
from databricks_bridge.core.record import ClaimStatus, Record
from databricks_bridge.ledgers.object_store import ObjectStoreLedger
from tests.cli.conftest import CLAIM, FIRST, Answer, Folder
from tests.core.builders import NOW, TARGET, at
from tests.core.driving import Script
from tests.ledgers.warehouse import TOKEN, FakeWarehouse, in_thread

Bridge = Callable[..., Answer]
WHY = ("--why", "it is not about delays alone", "--by", "ada", "--yes")
OURS = replace(FIRST, consumer=TARGET.consumer)


def test_a_subscription_is_renamed_and_back(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    said = bridge("subscription", "rename", "delays", "late", *WHY, "--json")
    assert said.code == 0, said
    old, new = ledger.read(), ledger.read("late")
    assert old is not None
    assert new is not None
    assert closed(old) == Closed(How.RENAMED, "late", FIRST.consumer)
    assert (new.subscription, new.consumer, new.watermarks) == ("late", FIRST.consumer, FIRST.watermarks)
    assert new.epoch == said.json["epoch"] != FIRST.epoch
    assert "renamed to late by ada: it is not about delays alone" in new.history[-1].what
    listed = bridge("subscription", "list")
    assert listed.out == f"delays: renamed to late\nlate: {FIRST.consumer}\n"
    rows = bridge("subscription", "list", "--json").json["subscriptions"]
    assert [(row["state"], row["renamed_to"], row["consumer"]) for row in rows] == [
        ("renamed", "late", FIRST.consumer),
        ("in use", None, FIRST.consumer),
    ]
    assert bridge("subscription", "rename", "late", "delays", *WHY).code == 0
    home = ledger.read()
    assert home is not None
    assert (home.consumer, home.watermarks) == (FIRST.consumer, FIRST.watermarks)
    assert home.epoch not in (FIRST.epoch, new.epoch)


def test_a_dag_that_still_uses_the_old_name_gets_one_clear_error(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(OURS)
    assert bridge("subscription", "rename", "delays", "late", *WHY).code == 0
    error = Script().read(ledger.read()).fails(ConsumerMismatch)
    assert str(error) == "subscription 'delays' was renamed to 'late': use that name where it is defined"


@pytest.mark.parametrize("words", [("rename", "delays", "late"), ("retire", "delays")], ids=lambda words: words[0])
@pytest.mark.parametrize("status", list(ClaimStatus))
def test_nothing_is_done_while_a_claim_is_open(
    ledger: Folder, bridge: Bridge, words: tuple[str, ...], status: ClaimStatus
) -> None:
    record = ledger.claimed(replace(CLAIM, status=status))
    said = bridge("subscription", *words, *WHY)
    assert said.code == 1
    assert "databricks-bridge claim resolve" in said.err
    assert (ledger.read(), ledger.read("late")) == (record, None)


@pytest.mark.parametrize("new", ["", "a b", "../x", "a/b", "-x", "x" * 201, "delays"])
def test_a_name_that_cannot_be_is_exit_code_2(ledger: Folder, bridge: Bridge, new: str) -> None:
    ledger.write(FIRST)
    assert bridge("subscription", "rename", *WHY, "--", "delays", new).code == 2
    assert ledger.read() == FIRST


def test_a_name_in_use_is_not_taken(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    other = ledger.write(replace(FIRST, subscription="late", last_claimed_at=NOW))
    said = bridge("subscription", "rename", "delays", "late", *WHY)
    assert said.code == 1
    assert "has a record of subscription 'late' that is in use" in said.err
    assert (ledger.read(), ledger.read("late")) == (FIRST, other)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_rename_that_died_leaves_at_most_one_in_use_and_goes_on(
    ledger: Folder, bridge: Bridge, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    ledger.write(FIRST)
    real = ObjectStoreLedger.write
    done: list[Record] = []

    async def dying(self: ObjectStoreLedger, record: Record) -> None:
        if len(done) == writes:
            raise LedgerError("killed")
        done.append(record)
        await real(self, record)

    monkeypatch.setattr(ObjectStoreLedger, "write", dying)
    assert bridge("subscription", "rename", "delays", "late", *WHY).code == 1
    monkeypatch.setattr(ObjectStoreLedger, "write", real)
    in_use = [one for one in (ledger.read(), ledger.read("late")) if one is not None and closed(one) is None]
    assert len(in_use) == (0 if writes == 2 else 1)
    assert bridge("subscription", "rename", "delays", "late", *WHY).code == 0
    late = ledger.read("late")
    assert late is not None
    assert (late.consumer, late.watermarks) == (FIRST.consumer, FIRST.watermarks)


def test_a_rename_that_is_done_is_not_done_again(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    assert bridge("subscription", "rename", "delays", "late", *WHY).code == 0
    late = ledger.read("late")
    assert late is not None
    worked = ledger.write(late.after(NOW, "committed", watermarks={"flights": at(9)}, last_claimed_at=NOW))
    again = bridge("subscription", "rename", "delays", "late", *WHY)
    assert again.code == 1
    assert "in use" in again.err
    assert ledger.read("late") == worked


def test_a_retired_one_is_shown_and_refused_and_comes_back(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(OURS)
    said = bridge("subscription", "retire", "delays", *WHY, "--json")
    assert said.code == 0, said
    assert said.json == {
        "subscription": "delays",
        "consumer": OURS.consumer,
        "state": "retired",
        "moved_to": None,
        "renamed_to": None,
    }
    left = ledger.read()
    assert left is not None
    assert left.watermarks == FIRST.watermarks
    assert left.history[-1].what == "retired by ada: it is not about delays alone"
    assert "subscription retire delays --undo" in str(Script().read(left).fails(ConsumerMismatch))
    assert bridge("subscription", "list").out == "delays: retired\n"
    assert bridge("status").out == "delays: retired\n"
    assert bridge("watermark", "rewind", "delays", "flights", "1", *WHY).code == 1
    assert bridge("subscription", "rename", "delays", "late", *WHY).code == 1
    rebuilt = bridge("watermark", "rebuild", "delays", "--job-id", "1", *WHY)
    assert (rebuilt.code, "nothing is lost; it is retired" in rebuilt.err) == (1, True), rebuilt
    back = bridge("subscription", "retire", "delays", "--undo", *WHY)
    assert back.code == 0, back
    again = ledger.read()
    assert again is not None
    assert (again.consumer, again.watermarks, again.epoch) == (OURS.consumer, OURS.watermarks, OURS.epoch)
    twice = bridge("subscription", "retire", "delays", "--undo", *WHY)
    assert (twice.code, "is not retired, it is in use" in twice.err) == (1, True)


def test_nothing_is_written_without_a_yes(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    for words in (("rename", "delays", "late"), ("retire", "delays")):
        said = bridge("subscription", *words, *WHY[:-1])
        assert said.code == 4
        assert "will be" in said.err
    assert (ledger.read(), ledger.read("late")) == (FIRST, None)


def test_a_claim_open_for_longer_than_expected_is_marked(ledger: Folder, bridge: Bridge) -> None:
    ledger.claimed(replace(CLAIM, status=ClaimStatus.OPEN))
    for words in (("status",), ("claim", "list")):
        assert "STUCK" not in bridge(*words).out
        assert "STUCK (over 2h): open claim on main.silver.flights (5, 8]" in bridge(*words, "--expected", "2h").out
        assert "STUCK" not in bridge(*words, "--expected", "9000d").out
    (row,) = bridge("status", "--json", "--expected", "1d12h").json["subscriptions"]
    assert row["stuck"] is True
    (row,) = bridge("claim", "list", "--json").json["claims"]
    assert row["stuck"] is None
    assert bridge("status", "--expected", "soon").code == 2


@pytest.fixture
def control_table(monkeypatch: pytest.MonkeyPatch, ledger: Folder) -> Iterator[FakeWarehouse]:
    """The command's ledger is a control table."""
    with in_thread() as served:
        connection = {"conn_type": "databricks", "host": served.url, "password": TOKEN}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__DATABRICKS_BRIDGE__LEDGER", "control-table:ops/wh-1/lake.bridge")
        yield served


def test_in_a_control_table_too(bridge: Bridge, ledger: Folder, control_table: FakeWarehouse) -> None:
    address = "control-table:ops/wh-1/lake.bridge"
    ledger.write(FIRST)
    assert bridge("subscription", "move", "delays", "--ledger", ledger.url, "--to", address, *WHY).code == 0
    assert bridge("subscription", "rename", "delays", "late", *WHY).code == 0
    assert bridge("subscription", "list").out == f"delays: renamed to late\nlate: {FIRST.consumer}\n"
    rows = control_table.sql("SELECT job, source, last_version FROM lake.bridge.job_watermarks ORDER BY job")
    assert rows == [("delays", "flights", 5), ("late", "flights", 5)]
    assert bridge("subscription", "retire", "late", *WHY).code == 0
    assert bridge("subscription", "rename", "late", "delays", *WHY).code == 1
    assert bridge("subscription", "retire", "late", "--undo", *WHY).code == 0
    assert bridge("subscription", "rename", "late", "delays", *WHY).code == 0
    assert bridge("watermark", "get", "delays", "flights").out == "flights: version 5\n"
