"""A run that the workspace has forgotten: the postcondition is asked first, and nothing is guessed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.errors import ClaimBlocked, ClaimUndecided, RunFailed
from databricks_bridge.core.protocol.gone import GONE_AFTER
from databricks_bridge.core.record import ClaimStatus, Record
from tests.core.builders import NOW, at, plan_of
from tests.core.driving import FAILED, OK, RUNNING, Script, claim_of, claimed_record, running_record, seen, with_claim


def forgotten(record: Record, *, postcondition: bool = True) -> Script:
    """A process that found its claim's run gone."""
    script = Script(plan_of(postcondition=postcondition)).read(record)
    script.asks(acts.GetRun)
    return script.gone()


def test_A02_a_postcondition_that_holds_commits() -> None:
    script = forgotten(running_record())
    asked = script.asks(acts.Prove)
    assert (asked.claim.token, asked.run_id, asked.gone) == (claim_of(running_record()).token, 11, True)
    record = script.answer(acts.Proved(True)).read(running_record()).written()
    assert (record.claim, record.watermarks["flights"]) == (None, at(5))
    assert script.asks(acts.Finish).run_id == 11


def test_A02_a_postcondition_that_cannot_tell_leaves_it_to_a_person() -> None:
    script = forgotten(running_record())
    record = script.answer(acts.Proved(False, "the checkpoint cannot be read", certain=False)).written()
    assert claim_of(record).status is ClaimStatus.UNDECIDED
    assert record.history[-1].what == "undecided: run 11 is gone, and the checkpoint cannot be read"
    script.fails(ClaimUndecided)


def test_A02_without_a_postcondition_nothing_can_tell() -> None:
    script = forgotten(running_record(), postcondition=False)
    assert claim_of(script.written()).status is ClaimStatus.UNDECIDED


def test_A02_a_postcondition_that_says_no_is_a_failed_run_and_the_next_try_goes_on() -> None:
    script = forgotten(running_record())
    record = script.answer(acts.Proved(False, "flights at 3, not at 5")).written()
    assert (claim_of(record).status, claim_of(record).failures) == (ClaimStatus.FAILED, 1)
    assert "run 11 of" in str(error := script.fails(RunFailed))
    assert "is gone, but its postcondition does not hold: flights at 3, not at 5" in str(error)
    after = forgotten(record).answer(acts.Proved(False, "flights at 3, not at 5")).written()
    assert (claim_of(after).generation, claim_of(after).run_id) == (1, None)


def test_a_run_that_was_gone_before_it_was_noted_is_named_in_the_record() -> None:
    record = claimed_record()
    script = Script(plan_of(postcondition=True)).read(record).look()
    script.asks(acts.StartRun)
    script.answer(acts.RunStarted(11)).gone()
    assert claim_of(script.answer(acts.Proved(False, "no")).written()).run_id == 11


def test_a_blocked_claim_stays_blocked_unless_the_postcondition_holds() -> None:
    blocked = running_record(ClaimStatus.BLOCKED, 3)
    forgotten(blocked).answer(acts.Proved(False, "no")).fails(ClaimBlocked)
    assert forgotten(blocked).answer(acts.Proved(True)).read(blocked).written().claim is None


@pytest.mark.parametrize("status", [ClaimStatus.OPEN, ClaimStatus.FAILED])
def test_it_is_asked_whatever_was_reported_before(status: ClaimStatus) -> None:
    forgotten(running_record(status)).asks(acts.Prove)


def test_a_postcondition_that_holds_for_some_ranges_only_proves_nothing() -> None:
    proof = acts.Proved(True, "its postcondition tells nothing of weather", certain=False)
    record = forgotten(running_record()).answer(proof).written()
    assert claim_of(record).status is ClaimStatus.UNDECIDED
    assert record.watermarks == running_record().watermarks


def test_a_run_that_is_not_shown_once_is_read_again_and_followed() -> None:
    record = running_record()
    script = Script().read(record).answer(acts.RunGone(11)).answer(acts.RunFound(None))
    missing = script.written()
    assert missing.history[-1].what == "run 11 is not shown; looking again"
    assert script.asks(acts.Pause).until == NOW + GONE_AFTER
    script.later(missing).answer(seen(11, RUNNING, claim_of(record)))
    assert claim_of(script.written()) == claim_of(record), "what is shown again was never missing"
    assert script.asks(acts.AwaitRun).run_id == 11


def test_a_run_that_is_not_shown_once_right_after_run_now_is_adopted() -> None:
    record = claimed_record()
    script = Script().read(record).look().answer(acts.RunStarted(11)).answer(acts.RunGone(11))
    script.later(script.answer(acts.RunFound(None)).written())
    assert script.asks(acts.StartRun).claim.token == claim_of(record).token
    script.answer(acts.RunStarted(11)).answer(seen(11, OK, claim_of(record)))
    noted = script.written()
    assert (claim_of(noted).run_id, claim_of(noted).missing) == (11, None)
    assert script.read(noted).written().watermarks["flights"] == at(5)


def test_a_run_that_is_listed_is_not_gone_however_often_it_is_not_shown() -> None:
    script = Script(plan_of(postcondition=True)).read(running_record())
    for _ in range(20):
        script.answer(acts.RunGone(11)).answer(acts.RunFound(11))
        script.later(running_record())
    assert script.asks(acts.GetRun).run_id == 11


def test_another_process_within_minutes_does_not_take_it_for_gone() -> None:
    script = Script(plan_of(postcondition=True)).read(running_record()).answer(acts.RunGone(11))
    missing = script.answer(acts.RunFound(None)).written()
    other = Script(plan_of(postcondition=True), now=NOW + timedelta(seconds=20)).read(missing).answer(acts.RunGone(11))
    assert other.answer(acts.RunFound(None)).asks(acts.Pause).until == NOW + GONE_AFTER


def test_two_workers_with_clocks_hours_apart_measure_the_minutes_by_the_workspace_s_clock() -> None:
    plan = plan_of(postcondition=True)
    slow = Script(plan, now=NOW - timedelta(hours=2), service_now=NOW).read(running_record()).answer(acts.RunGone(11))
    missing = slow.answer(acts.RunFound(None)).written()
    soon = NOW + timedelta(minutes=1)
    other = Script(plan, now=soon, service_now=soon).read(missing).answer(acts.RunGone(11))
    assert other.answer(acts.RunFound(None)).asks(acts.Pause).until == NOW + GONE_AFTER


def test_what_was_missing_before_it_was_shown_again_does_not_count_later() -> None:
    script = Script(plan_of(postcondition=True)).read(running_record()).answer(acts.RunGone(11))
    missing = script.answer(acts.RunFound(None)).written()
    script.later(missing).answer(seen(11, RUNNING, claim_of(missing)))
    script.written()
    script.now = NOW + timedelta(hours=3)
    again = script.answer(acts.RunGone(11)).answer(acts.RunFound(None)).written()
    assert claim_of(again).missing is not None
    script.asks(acts.Pause)


def test_an_undecided_claim_whose_run_is_there_after_all_goes_on() -> None:
    script = forgotten(running_record(), postcondition=False)
    undecided = script.written()
    script.fails(ClaimUndecided)
    script = Script().read(undecided).answer(seen(11, OK, claim_of(undecided)))
    noted = script.written()
    assert claim_of(noted).status is ClaimStatus.OPEN
    assert script.read(noted).written().watermarks["flights"] == at(5)


@pytest.mark.parametrize("state", [RUNNING, FAILED], ids=["active", "failed"])
def test_an_undecided_claim_is_what_its_run_is(state: dict[str, str]) -> None:
    undecided = forgotten(running_record(), postcondition=False).written()
    script = Script().read(undecided).answer(seen(11, state, claim_of(undecided)))
    assert claim_of(script.written()).status is ClaimStatus.OPEN
    if state is RUNNING:
        script.asks(acts.AwaitRun)
    else:
        assert claim_of(script.written()).status is ClaimStatus.FAILED
        script.fails(RunFailed)


def test_an_undecided_claim_whose_run_had_other_parameters_stays_so_and_nothing_is_written() -> None:
    record = with_claim(running_record(), status=ClaimStatus.UNDECIDED)
    Script().read(record).answer(seen(11, OK, claim_of(record), region="CA")).fails(ClaimUndecided)
    script = Script().read(record).answer(seen(11, OK, claim_of(record)))
    assert claim_of(script.written()).status is ClaimStatus.OPEN
