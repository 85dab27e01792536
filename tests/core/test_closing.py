"""A record that is not in use any more: moved, renamed, retired; what a task that still uses it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given

from databricks_bridge.core import acts, closing
from databricks_bridge.core.around import begin_commit
from databricks_bridge.core.closing import Closed, How, closed
from databricks_bridge.core.errors import ClaimError, ConsumerMismatch, InvalidArgument, LedgerError
from databricks_bridge.core.positions import Range
from databricks_bridge.core.protocol import step
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Claim, ClaimStatus, Record, record_from_json, token_of
from databricks_bridge.core.repair import Verdict, resolved, rewound
from databricks_bridge.core.stuck import due_since
from tests.core.builders import NOW, TARGET, at, plan_of, records, seconds
from tests.core.driving import Script

WHY = Reason("ada", "the gold table has another name")
RECORD = Record("delays", TARGET.consumer, {"flights": at(5)}, epoch="e0", revision=9)
CLAIM = Claim((Range("flights", "main.silver.flights", at(5), at(8)),), "t" * 64, 0, TARGET, (), NOW, run_id=11)
CLOSE: dict[str, Callable[[Record], Record]] = {
    "moved to s3://new": lambda record: closing.moved_away(record, "s3://new", WHY, NOW),
    "renamed to late": lambda record: closing.renamed_away(record, "late", WHY, NOW),
    "retired": lambda record: closing.retired(record, WHY, NOW),
}


@pytest.mark.parametrize("how", CLOSE)
def test_a_closed_record_keeps_its_marks_and_says_who_and_why(how: str) -> None:
    left = CLOSE[how](RECORD)
    state = closed(left)
    assert state is not None
    assert (str(state), state.consumer) == (how, TARGET.consumer)
    assert (left.watermarks, left.epoch, left.revision) == (RECORD.watermarks, RECORD.epoch, 10)
    assert left.history[-1].what == f"{how} by ada: the gold table has another name"
    assert closed(record_from_json(left.to_json())) == state


@pytest.mark.parametrize("how", ["renamed to late", "retired"])
@pytest.mark.parametrize("status", list(ClaimStatus))
def test_nothing_is_closed_while_a_claim_is_open(how: str, status: ClaimStatus) -> None:
    with pytest.raises(ClaimError, match="claim resolve"):
        CLOSE[how](replace(RECORD, claim=replace(CLAIM, status=status)))


@pytest.mark.parametrize("status", list(ClaimStatus))
def test_an_open_claim_moves_along_and_is_none_of_the_old_ledger(status: ClaimStatus) -> None:
    record = replace(RECORD, claim=replace(CLAIM, status=status))
    left = closing.moved_away(record, "s3://new", WHY, NOW)
    parked = closing.parked(left, "airflow", None, NOW)
    assert closing.arrived(left, parked, NOW).claim == record.claim
    assert due_since(record) is not None
    assert due_since(left) is None
    with pytest.raises(LedgerError, match="moved to s3://new; work on it there"):
        resolved(left, Verdict.VOID, WHY, NOW, "e")


def test_another_consumer_goes_on_where_the_old_one_left_off() -> None:
    after = closing.retargeted(RECORD, "http://w job 8", WHY, NOW, "fresh")
    assert (after.consumer, after.watermarks, after.epoch) == ("http://w job 8", RECORD.watermarks, "fresh")
    assert after.history[-1].what == (
        f"retargeted from {RECORD.consumer} to http://w job 8 by ada: the gold table has another name"
    )
    with pytest.raises(ClaimError, match="claim resolve"):
        closing.retargeted(replace(RECORD, claim=CLAIM), "http://w job 8", WHY, NOW, "fresh")
    with pytest.raises(InvalidArgument, match="already"):
        closing.retargeted(RECORD, RECORD.consumer, WHY, NOW, "fresh")
    with pytest.raises(LedgerError, match="retired"):
        closing.retargeted(closing.retired(RECORD, WHY, NOW), "http://w job 8", WHY, NOW, "fresh")


@pytest.mark.parametrize("how", CLOSE)
def test_a_closed_record_cannot_be_worked_on_or_closed_again(how: str) -> None:
    left = CLOSE[how](RECORD)
    with pytest.raises(LedgerError, match=how):
        rewound(left, "flights", at(1), WHY, NOW, "e")
    for again in CLOSE.values():
        with pytest.raises(LedgerError, match=how):
            again(left)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("moved to s3://new", r"moved to the ledger s3://new: set ledger='s3://new'"),
        ("renamed to late", r"'delays' was renamed to 'late': use that name"),
        ("retired", r"'delays' is retired.*subscription retire delays --undo"),
    ],
)
def test_a_task_that_still_uses_it_gets_one_clear_error_and_no_first_start(how: str, told: str) -> None:
    left = CLOSE[how](RECORD)
    error = Script().read(left).fails(ConsumerMismatch)
    with pytest.raises(ConsumerMismatch, match=told):
        raise error
    memory, _ = begin_commit("t" * 64)
    _, act = step(plan_of(), memory, acts.RecordRead(left), NOW)
    assert isinstance(act, acts.Fail)
    assert isinstance(act.error, ConsumerMismatch)


def test_a_record_comes_to_its_new_ledger_in_three_writes_of_which_none_leaves_two_in_use() -> None:
    left = closing.moved_away(RECORD, "s3://new", WHY, NOW)
    parked = closing.parked(left, "airflow", None, NOW)
    arrived = closing.arrived(left, parked, NOW)
    assert closed(left) == Closed(How.MOVED, "s3://new", TARGET.consumer)
    assert closed(parked) == Closed(How.EXPECTED, "airflow", TARGET.consumer)
    assert closed(arrived) is None
    assert (left.revision, parked.revision, arrived.revision) == (10, 1, 2)
    assert (arrived.consumer, arrived.watermarks, arrived.epoch) == (TARGET.consumer, RECORD.watermarks, "e0")
    with pytest.raises(ConsumerMismatch, match="did not end: run it again"):
        closing.refuse_closed(parked)


def test_after_a_rename_no_old_token_answers() -> None:
    left = closing.renamed_away(RECORD, "late", WHY, NOW)
    parked = closing.parked(left, "delays", None, NOW)
    late = closing.arrived(left, parked, NOW, "e1")
    assert (late.subscription, late.epoch, late.watermarks) == ("late", "e1", RECORD.watermarks)
    back = closing.renamed_away(late, "delays", WHY, NOW)
    again = closing.arrived(back, closing.parked(back, "late", left, NOW), NOW, "e2")
    assert (again.subscription, closed(again), again.revision) == ("delays", None, left.revision + 2)
    tokens = {
        token_of(one.subscription, TARGET, one.epoch, one.watermarks, generation)
        for one in (RECORD, late, again)
        for generation in (0, 1)
    }
    assert len(tokens) == 6


@pytest.mark.parametrize("move", [True, False], ids=["move", "rename"])
def test_a_record_in_use_is_not_written_over(move: bool) -> None:
    left = closing.moved_away(RECORD, "s3://new", WHY, NOW) if move else closing.renamed_away(RECORD, "late", WHY, NOW)
    there = replace(RECORD, subscription="delays" if move else "late", last_claimed_at=NOW)
    with pytest.raises(LedgerError, match="that is in use"):
        closing.parked(left, "x", there, NOW)
    for how in ("retired", "renamed to late") if move else ("retired", "renamed to late", "moved to s3://new"):
        with pytest.raises(LedgerError, match=f"that is {how}"):
            closing.parked(left, "x", CLOSE[how](there), NOW)


def test_a_first_start_under_the_new_name_gives_way_to_the_rename() -> None:
    started = Record("late", TARGET.consumer, {"flights": at(7)}).after(NOW, "started flights")
    left = closing.renamed_away(RECORD, "late", WHY, NOW)
    arrived = closing.arrived(left, closing.parked(left, "delays", started, NOW), NOW, "e1")
    assert (arrived.watermarks, arrived.revision) == (RECORD.watermarks, 3)
    with pytest.raises(LedgerError, match="in use"):
        closing.parked(left, "delays", replace(started, claim=CLAIM), NOW)


def test_a_retired_one_is_taken_into_use_again_where_it_was_left() -> None:
    left = closing.retired(RECORD, WHY, NOW)
    again = closing.reinstated(left, WHY, seconds(1))
    assert again.history[-1].what == "in use again by ada: the gold table has another name"
    assert replace(again, history=(), revision=9) == RECORD
    for other in (RECORD, CLOSE["renamed to late"](RECORD)):
        with pytest.raises(LedgerError, match="is not retired"):
            closing.reinstated(other, WHY, NOW)


def test_what_was_not_closed_arrives_nowhere() -> None:
    for record in (RECORD, closing.retired(RECORD, WHY, NOW)):
        with pytest.raises(LedgerError, match="was not moved away"):
            closing.arrived(record, None, NOW)


@pytest.mark.parametrize("consumer", ["dag retired", "https://retired.test job 7", "retired", "retiredly (was x)", ""])
def test_no_consumer_is_taken_for_a_tombstone(consumer: str) -> None:
    assert closed(replace(RECORD, consumer=consumer)) is None
    closing.refuse_closed(replace(RECORD, consumer=consumer))
    closing.refuse_closed(None)


@given(record=records)
def test_whatever_it_held_comes_back(record: Record) -> None:
    free = replace(record, claim=None)
    assert closing.owner(closing.retired(free, WHY, NOW)) == free.consumer
    again = closing.reinstated(closing.retired(free, WHY, NOW), WHY, NOW)
    assert (again.consumer, again.watermarks, again.epoch) == (free.consumer, free.watermarks, free.epoch)
