"""One bound for every text that others wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.claims import after_nothing_ran, failed
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import HISTORY_KEPT, Record
from databricks_bridge.core.repair import Verdict, resolved
from databricks_bridge.core.texts import LONGEST_TEXT, bounded
from tests.core.builders import NOW, plan_of
from tests.core.driving import running_record

LONG = {
    "20 KB": "x" * 20_000,
    "not ASCII": "é" * 5_000,
    "four bytes each": "\U0001f6a8" * 5_000,
    "control characters": "\x00\x01" * 5_000,
    "half characters": "\ud800" * 5_000,
    "quotes": '"' * 5_000,
}


@given(st.text(st.characters(codec=None), max_size=2_000), st.integers(20, 900))
def test_a_kept_text_has_no_more_bytes_in_json_than_its_bound(text: str, most: int) -> None:
    kept = bounded(text, most)
    assert len(json.dumps(kept)) - 2 <= most
    kept.encode()
    assert not any(character < " " for character in kept)


@pytest.mark.parametrize("text", ["", "boom", "é\U0001f6a8", "a" * LONGEST_TEXT])
def test_what_fits_is_kept_as_it_is(text: str) -> None:
    assert bounded(text) == text


@pytest.mark.parametrize("kind", LONG)
def test_fifty_errors_of_any_kind_fit_into_a_record(kind: str) -> None:
    """A reader that lags, with long texts, pauses for ever: the record stays small enough for the Airflow ledger."""
    plan, record = plan_of(), running_record()
    for _ in range(HISTORY_KEPT + 10):
        record = after_nothing_ran(plan, record, LONG[kind], NOW)
    assert len(json.dumps(record.to_json())) < 48 * 1024


@pytest.mark.parametrize("kind", LONG)
def test_the_state_message_of_a_failed_run_is_bounded(kind: str) -> None:
    record = failed(plan_of(), running_record(), Outcome(Ending.FAILED, "INTERNAL_ERROR", "FAILED", LONG[kind]), NOW)
    assert len(json.dumps(record.history[-1].what)) - 2 <= LONGEST_TEXT


@pytest.mark.parametrize("kind", LONG)
def test_who_and_why_are_still_there_behind_a_long_text(kind: str) -> None:
    record = resolved(running_record(), Verdict.VOID, Reason("ada", "seen it " + LONG[kind]), NOW, "e")
    assert "by ada: seen it" in record.history[-1].what
    assert len(json.dumps(record.history[-1].what)) - 2 <= LONGEST_TEXT


def test_every_line_of_history_is_bounded() -> None:
    assert len(Record("s", "c", {}).after(NOW, "y" * 10_000).history[0].what) == LONGEST_TEXT
