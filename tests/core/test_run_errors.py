"""Which tasks of a run say why it failed."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.core.run_errors import (
    LONGEST_ERROR,
    MOST_ERRORS,
    failed_tasks,
    is_reader_behind,
    newest_attempts,
    told,
)

BEHIND = "BridgeReaderBehind: main.s.t is at 4, the claim needs 5"


def attempt(run_id: int, key: str, result: str, number: int = 0, **more: Any) -> dict[str, Any]:
    state = {"life_cycle_state": "TERMINATED", "result_state": result}
    return {"run_id": run_id, "task_key": key, "attempt_number": number, "state": state, **more}


def failed(*tasks: dict[str, Any]) -> list[int]:
    return [task["run_id"] for task in failed_tasks({"tasks": list(tasks)})]


@pytest.mark.parametrize("turn", [1, -1], ids=["oldest first", "newest first"])
def test_the_newest_attempt_of_each_task_counts_in_whatever_order_they_come(turn: int) -> None:
    tasks = [attempt(1, "a", "FAILED", 0), attempt(2, "a", "FAILED", 1), attempt(3, "b", "FAILED", 0)][::turn]
    assert sorted(failed(*tasks)) == [2, 3]


def test_a_task_that_succeeded_at_last_says_nothing() -> None:
    assert failed(attempt(1, "a", "FAILED", 0), attempt(2, "a", "SUCCESS", 1), attempt(3, "b", "FAILED", 0)) == [3]


def test_a_repair_that_counts_its_attempts_from_0_again_is_newer_by_its_start() -> None:
    before = attempt(1, "a", "FAILED", 3, start_time=1_000)
    repaired = attempt(2, "a", "FAILED", 0, start_time=9_000)
    assert [one["run_id"] for one in newest_attempts([repaired, before])] == [2]
    assert [one["run_id"] for one in newest_attempts([before, repaired])] == [2]


def test_an_attempt_without_a_start_is_placed_by_its_number() -> None:
    assert failed(attempt(1, "a", "FAILED", 0, start_time=5), attempt(2, "a", "FAILED", 1, start_time=0)) == [2]


@pytest.mark.parametrize("result", ["UPSTREAM_FAILED", "UPSTREAM_CANCELED", "EXCLUDED", "DISABLED", "SUCCESS"])
def test_a_task_that_did_not_fail_by_itself_says_nothing(result: str) -> None:
    assert failed(attempt(1, "a", "FAILED"), attempt(2, "b", result)) == [1]


def test_a_task_without_a_key_is_its_own() -> None:
    one, other = attempt(1, "", "FAILED"), attempt(2, "", "FAILED")
    assert failed(one, other) == [1, 2]


@pytest.mark.parametrize(
    ("errors", "behind"),
    [
        ([BEHIND], True),
        ([BEHIND, BEHIND], True),
        ([BEHIND, "ValueError: no"], False),
        (["ValueError: no", BEHIND], False),
        ([BEHIND, ""], False),
        ([], False),
        ([""], False),
    ],
)
def test_a_reader_is_behind_where_every_failed_task_says_so(errors: list[str], behind: bool) -> None:
    assert is_reader_behind(errors) is behind


def test_one_error_is_told_as_it_is_and_several_with_their_tasks() -> None:
    assert told([("a", "ValueError: 1")]) == "ValueError: 1"
    assert told([("a", ""), ("b", "KeyError: 'x'")]) == "KeyError: 'x'"
    assert told([("a", "ValueError: 1"), ("b", "KeyError: 'x'")]) == "task a: ValueError: 1; task b: KeyError: 'x'"
    assert told([]) == ""


def test_what_is_told_is_bounded() -> None:
    many = told([(f"t{at}", "x" * 20_000) for at in range(50)])
    assert many.endswith(f"; {50 - MOST_ERRORS} more failed")
    assert len(many) < MOST_ERRORS * (LONGEST_ERROR + 20) + 40
