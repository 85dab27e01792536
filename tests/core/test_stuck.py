"""When an open claim counts as stuck, and times as people write them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.positions import Range
from databricks_bridge.core.record import Claim, ClaimStatus, Record, Target
from databricks_bridge.core.stuck import claim_age, parse_time, shown_time, stuck_claim
from tests.core.builders import NOW, TARGET, at, seconds

CLAIM = Claim((Range("flights", "main.silver.flights", at(5), at(8)),), "t" * 64, 2, TARGET, (), NOW, run_id=11)
RECORD = Record("delays", "consumer", {"flights": at(5)}, claim=CLAIM)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("status", list(ClaimStatus))
def test_a_claim_is_stuck_when_it_is_open_for_longer_than_expected_whatever_it_waits_for(status: ClaimStatus) -> None:
    record = replace(RECORD, claim=replace(CLAIM, status=status))
    assert stuck_claim(record, HOUR, seconds(3599)) is None
    stuck = stuck_claim(record, HOUR, seconds(3600))
    assert stuck is not None
    assert (stuck.subscription, stuck.claim, stuck.age) == ("delays", record.claim, HOUR)
    assert str(stuck) == (
        f"subscription 'delays' has its {status} claim on main.silver.flights (5, 8] for 1h, 1h were expected: "
        "run 11 of job 7 in http://127.0.0.1:1, generation 2"
    )
    assert json.loads(json.dumps(stuck.to_json()))["age"] == 3600


def test_a_claim_around_other_tasks_names_its_dag() -> None:
    around = replace(RECORD, claim=replace(CLAIM, target=Target("dag partner_file", "", 0), run_id=None))
    assert str(stuck_claim(around, HOUR, seconds(7200))).endswith(
        "2h, 1h were expected: dag partner_file, generation 2"
    )


def test_nothing_is_stuck_without_a_claim_or_an_expectation() -> None:
    assert stuck_claim(None, HOUR, seconds(9999)) is None
    assert stuck_claim(replace(RECORD, claim=None), HOUR, seconds(9999)) is None
    assert stuck_claim(RECORD, None, seconds(9_999_999)) is None
    assert claim_age(None, NOW) == claim_age(replace(RECORD, claim=None), NOW) == timedelta(0)


def test_a_pause_before_the_start_does_not_count_and_a_clock_behind_gives_no_age() -> None:
    paused = replace(RECORD, claim=replace(CLAIM, not_before=seconds(600)))
    assert claim_age(paused, seconds(300)) == timedelta(0)
    assert claim_age(paused, seconds(660)) == timedelta(seconds=60)
    assert claim_age(RECORD, seconds(-60)) == timedelta(0)


@pytest.mark.parametrize(
    ("text", "time"), [("45s", 45), ("90m", 5400), ("2h", 7200), ("1d", 86400), ("1d12h", 129600), ("1h0m5s", 3605)]
)
def test_times_are_read(text: str, time: int) -> None:
    assert parse_time(text) == timedelta(seconds=time)


@pytest.mark.parametrize("text", ["", "2", "2 h", "h", "2w", "-2h", "0s", "1.5h", "9" * 30 + "d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="length of time"):
        parse_time(text)


@given(st.integers(1, 60) | st.integers(1, 60).map(lambda n: n * 60) | st.integers(1, 90).map(lambda n: n * 3600))
def test_a_shown_time_reads_as_it_was(count: int) -> None:
    assert parse_time(shown_time(timedelta(seconds=count))) == timedelta(seconds=count)
    assert shown_time(timedelta(0)) == "0s"
