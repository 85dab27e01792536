"""Commits without data: they start nothing, they are written down, and what comes after begins behind them."""

from __future__ import annotations

from dataclasses import replace

from databricks_bridge.core import acts
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.record import Record
from tests.core.builders import NOW, TARGET, at, plan_of
from tests.core.driving import OK, RUNNING, TWO, Script, claim_of, seen

MAINTAINED = TableFinding(at(7), None, NOW)
PASSED = replace(at(3), through=7, fingerprint="f7")
SAID = "committed without a run: ops_share.silver.flights (3, 7], no data in it"


def record_at(**marks: TablePosition) -> Record:
    return Record("delays", TARGET.consumer, marks)


def test_a_range_without_data_is_committed_without_a_run_and_says_so() -> None:
    script = Script().read(record_at(flights=at(3))).look({"flights": MAINTAINED})
    record = script.written()
    assert (record.watermarks, record.claim) == ({"flights": PASSED}, None)
    assert record.history[-1].what == SAID
    finish = script.asks(acts.Finish)
    assert (finish.run_id, finish.ranges) == (None, ())
    assert finish.reason == f"recorded for delays, without a run: {SAID}"


def test_it_is_written_once() -> None:
    script = Script().read(record_at(flights=PASSED)).look({"flights": MAINTAINED})
    assert script.asks(acts.Finish).reason == "nothing new in flights"


def test_a_consumer_that_waits_writes_it_and_goes_on_waiting() -> None:
    script = Script(plan_of(wait=True)).read(record_at(flights=at(3))).look({"flights": MAINTAINED})
    record = script.written()
    script.read(record).look({"flights": MAINTAINED})
    assert script.asks(acts.Pause).looking == record


def test_it_does_not_change_who_may_start_next() -> None:
    """The claim on what comes after has the token that a racer makes who never saw the commits without data."""
    findings = {"flights": TableFinding(at(9), 9, NOW)}
    ours = Script().read(record_at(flights=PASSED)).look(findings).written()
    theirs = Script().read(record_at(flights=at(3))).look(findings).written()
    assert claim_of(ours).token == claim_of(theirs).token
    given = dict(claim_of(ours).parameters)
    assert (given["flights_start"], given["flights_end"]) == ("8", "9")


def test_the_range_of_a_racer_that_began_earlier_is_adopted() -> None:
    findings = {"flights": TableFinding(at(9), 9, NOW)}
    theirs = claim_of(Script().read(record_at(flights=at(3))).look(findings).written())
    script = Script().read(record_at(flights=PASSED)).look(findings)
    script.written()
    script.answer(acts.RunStarted(11))
    script.answer(seen(11, RUNNING, theirs))
    adopted = claim_of(script.written())
    assert adopted.ranges == theirs.ranges
    assert dict(adopted.parameters)["flights_start"] == "4"


def test_one_source_with_data_takes_the_other_s_commits_without_data_along() -> None:
    plan = plan_of(*TWO)
    findings = {"flights": MAINTAINED, "weather": TableFinding(at(5), 5, NOW)}
    record = Script(plan).read(record_at(flights=at(3), weather=at(4))).look(findings).written()
    assert record.watermarks == {"flights": PASSED, "weather": at(4)}
    assert record.history[-1].what == f"{SAID}; claimed {claim_of(record)}"
    given = dict(claim_of(record).parameters)
    assert (given["flights_start"], given["flights_end"]) == ("8", "7")
    assert (given["weather_start"], given["weather_end"]) == ("5", "5")


def test_a_commit_moves_past_what_was_passed_over() -> None:
    findings = {"flights": TableFinding(at(9), 9, NOW)}
    script = Script().read(record_at(flights=PASSED)).look(findings)
    claim = claim_of(script.written())
    script.answer(acts.RunStarted(11)).answer(seen(11, OK, claim))
    noted = script.written()
    script.read(noted)
    assert script.written().watermarks == {"flights": at(9)}
