"""A success that has to be proved, and what is said where it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.errors import ClaimBlocked, RunFailed
from databricks_bridge.core.record import ClaimStatus, Record
from tests.core.builders import at, plan_of
from tests.core.driving import (
    FAILED,
    OK,
    RUNNING,
    SKIPPED,
    Script,
    claim_of,
    running_record,
    seen,
)

PROVING = plan_of(postcondition=True)


def proving(record: Record, state: dict[str, Any] = OK, **changes: Any) -> Script:
    claim = claim_of(record)
    return Script(replace(PROVING, **changes)).read(record).answer(seen(claim.run_id or 0, state, claim))


@pytest.mark.parametrize("status", [ClaimStatus.OPEN, ClaimStatus.FAILED, ClaimStatus.BLOCKED])
def test_a_success_that_is_proved_is_committed(status: ClaimStatus) -> None:
    record = running_record(status, failures=1)
    script = proving(record)
    assert script.asks(acts.Prove) == acts.Prove(claim_of(record), 11)
    committed = script.answer(acts.Proved(True)).read(record).written()
    assert (committed.claim, committed.watermarks) == (None, {"flights": at(5)})
    assert script.asks(acts.Finish).run_id == 11


def test_a_success_that_is_not_proved_is_a_failure_that_counts_and_says_why() -> None:
    record = running_record()
    script = proving(record).answer(acts.Proved(False, "the checkpoint is at 4, the claim ends at 5"))
    after = script.written()
    assert (claim_of(after).status, claim_of(after).failures, claim_of(after).run_id) == (ClaimStatus.FAILED, 1, 11)
    assert after.watermarks == record.watermarks
    error = script.fails(RunFailed)
    assert error.run_id == 11
    assert str(error) == (
        f"run 11 of {claim_of(record).target} for {claim_of(record)} succeeded, but its postcondition does not hold: the "
        "checkpoint is at 4, the claim ends at 5; the next try asks it again, and starts the next generation if it still says no"
    )
    assert claim_of(after).denied == "the checkpoint is at 4, the claim ends at 5"
    assert after.history[-1].what == (
        "run 11 succeeded, but its postcondition does not hold: the checkpoint is at 4, the claim ends at 5, failed"
    )


def test_the_next_try_asks_once_more_and_then_starts_the_next_generation() -> None:
    record = running_record(ClaimStatus.FAILED, failures=1)
    script = proving(record).answer(acts.Proved(False, "still at 4"))
    after = script.written()
    claim = claim_of(after)
    assert (claim.generation, claim.failures, claim.run_id, claim.not_before) == (1, 1, None, None)
    assert script.read(after).look().asks(acts.StartRun).claim == claim


def test_the_last_success_without_proof_that_is_allowed_blocks() -> None:
    script = proving(running_record(failures=2)).answer(acts.Proved(False, "at 4"))
    assert claim_of(script.written()).status is ClaimStatus.BLOCKED
    assert "no more runs are started" in str(script.fails(RunFailed))
    blocked = proving(running_record(ClaimStatus.BLOCKED, failures=3)).answer(acts.Proved(False, "at 4"))
    said = str(blocked.fails(ClaimBlocked))
    assert "the last is 11, which succeeded, but its postcondition does not hold: at 4" in said
    assert "once the postcondition holds, the next try commits" in said
    assert "until it is repaired" not in said


@pytest.mark.parametrize("state", [FAILED, SKIPPED, RUNNING])
def test_only_a_success_is_asked_for_its_proof(state: dict[str, Any]) -> None:
    assert not isinstance(proving(running_record(), state).act, acts.Prove)


def test_a_success_with_other_parameters_is_not_asked_for_its_proof() -> None:
    record = running_record()
    script = Script(PROVING).read(record).answer(seen(11, OK, claim_of(record), flights_end="4"))
    assert claim_of(script.written()).status is ClaimStatus.UNDECIDED


def test_without_a_postcondition_nothing_is_proved() -> None:
    record = running_record()
    Script().read(record).answer(seen(11, OK, claim_of(record))).asks(acts.ReadRecord)
