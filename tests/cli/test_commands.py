"""Every command on a ledger in a folder: what it prints, what it writes, what it refuses, and its exit code."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from databricks_bridge.core.closing import Closed, How, closed
from databricks_bridge.core.positions import RunsPosition, TablePosition
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.ledgers.object_store import ObjectStoreKeep
from tests.cli.conftest import CLAIM, FIRST, Answer, Folder
from tests.core.builders import NOW, at

Bridge = Callable[..., Answer]
WHY = ("--why", "restored", "--by", "ada", "--yes")


def test_an_empty_ledger_is_no_error(ledger: Folder, bridge: Bridge) -> None:
    assert bridge("status") == Answer(0, f"no subscription has a record in the ledger {ledger.url}\n", "")
    assert bridge("status", "--json").json == {"ledger": ledger.url, "subscriptions": []}
    assert bridge("claim", "list").out == "no open claim\n"


def test_status_shows_consumer_watermarks_and_claim(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    said = bridge("status")
    assert said.code == 0
    assert "delays: for http://127.0.0.1:1 job 7, revision 1" in said.out
    assert "  flights at version 5" in said.out
    assert "  no open claim" in said.out
    (row,) = bridge("status", "delays", "--json").json["subscriptions"]
    assert row["watermarks"] == {alias: mark.to_json() for alias, mark in FIRST.watermarks.items()}
    assert (row["claim"], row["needs_a_person"], row["moved_to"]) == (None, False, None)


def test_a_claim_that_waits_for_a_person_is_exit_code_3(ledger: Folder, bridge: Bridge) -> None:
    ledger.claimed()
    said = bridge("status")
    assert said.code == 3
    assert "blocked claim on main.silver.flights (5, 8]: run 11, generation 0" in said.out
    listed = bridge("claim", "list", "--json")
    assert listed.code == 3
    assert [(row["subscription"], row["run_id"], row["needs_a_person"]) for row in listed.json["claims"]] == [
        ("delays", 11, True)
    ]


def test_a_source_that_needs_a_decision_is_shown_and_exit_code_3(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    ledger.write(FIRST.after(NOW, "waits", problem="TableReplaced: flights was replaced; adopt it"))
    said = bridge("status")
    assert said.code == 3
    assert "  WAITS FOR A DECISION: TableReplaced: flights was replaced; adopt it" in said.out
    (row,) = bridge("status", "delays", "--json").json["subscriptions"]
    assert (row["problem"], row["needs_a_person"]) == ("TableReplaced: flights was replaced; adopt it", True)


def test_an_open_claim_is_not(ledger: Folder, bridge: Bridge) -> None:
    ledger.claimed(replace(CLAIM, status=ClaimStatus.OPEN))
    assert bridge("status").code == 0
    assert bridge("claim", "list").code == 0


def test_an_unknown_subscription_is_an_error_that_says_where_it_looked(ledger: Folder, bridge: Bridge) -> None:
    said = bridge("watermark", "get", "nothing")
    assert said.code == 1
    assert f"the ledger {ledger.url} has no record of subscription 'nothing'" in said.err
    assert bridge("watermark", "get", "nothing", "--json").json["error"]["kind"] == "LedgerError"


def test_watermarks_are_read(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    assert bridge("watermark", "get", "delays", "flights").out == "flights: version 5\n"
    assert set(bridge("watermark", "get", "delays", "--json").json["watermarks"]) == {"flights", "by_file"}
    assert bridge("watermark", "get", "delays", "weather").code == 2


def test_a_mark_over_runs_says_how_many_before_it_are_still_open(ledger: Folder, bridge: Bridge) -> None:
    mark = RunsPosition(1000, frozenset({7, 8}), late=frozenset({(400, 5)}))
    ledger.write(replace(FIRST, watermarks={"by_file": mark}))
    said = bridge("watermark", "get", "delays", "by_file")
    assert said.out.splitlines() == ["by_file: runs from 1000 ms on, 2 done, 1 before that still open"]
    assert bridge("watermark", "get", "delays", "--json").json["watermarks"]["by_file"]["late"] == [[400, 5]]


@pytest.mark.parametrize(
    ("words", "mark"),
    [
        (("rewind", "delays", "flights", "2"), TablePosition(2, "t1", "m1")),
        (("rewind", "delays", "flights", "earliest"), TablePosition(-1)),
        (("set", "delays", "flights", "9"), TablePosition(9, "t1", "m1")),
        (("adopt", "delays", "flights", "0", "--table-id", "t2"), TablePosition(0, "t2")),
        (("set", "delays", "by_file", "2026-01-01T12:00:00+00:00"), RunsPosition(1767268800000)),
        (("rewind", "delays", "by_file", "earliest"), RunsPosition(0)),
    ],
)
def test_a_mark_is_moved_and_the_history_says_who_and_why(
    ledger: Folder, bridge: Bridge, words: tuple[str, ...], mark: object
) -> None:
    ledger.write(FIRST)
    said = bridge("watermark", *words, *WHY, "--json")
    assert said.code == 0, said
    record = ledger.read()
    assert record is not None
    assert record.watermarks[words[2]] == mark
    assert record.epoch == said.json["epoch"] != FIRST.epoch
    assert record.history[-1].what.endswith("by ada: restored")


@pytest.mark.parametrize(
    "words",
    [
        ("rewind", "delays", "flights", "7"),
        ("set", "delays", "flights", "5"),
        ("set", "delays", "flights", "-3"),
        ("set", "delays", "flights", "five"),
        ("set", "delays", "by_file", "17"),
        ("set", "delays", "weather", "1"),
    ],
)
def test_a_position_that_cannot_be_is_exit_code_2_and_writes_nothing(
    ledger: Folder, bridge: Bridge, words: tuple[str, ...]
) -> None:
    ledger.write(FIRST)
    assert bridge("watermark", *words[:3], *WHY, "--", words[3]).code == 2
    assert ledger.read() == FIRST


@pytest.mark.parametrize("word", ["rewind", "set", "adopt"])
def test_no_mark_moves_while_a_claim_is_open(ledger: Folder, bridge: Bridge, word: str) -> None:
    record = ledger.claimed()
    said = bridge("watermark", word, "delays", "flights", "2", *WHY)
    assert said.code == 1
    assert "databricks-bridge claim resolve" in said.err
    assert ledger.read() == record


def test_nothing_is_written_without_a_yes(ledger: Folder, bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.write(FIRST)
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        said = bridge("watermark", "rewind", "delays", "flights", "2", "--why", "restored")
    assert said.code == 4
    assert "rewound flights from version 5 to version 2" in said.err
    assert "add --yes" in said.err
    assert ledger.read() == FIRST


def test_history_is_the_ledgers_own(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(ledger.write(FIRST).after(NOW, "second"))
    rows = bridge("watermark", "history", "delays", "--json").json["history"]
    assert [(row["revision"], row["what"]) for row in rows] == [(1, "started flights"), (2, "second")]
    assert all(not row["at"].startswith("2026-01-01T12") for row in rows), "the store's time, not the writer's"
    assert len(bridge("watermark", "history", "delays", "-n", "1").out.splitlines()) == 1


@pytest.mark.parametrize(("verdict", "version"), [("succeeded", 8), ("failed", 5), ("void", 5)])
def test_a_claim_is_resolved(ledger: Folder, bridge: Bridge, verdict: str, version: int) -> None:
    ledger.claimed()
    said = bridge("claim", "resolve", "delays", "--as", verdict, "--without-looking", *WHY, "--json")
    assert said.code == 0, said
    record = ledger.read()
    assert record is not None
    assert record.claim is None
    assert record.watermarks["flights"] == at(version)
    assert f"(run 11, blocked) as {verdict} by ada: restored" in record.history[-1].what


def test_a_claims_run_is_looked_at_first(ledger: Folder, bridge: Bridge) -> None:
    record = ledger.claimed()
    said = bridge("claim", "resolve", "delays", "--as", "void", *WHY)
    assert said.code == 2
    assert "has to be looked at first, in http://127.0.0.1:1" in said.err
    assert ledger.read() == record


def test_a_subscription_moves_and_back(ledger: Folder, bridge: Bridge, tmp_path: Path) -> None:
    ledger.write(FIRST)
    other = Folder(tmp_path / "other")
    said = bridge("subscription", "move", "delays", "--to", other.url, *WHY)
    assert said.code == 0, said
    left, there = ledger.read(), other.read()
    assert left is not None
    assert there is not None
    assert closed(left) == Closed(How.MOVED, other.url, FIRST.consumer)
    assert (there.consumer, there.watermarks, there.epoch) == (FIRST.consumer, FIRST.watermarks, FIRST.epoch)
    assert bridge("subscription", "list").out == f"delays: moved to {other.url}\n"
    assert bridge("watermark", "rewind", "delays", "flights", "1", *WHY).code == 1
    back = bridge("subscription", "move", "delays", "--ledger", other.url, "--to", ledger.url, *WHY)
    assert back.code == 0, back
    home = ledger.read()
    assert home is not None
    assert (home.consumer, home.watermarks) == (FIRST.consumer, FIRST.watermarks)


def test_an_open_claim_moves_along(ledger: Folder, bridge: Bridge, tmp_path: Path) -> None:
    """A record that has outgrown its ledger has a claim open as a rule."""
    record = ledger.claimed()
    other = Folder(tmp_path / "other")
    assert bridge("subscription", "move", "delays", "--to", other.url, *WHY).code == 0
    there = other.read()
    assert there is not None
    assert (there.claim, there.consumer, there.watermarks) == (record.claim, record.consumer, record.watermarks)
    assert closed(there) is None
    assert bridge("claim", "list").out == "no open claim\n", "here it is only what moved"
    assert bridge("status").code == 0
    assert bridge("claim", "list", "--ledger", other.url).code == 3
    said = bridge("claim", "resolve", "delays", "--as", "void", "--without-looking", *WHY)
    assert (said.code, f"moved to {other.url}; work on it there" in said.err) == (1, True)
    assert (
        bridge("claim", "resolve", "delays", "--as", "void", "--without-looking", "--ledger", other.url, *WHY).code == 0
    )


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_move_that_died_leaves_at_most_one_in_use_and_goes_on(
    ledger: Folder, bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    ledger.write(FIRST)
    other = Folder(tmp_path / "other")
    from databricks_bridge.core.errors import LedgerError
    from databricks_bridge.ledgers.object_store import ObjectStoreLedger

    real, done = ObjectStoreLedger.write, []

    async def dying(self: ObjectStoreLedger, record: object) -> None:
        if len(done) == writes:
            raise LedgerError("killed")
        done.append(record)
        await real(self, record)  # type: ignore[arg-type]

    monkeypatch.setattr(ObjectStoreLedger, "write", dying)
    assert bridge("subscription", "move", "delays", "--to", other.url, *WHY).code == 1
    monkeypatch.setattr(ObjectStoreLedger, "write", real)
    in_use = [one for one in (ledger.read(), other.read()) if one is not None and closed(one) is None]
    assert len(in_use) <= 1
    assert bridge("subscription", "move", "delays", "--to", other.url, *WHY).code == 0
    there = other.read()
    assert there is not None
    assert (there.consumer, there.watermarks) == (FIRST.consumer, FIRST.watermarks)


def test_a_move_onto_a_record_in_use_is_refused(ledger: Folder, bridge: Bridge, tmp_path: Path) -> None:
    ledger.write(FIRST)
    other = Folder(tmp_path / "other")
    other.write(FIRST)
    said = bridge("subscription", "move", "delays", "--to", other.url, *WHY)
    assert said.code == 1
    assert "that is in use" in said.err
    assert ledger.read() == FIRST


@pytest.mark.parametrize("address", ["nonsense", "s3://", "control-table:x", "https://bucket"])
def test_a_ledger_that_is_none_is_exit_code_2(ledger: Folder, bridge: Bridge, address: str) -> None:
    assert bridge("status", "--ledger", address).code == 2
    assert bridge("subscription", "move", "delays", "--to", address, *WHY).code in (1, 2)


def test_the_airflow_ledger_needs_a_url(ledger: Folder, bridge: Bridge) -> None:
    said = bridge("status", "--ledger", "airflow")
    assert said.code == 2
    assert "--airflow-url or DATABRICKS_BRIDGE_AIRFLOW_URL" in said.err


def test_a_password_file_that_cannot_be_read_is_exit_code_2(
    ledger: Folder, bridge: Bridge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABRICKS_BRIDGE_AIRFLOW_PASSWORD_FILE", str(tmp_path / "gone"))
    words = ("--ledger", "airflow", "--airflow-url", "http://127.0.0.1:1", "--airflow-user", "ada")
    said = bridge("status", *words)
    assert said.code == 2
    assert f"_PASSWORD_FILE: {tmp_path / 'gone'} cannot be read: No such file" in said.err
    monkeypatch.delenv("DATABRICKS_BRIDGE_AIRFLOW_PASSWORD_FILE")
    said = bridge("status", *words)
    assert said.code == 2
    assert "no login for Airflow at http://127.0.0.1:1" in said.err


def test_the_ledger_of_airflows_configuration_is_used(
    ledger: Folder, bridge: Bridge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger.write(FIRST)
    monkeypatch.delenv("AIRFLOW__DATABRICKS_BRIDGE__LEDGER")
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "airflow.cfg").write_text(
        f"[core]\nfernet_key = 50%\n[databricks_bridge]\nledger = {ledger.url}\n"
    )
    assert bridge("status", "--json").json["ledger"] == ledger.url


def test_as_a_process(ledger: Folder) -> None:
    """The command as it is installed, from a ledger that is told to an answer that a program reads."""
    ledger.claimed()
    command = [sys.executable, "-c", "import sys; from databricks_bridge.cli import main; sys.exit(main())"]
    status = subprocess.run([*command, "status", "--json"], capture_output=True, text=True, check=False)
    assert status.returncode == 3
    assert json.loads(status.stdout)["subscriptions"][0]["claim"]["status"] == "blocked"
    asked = [*command, "claim", "resolve", "delays", "--as", "succeeded", "--without-looking", "--why", "checked"]
    nobody = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert nobody.returncode == 4
    assert nobody.stdout == ""
    done = subprocess.run([*asked, "--yes"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert asyncio.run(ObjectStoreKeep(ledger.url).ledger("delays").read()).claim is None  # type: ignore[union-attr]


def test_a_mark_is_carried_over_to_another_alias(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    said = bridge("watermark", "adopt", "delays", "late", "--of", "flights", *WHY, "--json")
    assert said.code == 0, said
    assert said.json["watermark"] == at(5).to_json()
    record = ledger.read()
    assert record is not None
    assert record.watermarks == {"late": at(5), "by_file": RunsPosition(1000)}
    assert record.epoch == said.json["epoch"] != FIRST.epoch
    assert bridge("watermark", "adopt", "delays", "late", *WHY).code == 2
    assert bridge("watermark", "adopt", "delays", "late", "3", "--of", "flights", *WHY).code == 2
    assert bridge("watermark", "adopt", "delays", "x", "--of", "flights", *WHY).code == 2
