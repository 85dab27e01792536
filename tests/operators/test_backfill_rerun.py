"""A cleared backfill: found again by default, run again with `rerun=True`, and never twice by a retry (T18)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge.core.backfill import first_try_since_clear
from databricks_bridge.core.errors import InvalidArgument, RunFailed
from tests.local.local_kit import failure
from tests.operators.conftest import Bench

RANGE = {"flights": (0, 2)}
CLEARED = {"try_number": 2, "max_tries": 3}
"""The second try, of a task with two retries that a person cleared after its first."""


@pytest.fixture
def long(bench: Bench) -> Bench:
    for _ in range(3):
        bench.commit()
    return bench


def go(bench: Bench, rerun: Any = True, deferrable: bool = False, **ti: int) -> int:
    task = bench.operator(range=RANGE, rerun=rerun, deferrable=deferrable)
    return int(bench.run(task, **ti)["run_id"])


@pytest.mark.parametrize("rerun", [True, "True", " true "])
def test_a_clear_runs_the_range_again_once(long: Bench, rerun: Any) -> None:
    first = go(long, rerun)
    second = go(long, rerun, **CLEARED)
    assert second != first
    assert go(long, rerun, try_number=3, max_tries=3) == second, "a retry of it"
    third = go(long, rerun, try_number=4, max_tries=5)
    assert third not in (first, second)
    assert len(long.runs()) == 3
    assert long.bounds() == [(0, 2)] * 3


def test_a_retry_without_a_clear_finds_the_same_run(long: Bench) -> None:
    first = go(long)
    assert [go(long, try_number=number) for number in (2, 3)] == [first, first]
    assert len(long.runs()) == 1


@pytest.mark.parametrize("rerun", [False, "False", "None", ""])
def test_by_default_a_clear_finds_the_same_run_and_says_so(
    long: Bench, caplog: pytest.LogCaptureFixture, rerun: Any
) -> None:
    first = go(long, rerun)
    with caplog.at_level(logging.WARNING):
        assert go(long, rerun, **CLEARED) == first
    assert f"run {first} did this range before a person cleared the task" in caplog.text
    assert "rerun=True" in caplog.text
    assert len(long.runs()) == 1


def test_a_retry_says_nothing_of_a_clear(long: Bench, caplog: pytest.LogCaptureFixture) -> None:
    go(long, False)
    with caplog.at_level(logging.WARNING):
        go(long, False, try_number=2)
    assert "cleared" not in caplog.text


def test_a_run_from_before_the_clear_that_is_under_way_is_followed(long: Bench) -> None:
    long.notebooks.block("gold")
    awaited = []
    for ti in ({}, CLEARED):
        task = long.operator(range=RANGE, rerun=True, deferrable=True)
        with pytest.raises(TaskDeferred) as deferred:
            long.run(task, **ti)
        awaited.append(deferred.value.trigger.serialize()[1]["run_id"])
    assert awaited[0] == awaited[1]
    long.notebooks.unblock("gold")
    long.api.ended(awaited[0])
    event = {"status": "ready", "run_id": awaited[0], "deadline": "2100-01-01T00:00:00+00:00"}
    assert task.execute_complete(long.context(task, **CLEARED), event)["run_id"] == awaited[0]
    assert len(long.runs()) == 1


def test_after_a_failure_in_the_cleared_try_the_next_one_starts_another(long: Bench) -> None:
    first = go(long)
    answers = [failure("ValueError: bad row")]
    ok = failure("").__class__(succeeded=True, exit_value=None, error=None, error_trace=None)
    long.notebooks.functions["gold"] = lambda run: answers.pop() if answers else ok
    with pytest.raises(RunFailed):
        go(long, **CLEARED)
    assert go(long, try_number=3, max_tries=3) != first
    assert len(long.runs()) == 3


def test_what_is_neither_true_nor_false_is_refused_at_parse(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="rerun is 'perhaps'; give True or False"):
        bench.operator(range=RANGE, rerun="perhaps")
    bench.operator(range=RANGE, rerun="{{ params.rerun }}")


@pytest.mark.parametrize(
    ("max_tries", "retries", "first"), [(2, 2, 0), (3, 2, 2), (6, 2, 5), (0, 0, 0), (1, 0, 2), (1, 2, 0)]
)
def test_the_first_try_since_a_clear(max_tries: int, retries: int, first: int) -> None:
    assert first_try_since_clear(max_tries, retries) == first
