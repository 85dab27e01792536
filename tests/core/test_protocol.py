"""The protocol one act after the other: the way of a claim that goes well, and of one that is resumed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.errors import (
    BadAnswer,
    ClaimUndecided,
    ConsumerMismatch,
    InvalidArgument,
    LedgerError,
    TableRecreated,
    TargetChanged,
)
from databricks_bridge.core.parameters import ranges_of
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.protocol.opening import TOKEN_TRUSTED
from databricks_bridge.core.record import ClaimStatus, Record, Target, token_of
from tests.core.builders import FLIGHTS, NOW, TARGET, WEATHER, at, only_found, plan_of, seconds, spec_of
from tests.core.driving import (
    NEW_FLIGHTS,
    OK,
    RUNNING,
    TERMINATING,
    Script,
    claim_of,
    claimed_record,
    running_record,
    seen,
    with_claim,
)

BEFORE = TablePosition(-1)
DAY = timedelta(hours=24)


def test_look_decide_claim_run_wait_prove_commit() -> None:
    script = Script().first_start().look()
    claimed = script.written()
    claim = claim_of(claimed)
    assert claimed.watermarks == {"flights": BEFORE}
    assert claimed.last_claimed_at == NOW
    assert claim.token == token_of("delays", TARGET, "0", {"flights": BEFORE}, 0)
    assert dict(claim.parameters)["flights_end"] == "5"
    assert dict(claim.parameters)["region"] == "NY"
    assert script.asks(acts.StartRun).claim == claim
    script.answer(acts.RunStarted(11))
    assert script.asks(acts.GetRun).run_id == 11
    script.answer(seen(11, RUNNING, claim))
    noted = script.written()
    assert claim_of(noted).run_id == 11
    assert script.asks(acts.AwaitRun).run_id == 11
    script.answer(seen(11, OK, claim))
    script.read(noted)
    committed = script.written()
    assert committed.claim is None
    assert committed.watermarks == {"flights": at(5)}
    finish = script.asks(acts.Finish)
    assert (finish.run_id, finish.ranges[0].to) == (11, at(5))
    assert finish.reason == "committed ops_share.silver.flights (-1, 5]"
    assert [record.revision for record in (claimed, noted, committed)] == [1, 2, 3]
    assert len(committed.history) == 3


def test_a_run_of_our_own_is_started_and_not_adopted() -> None:
    """Its ranges are those of the claim, also where the first start knows no identity of the table yet."""
    record = claimed_record()
    script = Script().read(record).look().answer(acts.RunStarted(11)).answer(seen(11, RUNNING, claim_of(record)))
    noted = script.written()
    assert noted.history[-1].what == "run 11 started"
    assert claim_of(noted).ranges == claim_of(record).ranges


def test_an_active_run_is_awaited_though_it_shows_a_result() -> None:
    record = running_record()
    script = Script().read(record).answer(seen(11, TERMINATING, claim_of(record)))
    assert script.asks(acts.AwaitRun).run_id == 11


def test_nothing_new_finishes_without_a_write() -> None:
    record = Record("delays", plan_of().consumer, {"flights": at(5)})
    finish = Script().read(record).look().asks(acts.Finish)
    assert finish == acts.Finish((), None, "nothing new in flights")


def test_a_first_start_at_latest_is_written_down_and_claims_nothing() -> None:
    script = Script(replace(plan_of(), spec=spec_of(FLIGHTS, start="latest"))).first_start().look()
    record = script.written()
    assert (record.watermarks, record.claim, record.last_claimed_at) == ({"flights": only_found(5)}, None, None)
    assert record.history[-1].what == "started flights"
    finish = script.read(record).look().asks(acts.Finish)
    assert finish == acts.Finish((), None, "nothing new in flights")


def test_a_first_start_at_earliest_before_the_first_commit_is_recorded() -> None:
    script = Script().first_start().look({"flights": TableFinding(None, None, None)})
    record = script.written()
    assert (record.watermarks, record.claim, record.history[-1].what) == ({"flights": BEFORE}, None, "started flights")
    finish = script.asks(acts.Finish)
    assert finish == acts.Finish((), None, "recorded for delays, without a run: started flights")


LATER = {
    "latest": (replace(WEATHER, start="latest"), only_found(9, "t2"), ("10", "9")),
    "a version": (replace(WEATHER, start=4), TablePosition(4, "t2", "m1"), ("5", "9")),
}


@pytest.mark.parametrize("start", LATER)
@pytest.mark.parametrize("marks", [{}, {"flights": at(3)}], ids=["first start", "added later"])
def test_a_start_that_depends_on_what_was_found_is_a_transition_of_its_own(
    start: str, marks: dict[str, TablePosition]
) -> None:
    """Another source has data, yet the claim is made from the record as it is after the start, by every racer alike."""
    weather, mark, given_weather = LATER[start]
    plan = replace(plan_of(), spec=spec_of(FLIGHTS, weather))
    findings = NEW_FLIGHTS | {"weather": TableFinding(at(9, "t2"), 9, NOW)}
    script = Script(plan)
    before = Record("delays", plan.consumer, marks) if marks else None
    script = script.read(before) if before else script.first_start()
    started = script.look(findings).written()
    assert started.watermarks == {"flights": BEFORE} | marks | {"weather": mark}
    assert (started.claim, started.last_claimed_at, started.epoch) == (None, None, "0")
    assert started.history[-1].what == ("started weather" if marks else "started flights, weather")
    claimed = script.read(started).look(findings).written()
    assert claimed.watermarks == started.watermarks
    given = dict(claim_of(claimed).parameters)
    assert (given["flights_start"], given["flights_end"]) == ("4" if marks else "0", "5")
    assert (given["weather_start"], given["weather_end"]) == given_weather
    assert script.asks(acts.StartRun).claim == claim_of(claimed)


def test_the_start_of_a_racer_stands_and_ours_is_decided_from_it() -> None:
    plan = replace(plan_of(), spec=spec_of(FLIGHTS, replace(WEATHER, start="latest")))
    script = Script(plan).first_start().look(NEW_FLIGHTS | {"weather": TableFinding(at(9, "t2"), 9, NOW)})
    script.asks(acts.WriteRecord)
    script.answer(acts.RecordLost())
    theirs = Record("delays", plan.consumer, {"flights": BEFORE, "weather": at(8, "t2")}, revision=1)
    claimed = script.read(theirs).look(NEW_FLIGHTS | {"weather": TableFinding(at(9, "t2"), 9, NOW)}).written()
    given = dict(claim_of(claimed).parameters)
    assert (given["weather_start"], given["weather_end"]) == ("9", "9")
    assert claimed.watermarks == theirs.watermarks


def test_a_source_added_later_at_earliest_starts_in_the_write_of_the_claim() -> None:
    plan = replace(plan_of(), spec=spec_of(FLIGHTS, WEATHER))
    record = Record("delays", plan.consumer, {"flights": at(3)})
    findings = NEW_FLIGHTS | {"weather": TableFinding(at(9, "t2"), 9, NOW)}
    claimed = Script(plan).read(record).look(findings).written()
    assert claimed.watermarks == {"flights": at(3), "weather": BEFORE}
    given = dict(claim_of(claimed).parameters)
    assert (given["flights_start"], given["flights_end"]) == ("4", "5")
    assert (given["weather_start"], given["weather_end"]) == ("0", "9")


def test_all_updated_claims_nothing_while_one_is_missing() -> None:
    plan = replace(plan_of(), spec=spec_of(FLIGHTS, WEATHER, condition="ALL_UPDATED"))
    record = Record("delays", plan.consumer, {"flights": at(3), "weather": at(9)})
    findings = NEW_FLIGHTS | {"weather": TableFinding(at(9), None, None)}
    assert Script(plan).read(record).look(findings).asks(acts.Finish).reason == "ALL_UPDATED waits for weather"


def test_the_operator_never_holds_what_the_sensor_released() -> None:
    spec = spec_of(FLIGHTS, min_time_between_triggers=timedelta(days=1), wait_after_last_change=timedelta(days=1))
    record = Record("delays", plan_of().consumer, {"flights": at(3)}, last_claimed_at=NOW)
    Script(replace(plan_of(), spec=spec)).read(record).look().asks(acts.WriteRecord)


def test_a_source_that_needs_a_decision_fails_and_writes_nothing() -> None:
    record = Record("delays", plan_of().consumer, {"flights": at(3, "t0")})
    Script().read(record).look().fails(TableRecreated)


def test_own_parameters_that_collide_fail_before_anything_is_written() -> None:
    Script(plan_of(own_parameters={"flights_end": "9"})).first_start().look().fails(InvalidArgument)


def test_an_open_claim_comes_first_and_what_is_new_since_changes_nothing() -> None:
    record = claimed_record()
    later = {"flights": TableFinding(at(9), 9, NOW)}
    assert Script().read(record).look(later).asks(acts.StartRun).claim == claim_of(record)
    assert Script().read(running_record()).asks(acts.GetRun).run_id == 11


def test_a_process_that_wrote_the_claim_itself_starts_it_without_another_look() -> None:
    script = Script().first_start().look()
    record = script.written()
    assert script.asks(acts.StartRun).claim == claim_of(record)


def test_to_is_fixed_at_the_claim_whatever_todays_code_says() -> None:
    record = claimed_record()
    today = plan_of(replace(FLIGHTS, read_as="other_share.silver.flights"), own_parameters={"region": "CA"})
    claim = Script(today).read(record).look().asks(acts.StartRun).claim
    assert dict(claim.parameters)["region"] == "NY"
    assert dict(claim.parameters)["flights_end"] == "5"


@pytest.mark.parametrize(
    "target",
    [Target("http://127.0.0.1:2", "1001", 7), Target(TARGET.host, "1002", 7), Target(TARGET.host, "1001", 8)],
    ids=["host", "workspace", "job"],
)
def test_an_open_claim_on_another_target_is_an_error_that_says_so(target: Target) -> None:
    error = Script(plan_of(target=target)).read(claimed_record()).fails(TargetChanged)
    assert "job 7 in http://127.0.0.1:1" in str(error)


def test_another_consumer_is_refused() -> None:
    record = Record("delays", "http://other job 9", {"flights": at(3)})
    error = Script().read(record).fails(ConsumerMismatch)
    assert "belongs to http://other job 9" in str(error)


def test_another_consumer_is_refused_while_a_claim_is_open_too() -> None:
    record = replace(claimed_record(), consumer="http://other job 9")
    Script().read(record).fails(ConsumerMismatch)


@pytest.mark.parametrize(
    ("age", "act"),
    [(TOKEN_TRUSTED - timedelta(seconds=1), acts.StartRun), (TOKEN_TRUSTED, acts.FindRun), (3 * DAY, acts.FindRun)],
)
def test_the_token_is_trusted_for_less_than_the_day_that_databricks_keeps_it(
    age: timedelta, act: type[acts.Act]
) -> None:
    record = claimed_record()
    assert isinstance(Script(now=NOW + age).read(record).look().act, act)


def test_an_old_claim_whose_run_is_found_is_followed() -> None:
    record = claimed_record()
    script = Script(now=NOW + 2 * DAY).read(record).look()
    script.answer(acts.RunFound(11))
    assert script.asks(acts.GetRun).run_id == 11
    script.answer(seen(11, OK, claim_of(record)))
    assert claim_of(script.written()).run_id == 11


def test_an_old_claim_without_a_run_is_started_with_its_own_token() -> None:
    record = claimed_record()
    script = Script(now=NOW + 2 * DAY).read(record).look().absent()
    assert script.asks(acts.StartRun).claim.token == claim_of(record).token


def test_an_old_claim_with_a_run_is_followed_without_a_search() -> None:
    assert Script(now=NOW + 30 * DAY).read(running_record()).asks(acts.GetRun).run_id == 11


def racing() -> tuple[Record, Record]:
    """Two claims with one `from`: ours up to version 5, a racer's up to version 4."""
    ours = claimed_record()
    theirs = claimed_record(findings={"flights": TableFinding(at(4), 4, NOW)})
    assert claim_of(ours).token == claim_of(theirs).token
    return ours, theirs


def test_the_ranges_of_a_racer_are_adopted_from_its_run() -> None:
    ours, theirs = racing()
    script = Script().read(ours).look().answer(acts.RunStarted(11)).answer(seen(11, RUNNING, claim_of(theirs)))
    noted = script.written()
    claim = claim_of(noted)
    assert [one.to.version for one in claim.ranges if isinstance(one.to, TablePosition)] == [4]
    assert dict(claim.parameters) == dict(claim_of(theirs).parameters)
    assert "adopted" in noted.history[-1].what
    script.answer(seen(11, OK, claim_of(theirs))).read(noted)
    assert script.written().watermarks == {"flights": at(4)}


def test_what_was_adopted_tells_the_next_generation_the_same_ranges() -> None:
    ours, theirs = racing()
    script = Script().read(ours).look().answer(acts.RunStarted(11)).answer(seen(11, RUNNING, claim_of(theirs)))
    claim = claim_of(script.written())
    assert ranges_of(dict(claim.parameters), {})[0].to == claim.ranges[0].to


@pytest.mark.parametrize(
    "changed", [{"bridge_token": "0" * 64}, {"bridge_token": ""}, {"bridge_ranges": ""}, {"bridge_ranges": "[]"}]
)
def test_a_run_that_does_not_carry_our_claim_is_a_bad_answer_and_nothing_is_written(changed: dict[str, str]) -> None:
    record = claimed_record()
    script = Script().read(record).look().answer(acts.RunStarted(11)).answer(seen(11, OK, claim_of(record), **changed))
    script.fails(BadAnswer)


@pytest.mark.parametrize("noted", [False, True])
def test_a_run_that_is_gone_makes_the_claim_undecided_and_is_named(noted: bool) -> None:
    record = running_record() if noted else claimed_record()
    script = Script().read(record)
    if not noted:
        script.look().answer(acts.RunStarted(11))
    script.gone()
    undecided = script.written()
    assert claim_of(undecided).status is ClaimStatus.UNDECIDED
    assert undecided.watermarks == record.watermarks
    error = script.fails(ClaimUndecided)
    assert "run 11" in str(error)
    assert "(-1, 5]" in str(error)
    assert "databricks-bridge claim resolve" in str(error)


def test_an_undecided_claim_starts_nothing() -> None:
    Script().read(running_record(ClaimStatus.UNDECIDED)).answer(acts.RunGone(11)).fails(ClaimUndecided)


def test_a_run_gone_while_it_is_awaited_makes_the_claim_undecided() -> None:
    record = running_record()
    script = Script().read(record).answer(seen(11, RUNNING, claim_of(record))).gone()
    assert claim_of(script.written()).status is ClaimStatus.UNDECIDED


@pytest.mark.parametrize("where", ["claim", "note", "commit"])
def test_a_lost_write_starts_again_from_the_record_as_it_is(where: str) -> None:
    record = claimed_record()
    script = Script()
    if where == "claim":
        script.first_start().look()
    elif where == "note":
        script.read(record).look().answer(acts.RunStarted(11)).answer(seen(11, RUNNING, claim_of(record)))
    else:
        noted = with_claim(record, run_id=11)
        script.read(noted).answer(seen(11, OK, claim_of(record))).read(noted)
    script.asks(acts.WriteRecord)
    script.answer(acts.RecordLost())
    script.asks(acts.ReadRecord)
    assert script.memory.record is None


def test_a_claim_that_another_process_committed_is_not_committed_again() -> None:
    record = running_record()
    script = Script().read(record).answer(seen(11, OK, claim_of(record)))
    script.read(record.after(NOW, "committed", claim=None, watermarks={"flights": at(5)}))
    finish = script.asks(acts.Finish)
    assert (finish.ranges, finish.run_id) == ((), 11)
    assert "committed by another process" in finish.reason


def test_another_process_may_be_further_by_then() -> None:
    record = running_record()
    script = Script().read(record).answer(seen(11, OK, claim_of(record)))
    later = with_claim(record, token="f" * 64, run_id=None)
    script.read(replace(later, watermarks={"flights": at(7)}))
    assert script.asks(acts.Finish).ranges == ()


def test_a_commit_merges_forward_only_and_leaves_the_other_sources_alone() -> None:
    record = running_record()
    marks = {"flights": at(3), "other": at(1, "t7")}
    script = Script().read(record).answer(seen(11, OK, claim_of(record))).read(replace(record, watermarks=marks))
    assert script.written().watermarks == {"flights": at(5), "other": at(1, "t7")}


def test_the_open_claim_of_another_is_never_taken_away_by_our_commit() -> None:
    """Its run may be at work: without its claim the next process would start a second run beside it."""
    record = running_record()
    script = Script().read(record).answer(seen(11, OK, claim_of(record)))
    other = with_claim(record, token="f" * 64, generation=1, run_id=12)
    script.read(other)
    committed = script.written()
    assert committed.watermarks == {"flights": at(5)}
    assert claim_of(committed).run_id == 12


def test_a_record_that_vanished_under_a_run_is_an_error_and_not_a_first_start() -> None:
    record = running_record()
    error = Script().read(record).answer(seen(11, OK, claim_of(record))).read(None).fails(LedgerError)
    assert "vanished while run 11" in str(error)


DUE = {
    "record": (lambda: Script(), acts.RecordWritten()),
    "survey": (lambda: Script().read(None), acts.RecordRead(None)),
    "lost record": (lambda: Script().read(None).survey(1), acts.Woke()),
    "findings": (lambda: Script().first_start(), acts.RecordRead(None)),
    "written claim": (lambda: Script().first_start().look(), acts.RunStarted(1)),
    "started run": (lambda: Script().read(claimed_record()).look(), acts.RecordWritten()),
    "seen run": (lambda: Script().read(claimed_record()).look().answer(acts.RunStarted(1)), acts.RunStarted(1)),
    "found run": (lambda: Script(now=NOW + 2 * DAY).read(claimed_record()).look(), acts.RunStarted(1)),
    "followed run": (lambda: Script().read(running_record()), acts.Woke()),
    "pause": (lambda: Script().read(with_claim(claimed_record(), not_before=seconds(9))), acts.RecordRead(None)),
}


@pytest.mark.parametrize("due", DUE)
def test_a_driver_that_answers_another_question_is_told_so(due: str) -> None:
    script, wrong = DUE[due][0](), DUE[due][1]
    with pytest.raises(TypeError, match=f"the driver answered with {type(wrong).__name__}"):
        script.answer(wrong)
