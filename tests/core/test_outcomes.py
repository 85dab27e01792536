"""The verdict on every pair of life cycle and result that the Jobs API documents, and on some it may invent."""

from __future__ import annotations

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
