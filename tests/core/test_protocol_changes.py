"""The protocol where something is not what it was: the ledger, a source, the words of a run that ended well."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import (
    HistoryGap,
    LedgerLost,
    SourceError,
    TableRecreated,
    TableReplaced,
)
from databricks_bridge.core.pending import Finding, TableFinding
from databricks_bridge.core.policy import Choices
from databricks_bridge.core.positions import BEFORE_FIRST, TablePosition
from databricks_bridge.core.record import ClaimStatus, Record, token_of
from tests.core.builders import FLIGHTS, NOW, TARGET, WEATHER, at, only_found, plan_of, spec_of
from tests.core.driving import (
    NEW_FLIGHTS,
    OK,
    RUNNING,
    Script,
    claim_of,
    claimed_record,
    running_record,
    seen,
    with_claim,
)
from tests.core.test_protocol_postcondition import proving

DAY = timedelta(hours=24)
BEFORE = TablePosition(BEFORE_FIRST)


def choosing(plan: Plan | None = None, **choices: Any) -> Plan:
    plan = plan or plan_of()
    return replace(plan, spec=replace(plan.spec, choices=Choices(**choices)))


def marked(version: int = 3) -> Record:
    """A record that has processed flights up to this version of table t1, metadata m1."""
    return Record("delays", plan_of().consumer, {"flights": at(version)}, revision=7)


def test_no_record_and_runs_that_name_the_subscription_is_a_lost_ledger() -> None:
    script = Script().read(None).survey(11).read(None)
    error = script.fails(LedgerLost)
    for words in (
        "no record of subscription 'delays'",
        str(TARGET),
        "no first start",
        "databricks-bridge watermark rebuild",
    ):
        assert words in str(error)


def test_no_record_is_surveyed_before_anything_is_looked_at_or_written() -> None:
    script = Script().read(None)
    script.asks(acts.Survey)
    script.survey(None)
    assert script.asks(acts.Look).record is None


def test_a_racer_that_made_its_first_start_meanwhile_is_no_false_alarm() -> None:
    """Its run is seen by the survey, its record by the second reading: followed, not started anew."""
    record = running_record()
    script = Script().read(None).survey(11).read(record)
    assert script.asks(acts.GetRun).run_id == 11
    script.answer(seen(11, OK, claim_of(record))).read(record)
    assert script.written().watermarks == {"flights": at(5)}


def test_a_racer_that_has_committed_meanwhile_leaves_nothing_to_do() -> None:
    script = Script().read(None).survey(11).read(marked(5)).look()
    assert script.asks(acts.Finish).reason == "nothing new in flights"


def test_a_racer_of_another_consumer_is_refused_on_that_way_too() -> None:
    script = Script().read(None).survey(11).read(replace(marked(), consumer="http://other job 9"))
    assert "belongs to http://other job 9" in str(script.asks(acts.Fail).error)


CHANGES: dict[str, tuple[TableFinding, type[SourceError]]] = {
    "on_recreated": (TableFinding(at(4, "t2", "m2"), 4, NOW), TableRecreated),
    "on_replaced": (TableFinding(at(4, "t1", "m2"), 4, NOW), TableReplaced),
    "on_history_gap": (TableFinding(at(2), 2, NOW), HistoryGap),
}


@pytest.mark.parametrize("choice", CHANGES)
def test_a_change_fails_unless_something_was_chosen_for_it(choice: str) -> None:
    finding, error = CHANGES[choice]
    others = dict.fromkeys(CHANGES, "adopt") | {choice: "fail"}
    Script().read(marked()).look({"flights": finding}).fails(error)
    Script(choosing(**others)).read(marked()).look({"flights": finding}).fails(error)


@pytest.mark.parametrize("choice", CHANGES)
def test_full_rebuild_begins_a_new_epoch_and_claims_from_before_the_first_version(choice: str) -> None:
    finding, _ = CHANGES[choice]
    to = finding.position
    assert to is not None
    script = Script(choosing(**{choice: "full_rebuild"})).read(marked()).look({"flights": finding})
    started = script.written()
    assert (started.watermarks, started.claim, started.revision) == ({"flights": BEFORE}, None, 8)
    assert started.epoch != "0"
    assert started.history[-1].what.startswith("full_rebuild: main.silver.flights")
    claimed = script.read(started).look({"flights": finding}).written()
    claim = claim_of(claimed)
    assert claimed.epoch == started.epoch
    assert claim.token == token_of("delays", TARGET, started.epoch, {"flights": BEFORE}, 0)
    assert claim.token != token_of("delays", TARGET, "0", {"flights": BEFORE}, 0)
    given = dict(claim.parameters)
    assert given["bridge_epoch"] == started.epoch
    assert (given["flights_start"], given["flights_end"]) == ("0", str(to.version))
    script.answer(acts.RunStarted(12)).answer(seen(12, OK, claim))
    noted = script.written()
    committed = script.read(noted).written()
    assert (committed.watermarks, committed.claim, committed.epoch) == ({"flights": to}, None, started.epoch)
    assert script.asks(acts.Finish).run_id == 12


@pytest.mark.parametrize("choice", CHANGES)
def test_adopt_goes_on_from_what_is_there_and_the_history_says_what_was_passed_over(choice: str) -> None:
    finding, _ = CHANGES[choice]
    script = Script(choosing(**{choice: "adopt"})).read(marked()).look({"flights": finding})
    adopted = script.written()
    assert finding.position is not None
    assert (adopted.watermarks, adopted.claim) == ({"flights": replace(finding.position, found=True)}, None)
    assert adopted.epoch != "0"
    assert adopted.history[-1].what.startswith("adopt: main.silver.flights")
    assert script.read(adopted).look({"flights": finding}).asks(acts.Finish).reason == "nothing new in flights"
    assert finding.position is not None
    version = finding.position.version
    newer = replace(finding, position=replace(finding.position, version=version + 1), data_version=version + 1)
    claim = claim_of(Script(script.plan).read(adopted).look({"flights": newer}).written())
    assert claim.token == token_of("delays", TARGET, adopted.epoch, {"flights": adopted.watermarks["flights"]}, 0)
    assert dict(claim.parameters)["flights_start"] == str(version + 1)


@pytest.mark.parametrize("choice", ["full_rebuild", "adopt"])
def test_a_table_whose_log_is_empty_now_begins_again_before_its_first_version(choice: str) -> None:
    """There is nothing to adopt: what comes is the first version."""
    empty: dict[str, Finding] = {"flights": TableFinding(None, None, None)}
    script = Script(choosing(on_history_gap=choice)).read(marked()).look(empty)
    record = script.written()
    assert record.watermarks == {"flights": BEFORE}
    assert record.epoch != "0"
    assert script.read(record).look(empty).asks(acts.Finish).reason == "nothing new in flights"


def test_a_choice_for_one_source_and_the_start_of_another_are_one_transition() -> None:
    plan = replace(choosing(on_recreated="adopt"), spec=spec_of(FLIGHTS, replace(WEATHER, start="latest")))
    plan = choosing(plan, on_recreated="adopt")
    findings = {"flights": CHANGES["on_recreated"][0], "weather": TableFinding(at(9, "w"), 9, NOW)}
    record = Script(plan).read(marked()).look(findings).written()
    assert record.watermarks == {"flights": only_found(4, "t2", "m2"), "weather": only_found(9, "w")}
    assert record.history[-1].what.startswith("started weather; adopt: main.silver.flights")


def test_a_choice_keeps_the_watermarks_of_the_other_sources() -> None:
    plan = choosing(replace(plan_of(), spec=spec_of(FLIGHTS, WEATHER)), on_recreated="full_rebuild")
    record = replace(marked(), watermarks={"flights": at(3), "weather": at(9, "w"), "gone": at(1, "g")})
    findings = {"flights": CHANGES["on_recreated"][0], "weather": TableFinding(at(9, "w"), None, None)}
    after = Script(plan).read(record).look(findings).written()
    assert after.watermarks == {"flights": BEFORE, "weather": at(9, "w"), "gone": at(1, "g")}


def test_a_claim_of_an_epoch_that_was_ended_is_not_committed() -> None:
    """A person began a new epoch while its run was at work: nothing is written, and it is said."""
    record = running_record()
    script = Script().read(record).answer(seen(11, OK, claim_of(record)))
    script.read(replace(record, epoch="e2", claim=None, watermarks={"flights": at(1)}))
    finish = script.asks(acts.Finish)
    assert (finish.ranges, finish.run_id) == ((), 11)
    assert finish.reason.endswith("belongs to an epoch that was ended meanwhile")


OTHERS = {
    "recreated": TableFinding(at(5, "t2", "m2"), 5, NOW),
    "replaced": TableFinding(at(9, "t1", "m2"), 9, NOW),
    "cut": TableFinding(at(4), 4, NOW),
    "empty": TableFinding(None, None, None),
}


@pytest.mark.parametrize("change", OTHERS)
@pytest.mark.parametrize("age", [timedelta(0), 2 * DAY], ids=["young", "old"])
def test_a_claim_without_a_run_on_a_source_that_changed_is_void(change: str, age: timedelta) -> None:
    record = with_claim(claimed_record(), created_at=NOW - age)
    record = replace(record, watermarks={"flights": at(3)})
    findings: dict[str, Finding] = {"flights": OTHERS[change]}
    script = Script().read(record).look(findings)
    assert script.asks(acts.FindRun).claim == record.claim
    voided = script.absent(findings).written()
    assert (voided.claim, voided.watermarks) == (None, {"flights": at(3)})
    what = voided.history[-1].what
    assert what.startswith("voided the claim on ops_share.silver.flights (-1, 5]: ops_share.silver.flights is another")
    script.read(voided)
    if change != "cut":
        script.look(findings).fails(SourceError)
    else:
        assert claim_of(script.look(findings).written()).ranges[0].to == at(4)


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_no_token_of_an_earlier_generation_answers_for_the_claim_after_a_void_one(generation: int) -> None:
    """A first start knows no identity of its table, so a recreated one continues its watermark, with the same `from`."""
    record = claimed_record()
    used = {token_of("delays", TARGET, "0", {"flights": BEFORE}, before) for before in range(generation)}
    token = token_of("delays", TARGET, "0", {"flights": BEFORE}, generation)
    record = with_claim(record, generation=generation, token=token, failures=generation)
    findings: dict[str, Finding] = {"flights": OTHERS["recreated"]}
    script = Script().read(record).look(findings).absent(findings)
    claim = claim_of(script.read(script.written()).look(findings).written())
    assert (claim.generation, claim.ranges[0].to) == (0, OTHERS["recreated"].position)
    assert claim.token not in used
    assert dict(claim.parameters)["bridge_token"] == claim.token


def test_a_claim_on_a_source_that_changed_adopts_the_run_that_carries_its_token() -> None:
    record = claimed_record()
    script = Script().read(record).look({"flights": OTHERS["recreated"]}).answer(acts.RunFound(11))
    assert script.asks(acts.GetRun).run_id == 11
    script.answer(seen(11, RUNNING, claim_of(record)))
    assert claim_of(script.written()).run_id == 11
    assert script.asks(acts.AwaitRun).run_id == 11


def test_a_run_that_carries_the_token_of_a_void_claim_but_is_gone_is_undecided() -> None:
    record = claimed_record()
    findings: dict[str, Finding] = {"flights": OTHERS["recreated"]}
    script = Script().read(record).look(findings).answer(acts.RunFound(11))
    after = script.gone(findings=findings).written()
    assert (claim_of(after).status, claim_of(after).run_id) == (ClaimStatus.UNDECIDED, 11)


def test_voiding_that_another_writer_overtakes_starts_again() -> None:
    findings: dict[str, Finding] = {"flights": OTHERS["recreated"]}
    script = Script().read(claimed_record()).look(findings).absent(findings)
    script.asks(acts.WriteRecord)
    script.answer(acts.RecordLost()).asks(acts.ReadRecord)


@pytest.mark.parametrize(
    "finding",
    [
        TableFinding(at(5), 5, NOW),
        TableFinding(at(5), None, None),
        TableFinding(at(9), 9, NOW),
        TableFinding(TablePosition(5), 5, NOW),
    ],
    ids=["same", "nothing new", "further", "no ids"],
)
def test_a_claim_whose_sources_are_the_same_is_started_as_it_is(finding: TableFinding) -> None:
    record = claimed_record()
    assert Script().read(record).look({"flights": finding}).asks(acts.StartRun).claim == record.claim


def test_a_source_that_todays_code_no_longer_has_voids_nothing() -> None:
    record = claimed_record()
    plan = replace(plan_of(), spec=spec_of(WEATHER))
    script = Script(plan).read(record).look({"weather": TableFinding(at(9, "w"), 9, NOW)})
    assert script.asks(acts.StartRun).claim == record.claim


def test_a_pause_is_kept_before_the_sources_are_looked_at_again() -> None:
    record = with_claim(claimed_record(), not_before=NOW + timedelta(seconds=9))
    assert Script().read(record).asks(acts.Pause).until == NOW + timedelta(seconds=9)
    Script(now=NOW + timedelta(seconds=9)).read(record).asks(acts.Look)


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        (lambda: Script().read(claimed_record()), acts.RunFound(None)),
        (lambda: Script().read(claimed_record()).look({"flights": OTHERS["cut"]}), acts.RunStarted(1)),
        (lambda: proving(running_record()), acts.RecordWritten()),
    ],
    ids=["look again", "void", "proof"],
)
def test_a_driver_that_answers_another_question_is_told_so(script: Any, wrong: acts.Observation) -> None:
    with pytest.raises(TypeError, match=f"the driver answered with {type(wrong).__name__}"):
        script().answer(wrong)


def test_the_findings_of_these_tests_continue_the_mark_where_they_should() -> None:
    assert claim_of(Script().read(marked()).look(NEW_FLIGHTS).written()).ranges[0].from_ == at(3)


WAITING = plan_of(wait=True, poll=timedelta(seconds=20))


def test_a_consumer_that_waits_looks_again_after_each_poll_until_there_is_something() -> None:
    record = marked(5)
    script = Script(WAITING).read(record).look()
    pause = script.asks(acts.Pause)
    assert (pause.until, pause.reason) == (NOW + timedelta(seconds=20), "nothing new in flights")
    assert pause.looking is not None
    assert (pause.looking.watermarks, pause.looking.revision) == (record.watermarks, 7)
    claimed = script.answer(acts.Woke()).read(record).look({"flights": TableFinding(at(6), 6, NOW)}).written()
    assert claim_of(claimed).ranges[0].to == at(6)


@pytest.mark.parametrize(("wait", "act"), [(True, acts.Pause), (False, acts.WriteRecord)])
def test_the_timers_hold_a_consumer_only_where_it_waits(wait: bool, act: type[acts.Act]) -> None:
    plan = replace(WAITING, wait=wait, spec=spec_of(FLIGHTS, min_time_between_triggers=timedelta(seconds=60)))
    record = replace(marked(), last_claimed_at=NOW - timedelta(seconds=50))
    script = Script(plan).read(record).look()
    assert isinstance(script.act, act)
    if isinstance(script.act, acts.Pause):
        assert script.act.until == NOW + timedelta(seconds=10)
        script.answer(acts.Woke())
        script.now = NOW + timedelta(seconds=10)
        assert claim_of(script.read(record).look().written()).ranges[0].to == at(5)


def test_a_consumer_that_waits_goes_on_after_its_first_start() -> None:
    script = Script(WAITING).first_start().look({"flights": TableFinding(None, None, None)})
    record = script.written()
    assert claim_of(script.read(record).look().written()).ranges[0].to == at(5)


def test_a_consumer_that_waits_takes_an_open_claim_at_once() -> None:
    assert Script(WAITING).read(running_record()).asks(acts.GetRun).run_id == 11
