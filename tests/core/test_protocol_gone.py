"""A run that the workspace has forgotten: the postcondition is asked first, and nothing is guessed."""

from __future__ import annotations

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.errors import ClaimBlocked, ClaimUndecided, RunFailed
from databricks_bridge.core.record import ClaimStatus, Record
from tests.core.builders import at, plan_of
from tests.core.driving import Script, claim_of, claimed_record, running_record


def forgotten(record: Record, *, postcondition: bool = True) -> Script:
    """A process that found its claim's run gone."""
    script = Script(plan_of(postcondition=postcondition)).read(record)
    script.asks(acts.GetRun)
    return script.answer(acts.RunGone(11))


def test_A02_a_postcondition_that_holds_commits() -> None:
    script = forgotten(running_record())
    assert script.asks(acts.Prove) == acts.Prove(claim_of(running_record()), 11, gone=True)
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
    assert "flights at 3, not at 5" in str(script.fails(RunFailed))
    after = forgotten(record).answer(acts.Proved(False, "flights at 3, not at 5")).written()
    assert (claim_of(after).generation, claim_of(after).run_id) == (1, None)


def test_a_run_that_was_gone_before_it_was_noted_is_named_in_the_record() -> None:
    record = claimed_record()
    script = Script(plan_of(postcondition=True)).read(record).look()
    script.asks(acts.StartRun)
    script.answer(acts.RunStarted(11)).answer(acts.RunGone(11))
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
