from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from databricks_bridge.core.emission import (
    LONGEST_SILENCE,
    Sent,
    after_asking,
    after_sending,
    is_at_work,
    may_send,
    to_ask,
)
from databricks_bridge.core.record import ClaimStatus, Record
from tests.core.builders import NOW, seconds
from tests.core.driving import running_record, with_claim

AGAIN = timedelta(seconds=60)
IDLE = Record("delays", "c", {}, revision=4)


def test_the_first_event_is_sent_at_once() -> None:
    assert may_send(None, None, NOW, AGAIN)
    assert may_send(IDLE, None, NOW, AGAIN)


def test_for_an_unchanged_record_the_pauses_double_up_to_an_hour() -> None:
    sent, at, pauses = None, 0.0, []
    for _ in range(9):
        sent = after_sending(IDLE, sent, seconds(at), AGAIN)
        pauses.append(sent.pause.total_seconds())
        assert not may_send(IDLE, sent, seconds(at + pauses[-1] - 1), AGAIN)
        assert may_send(IDLE, sent, seconds(at + pauses[-1]), AGAIN)
        at += pauses[-1]
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_what_the_consumer_wrote_begins_the_pauses_anew() -> None:
    sent = Sent(4, NOW, timedelta(hours=1))
    moved = replace(IDLE, revision=5)
    assert may_send(moved, sent, seconds(1), AGAIN)
    assert after_sending(moved, sent, seconds(1), AGAIN) == Sent(5, seconds(1), AGAIN)


@pytest.mark.parametrize("status", [ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED])
def test_nothing_is_sent_for_a_claim_that_waits_for_a_person(status: ClaimStatus) -> None:
    assert not may_send(running_record(status), None, seconds(10**7), AGAIN)


def test_a_failed_claim_is_for_the_next_dag_run_after_a_pause_that_doubles_with_each_failure() -> None:
    pauses = []
    for failures in range(1, 9):
        record = running_record(ClaimStatus.FAILED, failures=failures)
        failed_at = record.history[-1].at
        for pause in [*(AGAIN * 2**n for n in range(6)), LONGEST_SILENCE]:
            if may_send(record, None, failed_at + pause, AGAIN):
                pauses.append(pause.total_seconds())
                assert not may_send(record, None, failed_at + pause - timedelta(seconds=1), AGAIN)
                break
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_a_claim_with_a_run_is_asked_about_soon_and_not_left_alone_for_an_hour() -> None:
    record = running_record()
    written = record.history[-1].at
    assert not may_send(record, None, written + timedelta(seconds=59), AGAIN)
    assert may_send(record, None, written + AGAIN, AGAIN)


def test_a_run_that_is_under_way_is_asked_about_once_in_a_pause() -> None:
    record = running_record()
    assert record.claim is not None
    assert to_ask(record, None, NOW, AGAIN)
    seen = after_asking(record.claim, True, NOW)
    assert not to_ask(record, seen, seconds(59), AGAIN)
    assert to_ask(record, seen, seconds(60), AGAIN)
    assert is_at_work(record, seen, seconds(10**6), AGAIN)


def test_a_run_that_is_over_is_left_to_its_consumer_for_one_pause_and_not_asked_about_again() -> None:
    record = running_record()
    assert record.claim is not None
    seen = after_asking(record.claim, False, NOW)
    assert not to_ask(record, seen, seconds(10**6), AGAIN)
    assert is_at_work(record, seen, seconds(59), AGAIN)
    assert not is_at_work(record, seen, seconds(60), AGAIN)


def test_what_was_seen_of_another_run_says_nothing() -> None:
    record = running_record()
    assert record.claim is not None
    seen = after_asking(record.claim, True, NOW)
    other = with_claim(record, run_id=12345)
    assert to_ask(other, seen, NOW, AGAIN)
    assert not is_at_work(other, seen, NOW, AGAIN)


@pytest.mark.parametrize(
    "record", [None, IDLE, with_claim(running_record(), run_id=None), running_record(ClaimStatus.FAILED, failures=1)]
)
def test_only_the_run_of_an_open_claim_is_asked_about(record: Record | None) -> None:
    assert not to_ask(record, None, NOW, AGAIN)
    assert not is_at_work(record, None, NOW, AGAIN)


def test_a_claim_without_a_run_is_taken_up_soon() -> None:
    record = with_claim(running_record(), run_id=None)
    written = record.history[-1].at
    assert not may_send(record, None, written + timedelta(seconds=59), AGAIN)
    assert may_send(record, None, written + AGAIN, AGAIN)
