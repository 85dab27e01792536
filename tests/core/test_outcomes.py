"""The verdict on every pair of life cycle and result that the Jobs API documents, and on some it may invent."""

from __future__ import annotations

from itertools import dropwhile, product, takewhile
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.outcomes import Ending, outcome_of

WAITING = ["PENDING", "QUEUED", "BLOCKED", "WAITING_FOR_RETRY", "RUNNING", "TERMINATING", "WAITING"]
RESULTS: dict[str | None, Ending] = {
    "SUCCESS": Ending.SUCCEEDED,
    "SUCCESS_WITH_FAILURES": Ending.FAILED,
    "FAILED": Ending.FAILED,
    "TIMEDOUT": Ending.FAILED,
    "CANCELED": Ending.FAILED,
    "EXCLUDED": Ending.FAILED,
    "DISABLED": Ending.FAILED,
    "UPSTREAM_FAILED": Ending.FAILED,
    "UPSTREAM_CANCELED": Ending.FAILED,
    "MAXIMUM_CONCURRENT_RUNS_REACHED": Ending.NOTHING_RAN,
    "FUTURE_RESULT": Ending.FAILED,
    None: Ending.FAILED,
}


def state(life_cycle: str | None, result: str | None = None, message: str = "") -> dict[str, Any]:
    return {"state": {"life_cycle_state": life_cycle, "result_state": result, "state_message": message}}


def status(word: str, code: str | None = None, message: str = "") -> dict[str, Any]:
    details = {"termination_details": {"code": code, "message": message}} if code else {}
    return {"status": {"state": word, **details}}


@pytest.mark.parametrize("result", RESULTS, ids=str)
@pytest.mark.parametrize("life_cycle", ["TERMINATED", "INTERNAL_ERROR"])
def test_A16_a_terminal_life_cycle_is_judged_by_its_result(life_cycle: str, result: str | None) -> None:
    outcome = outcome_of(state(life_cycle, result))
    assert outcome.ending is RESULTS[result]
    assert outcome.known


@pytest.mark.parametrize("result", RESULTS, ids=str)
def test_A16_a_skipped_run_never_ran_whatever_else_it_says(result: str | None) -> None:
    assert outcome_of(state("SKIPPED", result)).ending is Ending.NOTHING_RAN


@pytest.mark.parametrize("result", RESULTS, ids=str)
@pytest.mark.parametrize("life_cycle", WAITING)
def test_A03_a_waiting_life_cycle_is_active_whatever_the_result_says(life_cycle: str, result: str | None) -> None:
    """TERMINATING with a result is not over: its task may still write."""
    outcome = outcome_of(state(life_cycle, result))
    assert outcome.ending is Ending.ACTIVE
    assert outcome.known


@pytest.mark.parametrize(
    "run",
    [
        state("FUTURE_STATE"),
        state("FUTURE_STATE", "SUCCESS"),
        status("FUTURE_STATE"),
        state(None),
        {},
        {"state": None, "status": None},
    ],
    ids=str,
)
def test_A03_a_life_cycle_new_to_us_is_waited_for_and_told(run: dict[str, Any]) -> None:
    outcome = outcome_of(run)
    assert outcome.ending is Ending.ACTIVE
    assert not outcome.known
    assert str(outcome)


@pytest.mark.parametrize(
    ("run", "ending"),
    [
        (status("TERMINATED", "SUCCESS"), Ending.SUCCEEDED),
        (status("TERMINATED", "RUN_EXECUTION_ERROR"), Ending.FAILED),
        (status("TERMINATED", "USER_CANCELED"), Ending.FAILED),
        (status("TERMINATED", "CLUSTER_ERROR"), Ending.FAILED),
        (status("TERMINATED", "FUTURE_CODE"), Ending.FAILED),
        (status("TERMINATED", "SKIPPED"), Ending.NOTHING_RAN),
        (status("TERMINATED", "MAX_CONCURRENT_RUNS_EXCEEDED"), Ending.NOTHING_RAN),
        (status("TERMINATED", "MAX_JOB_QUEUE_SIZE_EXCEEDED"), Ending.NOTHING_RAN),
        (status("TERMINATED"), Ending.FAILED),
        *(
            (status(word), Ending.ACTIVE)
            for word in ["PENDING", "QUEUED", "BLOCKED", "RUNNING", "TERMINATING", "WAITING"]
        ),
        (status("RUNNING", "SUCCESS"), Ending.ACTIVE),
    ],
    ids=str,
)
def test_A16_status_alone_is_enough(run: dict[str, Any], ending: Ending) -> None:
    outcome = outcome_of(run)
    assert outcome.ending is ending
    assert outcome.known


@pytest.mark.parametrize(
    ("run", "ending"),
    [
        (state("TERMINATED", "SUCCESS") | status("TERMINATED", "SUCCESS"), Ending.SUCCEEDED),
        (state("INTERNAL_ERROR", "FAILED") | status("TERMINATED", "RUN_EXECUTION_ERROR"), Ending.FAILED),
        (state("INTERNAL_ERROR", "FAILED") | status("TERMINATED", "MAX_CONCURRENT_RUNS_EXCEEDED"), Ending.NOTHING_RAN),
        (state("SKIPPED") | status("TERMINATED", "SKIPPED"), Ending.NOTHING_RAN),
    ],
)
def test_A16_both_together(run: dict[str, Any], ending: Ending) -> None:
    assert outcome_of(run).ending is ending


@pytest.mark.parametrize(
    "run",
    [
        state("TERMINATED", "SUCCESS") | status("RUNNING"),
        state("RUNNING") | status("TERMINATED", "SUCCESS"),
        state("TERMINATED", "SUCCESS") | status("TERMINATED", "RUN_EXECUTION_ERROR"),
        state("TERMINATED", "FAILED") | status("TERMINATED", "SUCCESS"),
    ],
    ids=["state is ahead", "status is ahead", "status says failed", "state says failed"],
)
def test_A16_where_the_two_disagree_it_is_no_success(run: dict[str, Any]) -> None:
    assert outcome_of(run).ending is not Ending.SUCCEEDED


def test_an_outcome_is_told_in_the_words_of_the_api() -> None:
    assert str(outcome_of(state("INTERNAL_ERROR", "FAILED", "Task t failed"))) == "INTERNAL_ERROR/FAILED: Task t failed"
    assert (
        str(outcome_of(status("TERMINATED", "RUN_EXECUTION_ERROR", "boom"))) == "TERMINATED/RUN_EXECUTION_ERROR: boom"
    )
    assert str(outcome_of(state("RUNNING"))) == "RUNNING"


PAGE = Path(__file__).parents[2] / "docs" / "outcomes.md"
LIFE_CYCLES = ["TERMINATED", "SKIPPED", "INTERNAL_ERROR", *(word for word in WAITING if word != "WAITING"), "FUTURE"]
_CODES = """
SUCCESS SUCCESS_WITH_FAILURES USER_CANCELED CANCELED SKIPPED INTERNAL_ERROR DRIVER_ERROR CLUSTER_ERROR
REPOSITORY_CHECKOUT_FAILED INVALID_CLUSTER_REQUEST WORKSPACE_RUN_LIMIT_EXCEEDED FEATURE_DISABLED
CLUSTER_REQUEST_LIMIT_EXCEEDED STORAGE_ACCESS_ERROR RUN_EXECUTION_ERROR UNAUTHORIZED_ERROR LIBRARY_INSTALLATION_ERROR
MAX_CONCURRENT_RUNS_EXCEEDED MAX_SPARK_CONTEXTS_EXCEEDED RESOURCE_NOT_FOUND INVALID_RUN_CONFIGURATION CLOUD_FAILURE
MAX_JOB_QUEUE_SIZE_EXCEEDED DISABLED BREAKING_CHANGE BUDGET_POLICY_LIMIT_EXCEEDED CLUSTER_TERMINATED_BY_USER
"""
CODES = [*_CODES.split(), "FUTURE_CODE"]
"""`TerminationCodeCode` of the Jobs API 2.2 ("additional codes might be introduced"), and one more."""
WORDS = {
    (Ending.ACTIVE, True): "active",
    (Ending.ACTIVE, False): "active, unknown",
    (Ending.NOTHING_RAN, True): "nothing ran",
    (Ending.SUCCEEDED, True): "succeeded",
    (Ending.FAILED, True): "failed",
}


def documented() -> list[list[str]]:
    """The rows of the page's first table, without its head."""
    lines = iter(PAGE.read_text().splitlines())
    table = takewhile(lambda line: line.startswith("|"), dropwhile(lambda line: not line.startswith("|"), lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table][2:]


def fits(cell: str, value: str | None, named: set[str]) -> bool:
    if cell == "another":
        return value is not None and value not in named
    return cell == "any" or (value or "none") in cell.split(", ")


def combined(life_cycle: str, result: str | None, code: str | None) -> dict[str, Any]:
    """As the API answers: `status` has fewer words for the same state."""
    over = life_cycle in ("TERMINATED", "SKIPPED", "INTERNAL_ERROR")
    word = "TERMINATED" if over else {"WAITING_FOR_RETRY": "WAITING"}.get(life_cycle, life_cycle)
    return state(life_cycle, result) | status(word, code)


def test_A16_the_page_says_what_the_code_does_for_every_combination() -> None:
    rows = documented()
    named = {word for row in rows for word in row[0].split(", ")}
    used = set()
    for life_cycle, result, code in product(LIFE_CYCLES, RESULTS, [*CODES, None]):
        number, row = next(
            (number, row)
            for number, row in enumerate(rows)
            if all(fits(cell, value, named) for cell, value in zip(row, (life_cycle, result, code), strict=False))
        )
        used.add(number)
        outcome = outcome_of(combined(life_cycle, result, code))
        assert row[3] == WORDS[outcome.ending, outcome.known], (life_cycle, result, code)
    assert used == set(range(len(rows))), "each row decides something"


def test_the_page_names_every_state_result_and_outcome() -> None:
    rows = documented()
    said = [{word for row in rows for word in row[column].split(", ")} for column in range(3)]
    assert said[0] - {"another"} == set(LIFE_CYCLES) - {"FUTURE"}
    assert said[1] - {"any", "none"} == {result for result in RESULTS if result} - {"FUTURE_RESULT"}
    assert said[2] - {"any", "none"} <= set(CODES)
    assert {row[3] for row in rows} == set(WORDS.values())


@pytest.mark.parametrize("result", ["EXCLUDED", "DISABLED", "FUTURE_RESULT", None])
def test_a_failure_with_a_result_that_a_wait_cannot_name_goes_by_failed(result: str | None) -> None:
    assert outcome_of(state("TERMINATED", result)).result_state == "FAILED"
