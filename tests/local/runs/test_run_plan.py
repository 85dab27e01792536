"""The order of tasks, run_if, retries and how a run ends: decisions over plain values."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.local.runs.model import Attempt, IllegalTransition, Outcome, Phase, step
from databricks_bridge.local.runs.plan import (
    RUN_IF,
    Act,
    Conclude,
    Settle,
    Start,
    conclude,
    downstream_keys,
    retry_allowed,
)
from databricks_bridge.local.runs.progress import Progress

CHAIN: list[dict[str, Any]] = [
    {"task_key": "a"},
    {"task_key": "b", "depends_on": [{"task_key": "a"}]},
    {"task_key": "c", "depends_on": [{"task_key": "b"}]},
]


def attempt(key: str, phase: Phase = Phase.PENDING, outcome: Outcome | None = None, message: str = "") -> Attempt:
    return Attempt(
        run_id=hash(key), job_run_id=1, task_key=key, number=0, round=0, phase=phase, outcome=outcome, message=message
    )


def ended(key: str, outcome: Outcome, message: str = "") -> Attempt:
    return attempt(key, Phase.DONE, outcome, message)


def latest(*attempts: Attempt) -> dict[str, Attempt]:
    return {item.task_key: item for item in attempts}


def next_acts(tasks: list[dict[str, Any]], attempts: dict[str, Attempt]) -> list[Act]:
    return Progress(tasks, attempts.values()).acts()


def test_only_tasks_whose_upstream_has_ended_start() -> None:
    acts = next_acts(CHAIN, latest(attempt("a"), attempt("b", Phase.BLOCKED), attempt("c", Phase.BLOCKED)))
    assert acts == [Start(attempt("a"))]


def test_a_running_task_is_waited_for() -> None:
    tasks = latest(attempt("a", Phase.RUNNING), attempt("b", Phase.BLOCKED), attempt("c", Phase.BLOCKED))
    assert next_acts(CHAIN, tasks) == []


def test_a_retry_that_waits_is_started() -> None:
    tasks = latest(attempt("a", Phase.WAITING_FOR_RETRY), attempt("b", Phase.BLOCKED), attempt("c", Phase.BLOCKED))
    assert next_acts(CHAIN, tasks) == [Start(attempt("a", Phase.WAITING_FOR_RETRY))]


def test_each_task_is_said_once_and_the_end_when_all_have_ended() -> None:
    progress = Progress(CHAIN, [attempt("a"), attempt("b", Phase.BLOCKED), attempt("c", Phase.BLOCKED)])
    assert progress.acts() == [Start(attempt("a"))]
    assert progress.acts() == []
    progress.take(attempt("a", Phase.WAITING_FOR_RETRY))
    assert progress.acts() == [Start(attempt("a", Phase.WAITING_FOR_RETRY))]
    for key, below in (("a", "b"), ("b", "c")):
        progress.take(ended(key, Outcome.SUCCESS))
        assert progress.acts() == [Start(attempt(below, Phase.BLOCKED))]
    progress.take(ended("c", Outcome.FAILED, "no"))
    assert progress.acts() == [Conclude(Outcome.FAILED, "Task c failed with message: no")]


def test_a_task_that_names_one_twice_waits_for_it_once_and_one_that_names_two_for_both() -> None:
    branches = [{"task_key": "a", "outcome": "true"}, {"task_key": "a", "outcome": "false"}]
    tasks: list[dict[str, Any]] = [
        {"task_key": "c", "depends_on": [{"task_key": "a"}, {"task_key": "b"}], "run_if": "ALL_DONE"},
        {"task_key": "d", "depends_on": branches, "run_if": "ALL_DONE"},
        {"task_key": "a"},
        {"task_key": "b"},
    ]
    waiting = {key: attempt(key, Phase.BLOCKED) for key in "cd"}
    progress = Progress(tasks, [attempt("a"), attempt("b"), *waiting.values()])
    assert progress.acts() == [Start(attempt("a")), Start(attempt("b"))]
    progress.take(ended("a", Outcome.SUCCESS))
    assert progress.acts() == [Start(waiting["d"])]
    progress.take(ended("b", Outcome.FAILED))
    assert progress.acts() == [Start(waiting["c"])]


@pytest.mark.parametrize(
    ("upstream", "outcome"),
    [
        (Outcome.FAILED, Outcome.UPSTREAM_FAILED),
        (Outcome.UPSTREAM_FAILED, Outcome.UPSTREAM_FAILED),
        (Outcome.TIMEDOUT, Outcome.UPSTREAM_FAILED),
        (Outcome.BROKEN, Outcome.UPSTREAM_FAILED),
        (Outcome.CANCELED, Outcome.UPSTREAM_CANCELED),
        (Outcome.EXCLUDED, Outcome.EXCLUDED),
    ],
)
def test_a_task_whose_upstream_did_not_succeed_is_settled_by_name(upstream: Outcome, outcome: Outcome) -> None:
    (act,) = next_acts(CHAIN[:2], latest(ended("a", upstream), attempt("b", Phase.BLOCKED)))
    assert isinstance(act, Settle)
    assert act.outcome is outcome


@pytest.mark.parametrize(
    ("condition", "upstream", "runs"),
    [
        ("ALL_SUCCESS", [Outcome.SUCCESS, Outcome.SUCCESS], True),
        ("ALL_SUCCESS", [Outcome.SUCCESS, Outcome.FAILED], False),
        ("AT_LEAST_ONE_SUCCESS", [Outcome.SUCCESS, Outcome.FAILED], True),
        ("AT_LEAST_ONE_SUCCESS", [Outcome.FAILED, Outcome.FAILED], False),
        ("NONE_FAILED", [Outcome.SUCCESS, Outcome.EXCLUDED], True),
        ("NONE_FAILED", [Outcome.EXCLUDED, Outcome.EXCLUDED], False),
        ("NONE_FAILED", [Outcome.SUCCESS, Outcome.FAILED], False),
        ("ALL_DONE", [Outcome.FAILED, Outcome.CANCELED], True),
        ("AT_LEAST_ONE_FAILED", [Outcome.SUCCESS, Outcome.FAILED], True),
        ("AT_LEAST_ONE_FAILED", [Outcome.SUCCESS, Outcome.SUCCESS], False),
        ("ALL_FAILED", [Outcome.FAILED, Outcome.TIMEDOUT], True),
        ("ALL_FAILED", [Outcome.FAILED, Outcome.SUCCESS], False),
    ],
)
def test_run_if(condition: str, upstream: list[Outcome], runs: bool) -> None:
    assert RUN_IF[condition](upstream) is runs


def test_a_failed_leaf_fails_the_run_with_databricks_words() -> None:
    tasks = latest(ended("a", Outcome.SUCCESS), ended("b", Outcome.FAILED, "Workload failed, see run output."))
    assert conclude(CHAIN[:2], tasks) == Conclude(
        Outcome.FAILED, "Task b failed with message: Workload failed, see run output."
    )


def test_the_message_names_the_cause_and_not_what_followed_from_it() -> None:
    tasks = latest(ended("a", Outcome.FAILED, "no"), ended("b", Outcome.UPSTREAM_FAILED, "An upstream task failed."))
    assert conclude(CHAIN[:2], tasks) == Conclude(Outcome.FAILED, "Task a failed with message: no")


def test_a_failure_that_a_leaf_recovered_from_is_success_with_failures() -> None:
    tasks = latest(ended("a", Outcome.FAILED, "no"), ended("b", Outcome.SUCCESS))
    assert conclude(CHAIN[:2], tasks).outcome is Outcome.SUCCESS_WITH_FAILURES


def test_a_fault_of_the_workspace_itself_is_told_from_a_failed_notebook() -> None:
    assert conclude([{"task_key": "a"}], latest(ended("a", Outcome.BROKEN, "restarted"))).outcome is Outcome.BROKEN


@pytest.mark.parametrize(
    ("task", "outcome", "made", "again"),
    [
        ({}, Outcome.FAILED, 1, False),
        ({"max_retries": 1}, Outcome.FAILED, 1, True),
        ({"max_retries": 1}, Outcome.FAILED, 2, False),
        ({"max_retries": -1}, Outcome.FAILED, 99, True),
        ({"max_retries": 1}, Outcome.BROKEN, 1, True),
        ({"max_retries": 1}, Outcome.TIMEDOUT, 1, False),
        ({"max_retries": 1, "retry_on_timeout": True}, Outcome.TIMEDOUT, 1, True),
        ({"max_retries": 1}, Outcome.CANCELED, 1, False),
        ({"max_retries": 1}, Outcome.SUCCESS, 1, False),
    ],
)
def test_retries(task: dict[str, object], outcome: Outcome, made: int, again: bool) -> None:
    assert retry_allowed(task, outcome, made) is again


def test_downstream_keys_reach_all_the_way() -> None:
    assert downstream_keys(CHAIN, ["b"]) == {"b", "c"}


def test_a_run_that_has_ended_does_not_run_again_by_itself() -> None:
    with pytest.raises(IllegalTransition):
        step(Phase.DONE, Phase.RUNNING)
    assert step(Phase.DONE, Phase.PENDING) is Phase.PENDING
