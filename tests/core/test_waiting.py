from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from databricks_bridge.core.claims import claimed
from databricks_bridge.core.errors import ClaimBlocked, ClaimUndecided, TableRecreated
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.pending import Settled, TableFinding
from databricks_bridge.core.policy import Choice, Choices, Hold, Ready
from databricks_bridge.core.positions import Range
from databricks_bridge.core.record import ClaimStatus, Record
from databricks_bridge.core.waiting import decide_wait, ready_at_once, to_look_at
from tests.core.builders import FLIGHTS, NOW, WEATHER, at, plan_of, seconds, spec_of

SPEC = spec_of(FLIGHTS, WEATHER)
MARKS = {"flights": at(3), "weather": at(4)}
STILL = {"flights": TableFinding(at(3), None, None), "weather": TableFinding(at(4), None, None)}
FLIGHTS_NEW = STILL | {"flights": TableFinding(at(5), 5, NOW)}


def record_with(status: ClaimStatus) -> Record:
    record = claimed(plan_of(FLIGHTS), None, Settled(dict(MARKS), "0"), (Range("flights", "x", at(3), at(5)),), NOW)
    assert record.claim is not None
    return replace(record, claim=replace(record.claim, status=status, run_id=11, failures=3))


@pytest.mark.parametrize("status", [ClaimStatus.OPEN, ClaimStatus.FAILED])
def test_an_open_claim_lets_the_consumer_go_at_once(status: ClaimStatus) -> None:
    assert "an open claim on x (3, 5]" in str(ready_at_once(SPEC, record_with(status)))


def test_a_blocked_claim_waits_for_a_person_and_names_the_run() -> None:
    with pytest.raises(ClaimBlocked, match=r"3 runs of x \(3, 5\] failed, the last is 11"):
        ready_at_once(SPEC, record_with(ClaimStatus.BLOCKED))


def test_an_undecided_claim_waits_for_a_person() -> None:
    with pytest.raises(ClaimUndecided, match="run 11"):
        ready_at_once(SPEC, record_with(ClaimStatus.UNDECIDED))


@pytest.mark.parametrize("status", [ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED])
@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (Ending.SUCCEEDED, "run 11 of the {} claim on x (3, 5] succeeded"),
        (Ending.ACTIVE, "run 11 of the {} claim on x (3, 5] is active again"),
        (None, "the run 11 of the {} claim on x (3, 5] is to be looked at"),
    ],
)
def test_a_run_that_a_person_repaired_lets_the_consumer_go(
    status: ClaimStatus, ending: Ending | None, reason: str
) -> None:
    """As it would be seen by the consumer itself, which never starts while the sensor fails."""
    record = record_with(status)
    assert to_look_at(record) == record.claim
    assert ready_at_once(SPEC, record, ending) == reason.format(status)


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.NOTHING_RAN])
def test_a_run_that_nobody_repaired_does_not(ending: Ending) -> None:
    with pytest.raises(ClaimBlocked, match="databricks-bridge claim resolve"):
        ready_at_once(SPEC, record_with(ClaimStatus.BLOCKED), ending)


def test_only_a_claim_that_waits_for_a_person_is_looked_at() -> None:
    assert to_look_at(None) is None
    assert to_look_at(record_with(ClaimStatus.OPEN)) is None
    assert to_look_at(record_with(ClaimStatus.FAILED)) is None


def test_only_the_consumer_can_write_down_a_first_start_at_latest() -> None:
    latest = spec_of(FLIGHTS, WEATHER, start="latest")
    assert ready_at_once(latest, None) == "the first start of flights, weather is to be recorded"
    assert ready_at_once(latest, Record("s", "c", {"flights": at(3)})) == "the first start of weather is to be recorded"
    assert ready_at_once(latest, Record("s", "c", MARKS)) is None
    assert ready_at_once(SPEC, None) is None


def test_ready_tells_the_ranges() -> None:
    decision = decide_wait(SPEC, MARKS, None, FLIGHTS_NEW, NOW)
    assert decision == Ready(("flights",), "ops_share.silver.flights (3, 5]")


def test_nothing_new_holds() -> None:
    assert decide_wait(SPEC, MARKS, None, STILL, NOW) == Hold(None, "nothing new in flights, weather")


def test_old_commits_without_data_let_the_consumer_go_to_write_them_down() -> None:
    passed = STILL | {"flights": TableFinding(at(5), None, NOW)}
    assert isinstance(decide_wait(SPEC, MARKS, None, passed, seconds(86399)), Hold)
    assert decide_wait(SPEC, MARKS, None, passed, seconds(86400)) == Ready(
        (), "committed without a run: ops_share.silver.flights (3, 5], no data in it"
    )


def test_all_updated_holds_for_the_other_source() -> None:
    both = spec_of(FLIGHTS, WEATHER, condition="ALL_UPDATED")
    assert decide_wait(both, MARKS, None, FLIGHTS_NEW, NOW) == Hold(None, "ALL_UPDATED waits for weather")


def test_the_interval_counts_from_the_last_claim() -> None:
    timed = spec_of(FLIGHTS, WEATHER, min_time_between_triggers=timedelta(seconds=120))
    assert decide_wait(timed, MARKS, seconds(-60), FLIGHTS_NEW, NOW) == Hold(
        seconds(60), f"min_time_between_triggers holds until {seconds(60).isoformat()}"
    )
    assert isinstance(decide_wait(timed, MARKS, seconds(-120), FLIGHTS_NEW, NOW), Ready)


def test_the_settling_counts_from_the_commit() -> None:
    timed = spec_of(FLIGHTS, WEATHER, wait_after_last_change=timedelta(seconds=60))
    assert isinstance(decide_wait(timed, MARKS, None, FLIGHTS_NEW, seconds(59)), Hold)
    assert isinstance(decide_wait(timed, MARKS, None, FLIGHTS_NEW, seconds(60)), Ready)


def test_a_wait_tells_a_source_that_needs_a_decision() -> None:
    with pytest.raises(TableRecreated):
        decide_wait(SPEC, MARKS, None, STILL | {"flights": TableFinding(at(5, "t2"), 5, NOW)}, NOW)


def test_a_source_whose_change_has_a_choice_lets_the_consumer_go_at_once() -> None:
    """The consumer writes down what the choice decides; timers do not hold that."""
    chosen = replace(
        spec_of(FLIGHTS, WEATHER, wait_after_last_change=timedelta(days=1)), choices=Choices(on_recreated=Choice.ADOPT)
    )
    decision = decide_wait(chosen, MARKS, NOW, STILL | {"flights": TableFinding(at(5, "t2"), None, None)}, NOW)
    assert isinstance(decision, Ready)
    assert decision.updated == ("flights", "weather")
    assert decision.reason.startswith("adopt: main.silver.flights is another table now")
