"""The checker, on runs made up by hand: each thing that must never be is seen, and a clean history is clean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faults.checker import Evidence, GoldRow, Verdict, judge

Json = dict[str, Any]


def run(run_id: int, start: int, end: int, at: tuple[int, int], *, result: str = "SUCCESS", token: str = "") -> Json:
    given = {
        "bridge_subscription": "s",
        "bridge_epoch": "0",
        "bridge_generation": "0",
        "bridge_token": token or f"token {start}",
        "t0_start": str(start),
        "t0_end": str(end),
    }
    return {
        "run_id": run_id,
        "start_time": at[0],
        "end_time": at[1],
        "state": {"life_cycle_state": "TERMINATED", "result_state": result},
        "job_parameters": [{"name": name, "value": value} for name, value in given.items()],
    }


def foreign(run_id: int, result: str) -> Json:
    return {
        "run_id": run_id,
        "start_time": 0,
        "end_time": 1,
        "state": {"life_cycle_state": "TERMINATED", "result_state": result},
        "job_parameters": [{"name": "bridge_token", "value": ""}],
    }


def judged(folder: Path, runs: list[Json], mark: int, **foreign: str) -> Verdict:
    """Of a table with data in its versions 0 to 2 and an OPTIMIZE as its version 3."""
    for version, data in enumerate([True, True, True, False]):
        add = {"add": {"path": "p", "dataChange": data}}
        (folder / f"{version:020d}.json").write_text(json.dumps(add))
    record = {"watermarks": {"t0": {"version": mark}}, "claim": None}
    given = {int(name[1:]): result for name, result in foreign.items()}
    return judge(Evidence("s", runs, {"t0": folder}, record, given, frozenset(), from_start=True, over=True))


def counts(verdict: Verdict) -> tuple[int, int, int, int]:
    return verdict.lost, verdict.doubled, verdict.twice, verdict.touched


FIRST, SECOND = run(1, 0, 1, (10, 20)), run(2, 2, 2, (20, 30))


@pytest.mark.parametrize(
    ("runs", "mark", "expected"),
    [
        ([FIRST, SECOND], 2, (0, 0, 0, 0)),
        ([FIRST, run(2, 2, 2, (20, 30), result="FAILED"), run(3, 2, 3, (30, 40), token="next")], 3, (0, 0, 1, 0)),
        ([FIRST], 1, (1, 0, 0, 0)),
        ([FIRST, run(2, 1, 2, (20, 30))], 2, (0, 1, 0, 0)),
        ([run(1, 0, 0, (10, 20)), SECOND], 2, (1, 0, 0, 0)),
        ([FIRST, SECOND], 3, (1, 0, 0, 0)),
        ([FIRST, run(2, 2, 2, (15, 30))], 2, (0, 0, 1, 0)),
    ],
    ids=["clean", "one start twice", "unfinished", "overlap", "gap", "ahead", "two at once"],
)
def test_what_the_runs_say(tmp_path: Path, runs: list[Json], mark: int, expected: tuple[int, int, int, int]) -> None:
    assert counts(judged(tmp_path, runs, mark)) == expected


@pytest.mark.parametrize(("result", "touched"), [("SUCCESS", 0), ("CANCELED", 1)])
def test_a_foreign_run_must_end_as_it_was_told(tmp_path: Path, result: str, touched: int) -> None:
    assert counts(judged(tmp_path, [FIRST, SECOND, foreign(7, result)], 2, r7="SUCCESS")) == (0, 0, 0, touched)


def test_a_foreign_run_that_is_gone_was_touched(tmp_path: Path) -> None:
    assert counts(judged(tmp_path, [FIRST, SECOND], 2, r7="SUCCESS")) == (0, 0, 0, 1)


def of_gold(folder: Path, *gold: tuple[int, int], mark: int = 2, over: bool = True) -> tuple[int, int, int]:
    """Of a table with one row in each of its versions 0 to 2; `gold` are rows and the starts that brought them."""
    for version in range(3):
        (folder / f"{version:020d}.json").write_text(json.dumps({"add": {"path": "p", "dataChange": True}}))
    record = {"watermarks": {"t0": {"version": mark}}, "claim": None}
    rows = [GoldRow(n, "t0", start) for n, start in gold]
    runs = [run(1, 0, mark, (10, 20))]
    source = {"t0": [0, 1000, 2000]}
    verdict = judge(Evidence("s", runs, {"t0": folder}, record, {}, frozenset(), True, over, rows, source))
    return verdict.lost, verdict.doubled, verdict.errors


WHOLE = ((0, 0), (1000, 0), (2000, 2))


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        (WHOLE, (0, 0, 0)),
        (WHOLE[:2], (1, 0, 0)),
        ((*WHOLE, (1000, 1)), (0, 1, 0)),
        ((*WHOLE, (3000, 2)), (0, 0, 1)),
    ],
    ids=["whole", "a row is missing", "a row is there twice", "a row of no source"],
)
def test_what_gold_says(tmp_path: Path, gold: tuple[tuple[int, int], ...], expected: tuple[int, int, int]) -> None:
    assert of_gold(tmp_path, *gold) == expected


def test_rows_above_the_watermark_may_still_be_missing(tmp_path: Path) -> None:
    assert of_gold(tmp_path, *WHOLE[:2], mark=1, over=False) == (0, 0, 0)
    assert of_gold(tmp_path, WHOLE[0], mark=1, over=False) == (1, 0, 0)
