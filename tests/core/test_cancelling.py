"""When a person must have marked a task, and what a cancelled run leaves in the record."""

from __future__ import annotations

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.cancelling import Pulse, cancelled, is_run_of, marked_by_person
from databricks_bridge.core.record import ClaimStatus
from tests.core.builders import NOW
from tests.core.driving import OK, Script, claim_of, claimed_record, running_record, seen

CANCELED = {"life_cycle_state": "TERMINATED", "result_state": "CANCELED"}


@pytest.mark.parametrize(
    "state",
    [
        None,
        "running",
        "restarting",
        "deferred",
        "scheduled",
        "queued",
        "up_for_retry",
        "skipped",
        "removed",
        "upstream_failed",
    ],
)
def test_A10_clear_shutdown_eviction_and_take_over_are_no_mark(state: str | None) -> None:
    assert marked_by_person(state, retries_left=True, fail_fast=False, steady=True) is None


@pytest.mark.parametrize("retries_left", [True, False])
@pytest.mark.parametrize("fail_fast", [True, False])
def test_only_a_person_marks_success(retries_left: bool, fail_fast: bool) -> None:
    assert marked_by_person("success", retries_left=retries_left, fail_fast=fail_fast, steady=True) == "success"


@pytest.mark.parametrize(
    ("retries_left", "fail_fast", "marked"),
    [(True, False, "failed"), (False, False, None), (True, True, None), (False, True, None)],
    ids=["a lost heartbeat would be up_for_retry", "a lost heartbeat", "another task failed", "either"],
)
def test_failed_is_a_mark_only_where_airflow_itself_would_not_say_so(
    retries_left: bool, fail_fast: bool, marked: str | None
) -> None:
    assert marked_by_person("failed", retries_left=retries_left, fail_fast=fail_fast, steady=True) == marked


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_process_that_stood_still_believes_nothing(state: str) -> None:
    assert marked_by_person(state, retries_left=True, fail_fast=False, steady=False) is None


def test_a_pulse_remembers_that_it_stopped() -> None:
    times = iter([0.0, 10.0, 35.0, 60.1, 60.2])
    pulse = Pulse(25.0, lambda: next(times))
    steady = []
    for _ in range(4):
        pulse.beat()
        steady.append(pulse.steady)
    assert steady == [True, True, False, False]


def test_a_cancelled_run_is_no_failure_and_the_next_process_starts_the_next_generation() -> None:
    record = cancelled(running_record(), "a person marked the task failed", NOW)
    assert record.history[-1].what == "run 11 cancelled: a person marked the task failed"
    assert (claim_of(record).status, claim_of(record).failures) == (ClaimStatus.FAILED, 0)
    script = Script().read(record)
    script.asks(acts.GetRun)
    script.answer(seen(11, CANCELED, claim_of(record)))
    after = claim_of(script.written())
    assert (after.generation, after.failures, after.run_id) == (1, 0, None)


def test_a_run_that_was_done_before_the_cancel_arrived_is_committed() -> None:
    record = cancelled(running_record(), "a person marked the task failed", NOW)
    script = Script().read(record)
    script.answer(seen(11, OK, claim_of(record))).read(record)
    assert script.written().claim is None


def test_only_the_run_of_the_open_claim_is_ours() -> None:
    assert is_run_of(running_record(), 11)
    assert not is_run_of(running_record(), 12)
    assert not is_run_of(claimed_record(), 11)


def test_a_cancelled_run_that_is_still_ending_is_no_failure() -> None:
    record = cancelled(running_record(), "a person marked the task failed", NOW)
    script = Script().read(record).answer(seen(11, {"life_cycle_state": "TERMINATING"}, claim_of(record)))
    script.asks(acts.AwaitRun)
    over = {"life_cycle_state": "TERMINATED", "result_state": "CANCELED"}
    after = claim_of(script.answer(seen(11, over, claim_of(record))).written())
    assert (after.generation, after.failures, after.run_id) == (1, 0, None)
