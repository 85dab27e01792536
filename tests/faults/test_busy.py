"""The busy workspace in small: a few kills, a few seconds of soaking, and what the account says of each disagreement."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faults.busy import kills, soak
from faults.busy.checker import Account, Change, Fired


def changes_of(*runs: Fired, changes: tuple[Change, ...] = (Change(1000, "0"), Change(2000, "1"))) -> Account:
    account = Account()
    account.changes("job", changes, runs)
    return account


def test_a_run_for_each_change_is_right() -> None:
    account = changes_of(Fired(1, 1100, "0"), Fired(2, 2100, "1"))
    assert (account.due, account.fired, account.lines) == (2, 2, [])


@pytest.mark.parametrize(
    ("runs", "missed", "doubled"),
    [
        ([Fired(1, 1100, "0")], 1, 0),
        ([Fired(1, 2100, "1")], 1, 0),
        ([Fired(1, 1100, "0"), Fired(2, 1200, "0"), Fired(3, 2100, "1")], 0, 1),
        ([Fired(1, 1100, "0"), Fired(2, 1200, "0")], 1, 1),
        ([Fired(1, 500, "0"), Fired(2, 1100, "0"), Fired(3, 2100, "1")], 0, 1),
        ([Fired(1, 1100, "0"), Fired(2, 2100, "0")], 1, 0),
    ],
)
def test_a_change_without_a_run_and_a_run_without_a_change_are_told(
    runs: list[Fired], missed: int, doubled: int
) -> None:
    account = changes_of(*runs)
    assert (account.missed, account.doubled) == (missed, doubled)
    assert not account.clean


@pytest.mark.parametrize(
    ("named", "downs", "missed", "doubled"),
    [
        ([3000, 6000, 9000], [], 0, 0),
        ([3000, 9000], [], 1, 0),
        ([3000, 9000], [(5500, 7000)], 0, 0),
        ([3000, 9000], [(3500, 4000)], 1, 0),
        ([3000, 6000, 6000, 9000], [], 0, 1),
        ([3000, 6000, 7000, 9000], [], 0, 1),
        ([3000, 6000], [], 1, 0),
    ],
)
def test_each_time_of_a_schedule_has_one_run_but_for_those_that_passed_while_it_was_down(
    named: list[int], downs: list[tuple[int, int]], missed: int, doubled: int
) -> None:
    account = Account()
    runs = [Fired(number, at, str(at)) for number, at in enumerate(named)]
    account.schedule("job", 3000, 1000, 9500, runs, downs)
    assert (account.missed, account.doubled) == (missed, doubled)


def test_killed_at_random_every_trigger_fires_once_and_every_run_has_one_honest_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "UP_SECONDS", (0.05, 1.0))
    monkeypatch.setattr(kills, "SCALE", 0.005)
    told = kills.play(tmp_path, 3, random.Random(5))
    assert told.clean, [*told.account.lines, *told.ends_wrong]
    assert told.account.due > 20


def test_a_short_soak_accounts_for_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FILES": 4, "TABLES": 4, "COMPLETIONS": 2, "SCHEDULES": 1, "PERIOD_SECONDS": 1}.items():
        monkeypatch.setattr(soak, name, value)
    monkeypatch.setattr(soak, "REST_SECONDS", (0.1, 0.4))
    monkeypatch.setattr(soak, "SAMPLE_SECONDS", 0.5)
    monkeypatch.setattr(soak, "SCALE", 0.005)
    figures = {figure.what: figure for figure in soak.soak(tmp_path, 3.0, random.Random(1))}
    assert figures["times due without a run"].met
    assert figures["runs too many"].met
    assert len(figures) == 6
