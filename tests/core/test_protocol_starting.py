"""run-now that does not start a run: the token's run was deleted; and tokens that may be forgotten, by whose clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.cancelling import cancelled
from databricks_bridge.core.errors import ClaimUndecided
from databricks_bridge.core.record import Claim, ClaimStatus, record_from_json
from tests.core.builders import NOW, at, plan_of
from tests.core.driving import OK, RUNNING, Script, claim_of, claimed_record, running_record, seen, with_claim

CANCELED = {"life_cycle_state": "TERMINATED", "result_state": "CANCELED"}


def refused(*, postcondition: bool = False) -> Script:
    """A process whose run-now is refused, since the run of the claim's token was deleted."""
    script = Script(plan_of(postcondition=postcondition)).read(claimed_record()).look()
    return script.answer(acts.TokenSpent("The run 11 of this idempotency_token was deleted", 11))


def test_a_token_whose_run_was_deleted_is_given_up_for_the_next_generation() -> None:
    script = refused()
    assert script.asks(acts.FindRun).run_id == 11
    after = script.answer(acts.RunFound(None)).written()
    claim = claim_of(after)
    assert (claim.generation, claim.failures, claim.run_id, claim.status) == (1, 0, None, ClaimStatus.OPEN)
    assert claim.token != claim_of(claimed_record()).token
    assert after.history[-1].what == (
        "generation 1: the run of generation 0 was deleted: The run 11 of this idempotency_token was deleted"
    )
    assert script.read(after).look().asks(acts.StartRun).claim == claim


def test_a_run_that_is_listed_with_the_token_is_adopted_whatever_run_now_says() -> None:
    script = refused().answer(acts.RunFound(12))
    assert script.asks(acts.GetRun).run_id == 12
    assert claim_of(script.answer(seen(12, RUNNING, claim_of(claimed_record()))).written()).run_id == 12


def test_the_postcondition_is_asked_first_what_a_deleted_run_has_done() -> None:
    script = refused(postcondition=True).answer(acts.RunFound(None))
    assert (script.asks(acts.Prove).run_id, script.asks(acts.Prove).gone) == (11, True)
    committed = script.answer(acts.Proved(True)).read(claimed_record()).written()
    assert (committed.claim, committed.watermarks["flights"]) == (None, at(5))


def test_a_postcondition_that_says_no_of_a_deleted_run_opens_the_next_generation() -> None:
    script = refused(postcondition=True).answer(acts.RunFound(None)).answer(acts.Proved(False, "at 3"))
    assert claim_of(script.written()).generation == 1


def test_a_postcondition_that_cannot_tell_of_a_deleted_run_leaves_it_to_a_person() -> None:
    script = refused(postcondition=True).answer(acts.RunFound(None))
    record = script.answer(acts.Proved(False, "it cannot be read", certain=False)).written()
    assert (claim_of(record).status, claim_of(record).run_id) == (ClaimStatus.UNDECIDED, 11)
    script.fails(ClaimUndecided)


def test_a_deleted_run_whose_id_nobody_told_is_undecided_without_one() -> None:
    script = Script(plan_of(postcondition=True)).read(claimed_record()).look().answer(acts.TokenSpent("deleted"))
    script.answer(acts.RunFound(None))
    record = script.answer(acts.Proved(False, "it cannot be read", certain=False)).written()
    assert claim_of(record).run_id is None
    script.fails(ClaimUndecided)
    assert "which was deleted" in str(Script().read(record).fails(ClaimUndecided))


def aged(hours: float, *, local: float, service: float | None) -> Script:
    """A claim without a run that is so old, before a process whose clock, and the workspace's, are that much ahead."""
    record = with_claim(claimed_record(), created_at=NOW - timedelta(hours=hours))
    script = Script(now=NOW + timedelta(hours=local))
    script.service_now = None if service is None else NOW + timedelta(hours=service)
    return script.read(record).look()


@pytest.mark.parametrize("local", [-13.0, -2.0, 0.0, 2.0, 13.0])
def test_a_claim_of_25_hours_is_searched_for_whatever_the_worker_s_clock_says(local: float) -> None:
    script = aged(25, local=local, service=0)
    script.asks(acts.FindRun)
    assert script.answer(acts.RunFound(11)).asks(acts.GetRun).run_id == 11


@pytest.mark.parametrize("local", [-2.0, 0.0, 2.0])
def test_without_the_workspace_s_clock_two_hours_either_way_do_no_harm(local: float) -> None:
    aged(25, local=local, service=None).asks(acts.FindRun)


@pytest.mark.parametrize("ahead", [1.0, 2.0])
def test_a_claim_that_a_fast_clock_wrote_is_no_younger_for_it(ahead: float) -> None:
    aged(25 - ahead, local=0, service=0).asks(acts.FindRun)


def test_a_young_claim_before_a_worker_whose_clock_is_off_is_searched_for_and_then_started_at_once() -> None:
    script = aged(1, local=30, service=0)
    script.asks(acts.FindRun)
    script.answer(acts.RunFound(None)).asks(acts.StartRun)


def test_an_old_claim_is_started_only_when_its_run_was_missing_twice() -> None:
    script = aged(25, local=0, service=0)
    missing = script.answer(acts.RunFound(None)).written()
    script.now = script.service_now = script.asks(acts.Pause).until
    script.answer(acts.Woke()).read(missing).look().asks(acts.FindRun)
    script.answer(acts.RunFound(None)).asks(acts.StartRun)


def test_a_listing_that_was_late_is_believed_the_second_time() -> None:
    script = aged(25, local=0, service=0)
    script.later(script.answer(acts.RunFound(None)).written())
    assert script.answer(acts.RunFound(11)).asks(acts.GetRun).run_id == 11


def test_a_claim_is_dated_by_the_workspace_s_clock() -> None:
    script = Script(now=NOW + timedelta(hours=2), service_now=NOW).first_start().look()
    assert claim_of(script.written()).created_at == NOW


def cancelled_claim() -> Claim:
    return claim_of(cancelled(running_record(), "a person marked the task failed", NOW))


@pytest.mark.parametrize("life_cycle", ["RUNNING", "PENDING", "TERMINATING"])
def test_a_run_that_we_cancelled_is_not_followed_as_a_new_one_while_it_still_runs(life_cycle: str) -> None:
    record = cancelled(running_record(), "a person marked the task failed", NOW)
    script = Script().read(record).answer(seen(11, {"life_cycle_state": life_cycle}, claim_of(record)))
    assert script.asks(acts.AwaitRun).run_id == 11
    after = claim_of(script.answer(seen(11, CANCELED, claim_of(record))).written())
    assert (after.generation, after.failures, after.status, after.cancelled) == (1, 0, ClaimStatus.OPEN, False)


def test_a_run_that_we_cancelled_too_late_is_committed() -> None:
    record = cancelled(running_record(), "a person marked the task failed", NOW)
    script = Script().read(record).answer(seen(11, RUNNING, claim_of(record))).answer(seen(11, OK, claim_of(record)))
    assert script.read(record).written().watermarks["flights"] == at(5)


def test_what_is_rare_in_a_claim_survives_the_ledger_and_takes_no_room_where_it_is_not() -> None:
    missing = Script().read(running_record()).answer(acts.RunGone(11)).answer(acts.RunFound(None)).written()
    record = with_claim(missing, cancelled=True, denied="at 4")
    assert record_from_json(record.to_json()) == record
    assert not {"missing", "cancelled", "denied"} & claim_of(running_record()).to_json().keys()
