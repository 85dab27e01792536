"""With ANY_UPDATED a source that cannot be polled stops no other; with ALL_UPDATED it holds (T22)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.errors import BridgeError, NotPermitted, Unavailable
from databricks_bridge.core.left_out import LeftOut
from databricks_bridge.core.pending import Finding, RunsFinding, TableFinding, changes_of, ranges_of, settle
from databricks_bridge.core.policy import Hold, Ready, decide
from databricks_bridge.core.positions import RunsPosition, TablePosition
from databricks_bridge.core.record import Record
from databricks_bridge.core.sources import DeltaTable, TriggeredRuns
from databricks_bridge.core.subscription import as_sources
from databricks_bridge.core.waiting import decide_wait
from tests.core.builders import FLIGHTS, NOW, WEATHER, at, plan_of, seconds, spec_of
from tests.core.driving import OK, Script, seen

DOWN = LeftOut(Unavailable("the workspace met is down"), seconds(-90))
REFUSED = LeftOut(NotPermitted("no SELECT on main.silver.weather"), seconds(-90))
FLIGHTS_MOVED: Finding = TableFinding(at(5), 5, NOW)
FLIGHTS_STILL: Finding = TableFinding(at(3), None, NOW)
WEATHER_MOVED: Finding = TableFinding(at(9), 9, NOW)
BOTH = plan_of(FLIGHTS, WEATHER)


def record_of(**marks: TablePosition) -> Record:
    return Record("delays", BOTH.consumer, marks or {"flights": at(3), "weather": at(7)}, revision=4)


def script(record: Record | None = None, plan: Any = BOTH) -> Script:
    return Script(plan).read(record_of() if record is None else record)


def polled(**findings: Finding) -> dict[str, Finding]:
    return findings


@pytest.mark.parametrize("lost", [DOWN, REFUSED])
def test_the_others_are_claimed_and_it_keeps_its_watermark(lost: LeftOut) -> None:
    one = script().look(polled(flights=FLIGHTS_MOVED, weather=lost))
    claimed = one.written()
    assert claimed.claim is not None
    assert [str(found) for found in claimed.claim.ranges if not found.empty] == ["ops_share.silver.flights (3, 5]"]
    sent = dict(claimed.claim.parameters)
    assert (sent["weather_start"], sent["weather_end"]) == ("8", "7")
    assert "weather is left out since 2026-01-01T11:58:30+00:00" in claimed.history[-1].what
    one.answer(acts.RunStarted(1)).answer(seen(1, OK, claimed.claim))
    noted = one.written()
    one.answer(acts.RecordRead(noted)) if isinstance(one.act, acts.ReadRecord) else None
    done = one.written()
    assert done.watermarks == {"flights": at(5), "weather": at(7)}


def test_whoever_polls_it_and_whoever_does_not_come_to_one_token() -> None:
    without = script().look(polled(flights=FLIGHTS_MOVED, weather=DOWN)).written().claim
    with_it = script().look(polled(flights=FLIGHTS_MOVED, weather=WEATHER_MOVED)).written().claim
    assert without is not None
    assert with_it is not None
    assert without.token == with_it.token


@pytest.mark.parametrize("lost", [DOWN, REFUSED])
def test_nothing_new_in_the_others_is_not_told_as_nothing_new(lost: LeftOut) -> None:
    error = script().look(polled(flights=FLIGHTS_STILL, weather=lost)).fails(BridgeError)
    assert error is lost.error


def test_a_consumer_that_waits_goes_on_waiting_and_says_which_and_since_when() -> None:
    pause = script(plan=replace(BOTH, wait=True)).look(polled(flights=FLIGHTS_STILL, weather=DOWN)).asks(acts.Pause)
    assert "weather (left out since 2026-01-01T11:58:30+00:00: Unavailable: the workspace met" in pause.reason


def test_all_updated_holds() -> None:
    spec = spec_of(FLIGHTS, WEATHER, condition="ALL_UPDATED")
    decision = decide_wait(spec, record_of().watermarks, None, polled(flights=FLIGHTS_MOVED, weather=DOWN), NOW)
    assert isinstance(decision, Hold)
    assert "ALL_UPDATED waits for weather (left out since" in decision.reason


def test_a_wait_is_over_and_says_which_was_left_out() -> None:
    spec = spec_of(FLIGHTS, WEATHER)
    decision = decide_wait(spec, record_of().watermarks, None, polled(flights=FLIGHTS_MOVED, weather=REFUSED), NOW)
    assert isinstance(decision, Ready)
    assert decision.updated == ("flights",)
    assert "weather is left out since 2026-01-01T11:58:30+00:00: NotPermitted: no SELECT" in decision.reason


def test_an_error_of_any_length_enters_the_record_short() -> None:
    long = LeftOut(Unavailable("x" * 20_000), NOW)
    assert len(script().look(polled(flights=FLIGHTS_MOVED, weather=long)).written().history[-1].what) < 600


def test_a_first_start_at_latest_begins_with_those_that_answer() -> None:
    plan = replace(BOTH, spec=spec_of(FLIGHTS, WEATHER, start="latest"))
    started = Script(plan).first_start().look(polled(flights=FLIGHTS_STILL, weather=DOWN)).written()
    assert started.watermarks == {"flights": replace(at(3), found=True)}
    one = script(started, plan).look(polled(flights=FLIGHTS_MOVED, weather=DOWN))
    claimed = one.written()
    assert claimed.claim is not None
    assert set(claimed.watermarks) == {"flights"}
    one.answer(acts.RunStarted(1)).answer(seen(1, OK, claimed.claim))
    noted = one.written()
    if isinstance(one.act, acts.ReadRecord):
        one.answer(acts.RecordRead(noted))
    assert one.written().watermarks == {"flights": at(5)}, "the other one begins when it answers"


def test_at_a_first_start_too_both_come_to_one_token() -> None:
    """The racer who polls it has written down its start before."""
    plan = replace(BOTH, spec=spec_of(FLIGHTS, WEATHER, start="latest"))
    some = record_of(flights=at(3))
    every = record_of(flights=at(3), weather=replace(at(9), found=True))
    without = script(some, plan).look(polled(flights=FLIGHTS_MOVED, weather=DOWN)).written().claim
    with_it = script(every, plan).look(polled(flights=FLIGHTS_MOVED, weather=WEATHER_MOVED)).written().claim
    assert without is not None
    assert with_it is not None
    assert without.token == with_it.token


def test_a_first_start_at_earliest_needs_no_poll_of_it() -> None:
    claimed = Script(BOTH).first_start().look(polled(flights=FLIGHTS_MOVED, weather=DOWN)).written()
    assert claimed.claim is not None
    assert [str(one) for one in claimed.claim.ranges if not one.empty] == ["ops_share.silver.flights (-1, 5]"]
    assert claimed.watermarks["weather"] == TablePosition(-1)


def test_a_first_start_at_a_version_waits_for_the_table_whose_version_that_is() -> None:
    plan = plan_of(FLIGHTS, replace(WEATHER, start=4))
    assert Script(plan).first_start().look(polled(flights=FLIGHTS_MOVED, weather=DOWN)).fails(Unavailable) is DOWN.error


def test_a_claim_that_waits_without_a_run_and_names_it_gives_way_to_the_others() -> None:
    one = script().look(polled(flights=FLIGHTS_MOVED, weather=WEATHER_MOVED))
    claimed = one.written()
    later = script(claimed).look(polled(flights=FLIGHTS_MOVED, weather=DOWN))
    later.asks(acts.FindRun)
    assert "main.silver.weather cannot be polled" in later.memory.why


def test_a_claim_that_does_not_name_it_is_started() -> None:
    claimed = script().look(polled(flights=FLIGHTS_MOVED, weather=DOWN)).written()
    script(claimed).look(polled(flights=FLIGHTS_MOVED, weather=DOWN)).asks(acts.StartRun)


RUNS = TriggeredRuns(job_name="silver", alias="silver", databricks_conn_id="ops", writes=(FLIGHTS,))
ENDED = RunsFinding(RunsPosition(50, frozenset({1})), (1,), NOW)


def ranges_with(runs: Finding, flights: Finding, weather: Finding) -> set[str]:
    sources = as_sources([RUNS, DeltaTable(WEATHER.table, "met")])
    spec = replace(spec_of(FLIGHTS), sources=sources)
    marks = {"silver": RunsPosition(10), "flights": at(3), "weather": at(7)}
    findings = {"silver": runs, "flights": flights, "weather": weather}
    settled = settle(spec, marks, "0", findings)
    ranges = ranges_of(spec, settled.watermarks, findings)
    decide(spec.policy, changes_of(ranges, findings, NOW), None, NOW)
    return {one.alias for one in ranges if not one.empty}


def test_tables_of_runs_that_cannot_be_polled_wait_for_a_run_as_ever() -> None:
    assert ranges_with(DOWN, FLIGHTS_MOVED, WEATHER_MOVED) == {"weather"}


def test_a_run_whose_table_cannot_be_polled_stays_pending() -> None:
    assert ranges_with(ENDED, DOWN, WEATHER_MOVED) == {"weather"}
    assert ranges_with(ENDED, FLIGHTS_MOVED, DOWN) == {"silver", "flights"}
