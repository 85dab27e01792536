"""Shares without history: the reader has the newest published version, and nothing of how it came about."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from databricks_bridge.local.triggers.commits import table_id
from tests.local.catalog.test_shares import Cut, Lab, cut_off_after


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    made.share = replace(made.share, history=False)
    made.shares.put(made.share)
    return made


def log_of(lab: Lab) -> list[str]:
    return sorted(path.name for path in (lab.target / "_delta_log").iterdir() if not path.name.startswith("."))


def test_each_publication_leaves_one_version(lab: Lab) -> None:
    lab.write(1)
    lab.write(2)
    assert lab.publish() == {"silver.flights": 1}
    assert (lab.reader().version(), lab.rows()) == (1, [1, 2])
    first = table_id(lab.target)
    for n in (3, 4):
        lab.write(n)
    lab.provider().update(predicate="n = 3", updates={"n": "30"})
    assert lab.publish() == {"silver.flights": 4}
    assert (lab.reader().version(), lab.rows()) == (4, [1, 2, 4, 30])
    at = f"{4:020d}"
    assert log_of(lab) == [f"{at}.checkpoint.parquet", f"{at}.json", "_last_checkpoint"]
    assert table_id(lab.target) == first
    assert not (lab.target / "_change_data").exists()
    assert [path.name for path in lab.target.parent.iterdir()] == ["flights"]
    with pytest.raises(Exception, match=r"version|[Nn]ot found"):
        lab.changes(2, 4)


def test_its_provider_loses_nothing(lab: Lab) -> None:
    for n in range(4):
        lab.write(n)
    lab.provider().create_checkpoint()
    assert table_id(lab.source) is not None
    before = {path: path.read_bytes() for path in lab.source.rglob("*") if path.is_file()}
    assert lab.publish() == {"silver.flights": 3}
    after = {path: path.read_bytes() for path in lab.source.rglob("*") if path.is_file()}
    assert after == before


def test_publishing_twice_changes_nothing_and_a_held_one_goes_step_by_step(lab: Lab) -> None:
    for n in range(4):
        lab.write(n)
    assert lab.publish(max_commits=2) == {"silver.flights": 1}
    assert lab.rows() == [0, 1]
    assert lab.publish(max_commits=1) == {"silver.flights": 2}
    assert lab.rows() == [0, 1, 2]
    assert lab.publish() == {"silver.flights": 3}
    before = {path: path.stat().st_mtime_ns for path in lab.target.rglob("*")}
    assert lab.publish() == {"silver.flights": 3}
    assert {path: path.stat().st_mtime_ns for path in lab.target.rglob("*")} == before


def test_history_is_taken_away_and_given_back(lab: Lab) -> None:
    lab.write(0)
    lab.write(1)
    lab.shares.publish(replace(lab.share, history=True))
    assert lab.changes(0, 1) == [(0, "insert", 0), (1, "insert", 1)]
    lab.publish()
    assert log_of(lab)[1:] == [f"{1:020d}.json", "_last_checkpoint"]
    assert lab.rows() == [0, 1]
    lab.write(2)
    lab.shares.publish(replace(lab.share, history=True))
    assert lab.rows() == [0, 1, 2]
    assert lab.changes(2, 2) == [(2, "insert", 2)]


def test_a_cleaned_log_and_a_table_made_again(lab: Lab) -> None:
    for n in range(4):
        lab.write(n)
    lab.provider().create_checkpoint()
    lab.write(4)
    for version in range(3):
        (lab.source / "_delta_log" / f"{version:020d}.json").unlink()
    assert lab.publish() == {"silver.flights": 4}
    assert lab.rows() == [0, 1, 2, 3, 4]
    first = table_id(lab.target)
    shutil.rmtree(lab.source)
    lab.write(9)
    assert lab.publish() == {"silver.flights": 0}
    assert lab.rows() == [9]
    assert table_id(lab.target) != first


@pytest.mark.parametrize("stop_after", range(1, 30, 2))
def test_cut_off_anywhere_it_can_be_read_and_continues(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    lab.write(1)
    lab.publish()
    lab.write(2)
    lab.write(3)
    cut_off_after(monkeypatch, stop_after)
    with contextlib.suppress(Cut):
        lab.publish()
    monkeypatch.undo()
    assert lab.rows() in ([1], [1, 2, 3])
    assert lab.publish() == {"silver.flights": 2}
    assert lab.rows() == [1, 2, 3]
    assert log_of(lab)[1:] == [f"{2:020d}.json", "_last_checkpoint"]
    assert [path.name for path in lab.target.parent.iterdir()] == ["flights"]
