"""The protocol where runs fail, never run, are repaired, or find their shared table behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import ClaimBlocked, RunFailed
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.record import Claim, ClaimStatus, Record, token_of
from tests.core.builders import NOW, TARGET, WEATHER, at, plan_of, seconds
from tests.core.driving import (
    FAILED,
    OK,
    RUNNING,
    SKIPPED,
    Script,
    claim_of,
    claimed_record,
    running_record,
    seen,
    with_claim,
)

BEHIND = "BridgeReaderBehind: ops_share.silver.flights is at 4, the claim needs 5"
LIMIT = {"life_cycle_state": "TERMINATED", "result_state": "MAXIMUM_CONCURRENT_RUNS_REACHED"}
CANCELED = {"life_cycle_state": "TERMINATED", "result_state": "CANCELED"}
PARTLY = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS_WITH_FAILURES"}


def resumed(record: Record, state: dict[str, Any], error: str = "", **more: Any) -> Script:
    """A process that finds the claim's run in this state."""
    claim = claim_of(record)
    return Script(**more).read(record).answer(seen(claim.run_id or 0, state, claim, error))


def same_but_next(old: Claim, new: Claim) -> bool:
    """Whether `new` is the next generation of the same ranges, its run not started."""
    return (
        new.ranges == old.ranges
        and new.generation == old.generation + 1
        and new.token == token_of("delays", TARGET, "0", {"flights": TablePosition(-1)}, new.generation)
        and new.token != old.token
        and new.run_id is None
        and new.status is ClaimStatus.OPEN
        and dict(new.parameters)["bridge_generation"] == str(new.generation)
        and dict(new.parameters)["bridge_token"] == new.token
        and dict(new.parameters)["flights_end"] == dict(old.parameters)["flights_end"]
    )


@pytest.mark.parametrize("state", [SKIPPED, LIMIT], ids=["skipped", "limit"])
@pytest.mark.parametrize("failures", [0, 2])
def test_a_run_that_never_ran_pauses_and_does_not_count(state: dict[str, Any], failures: int) -> None:
    record = running_record(failures=failures)
    script = resumed(record, state)
    after = script.written()
    claim = claim_of(after)
    assert same_but_next(claim_of(record), claim)
    assert claim.failures == failures
    assert claim.not_before == seconds(30)
    assert script.asks(acts.Pause).until == seconds(30)
    script.answer(acts.Woke())
    script.now = seconds(30)
    assert script.read(after).look().asks(acts.StartRun).claim == claim


def test_the_pause_outlives_the_process() -> None:
    record = resumed(running_record(), SKIPPED).written()
    assert Script(now=seconds(29)).read(record).asks(acts.Pause).until == seconds(30)
    Script(now=seconds(30)).read(record).look().asks(acts.StartRun)


def test_the_pause_ends_with_the_record_read_anew() -> None:
    script = resumed(running_record(), SKIPPED)
    script.written()
    script.answer(acts.Woke())
    script.asks(acts.ReadRecord)


@pytest.mark.parametrize("error", [BEHIND, f"notebooks.bridge.{BEHIND}", "RuntimeError: BridgeReaderBehind"])
def test_a_reader_that_is_behind_pauses_and_does_not_count(error: str) -> None:
    record = running_record(failures=1)
    script = resumed(record, FAILED, error)
    after = script.written()
    assert same_but_next(claim_of(record), claim_of(after))
    assert (claim_of(after).failures, claim_of(after).idle) == (1, 1)
    assert error in after.history[-1].what
    assert script.asks(acts.Pause).until == seconds(30)


def test_a_run_that_succeeded_is_never_taken_for_behind() -> None:
    resumed(running_record(), OK, BEHIND).asks(acts.ReadRecord)


@pytest.mark.parametrize("error", ["RuntimeError: bridgereaderbehind", "", "ValueError: no"])
def test_another_error_is_a_failure(error: str) -> None:
    assert claim_of(resumed(running_record(), FAILED, error).written()).status is ClaimStatus.FAILED


@pytest.mark.parametrize("state", [FAILED, CANCELED], ids=["failed", "canceled"])
def test_a_failure_is_written_and_then_told(state: dict[str, Any]) -> None:
    script = resumed(running_record(), state, "ValueError: bad row")
    record = script.written()
    assert (claim_of(record).status, claim_of(record).failures, claim_of(record).run_id) == (ClaimStatus.FAILED, 1, 11)
    assert record.watermarks == running_record().watermarks
    error = script.fails(RunFailed)
    assert error.run_id == 11
    for words in ("run 11 of job 7", "(-1, 5]", "ValueError: bad row", "the next try starts the next generation"):
        assert words in str(error)


def test_A16_success_with_failures_never_moves_the_watermark() -> None:
    script = resumed(running_record(), PARTLY)
    record = script.asks(acts.WriteRecord).record
    assert claim_of(record).status is ClaimStatus.FAILED
    assert record.watermarks == running_record().watermarks


def test_the_next_try_opens_the_next_generation_at_once() -> None:
    record = running_record(ClaimStatus.FAILED, failures=1)
    script = resumed(record, FAILED)
    after = script.written()
    assert same_but_next(claim_of(record), claim_of(after))
    assert (claim_of(after).failures, claim_of(after).not_before) == (1, None)
    assert after.last_claimed_at == NOW
    assert script.read(after).look().asks(acts.StartRun).claim == claim_of(after)


def test_the_next_generation_is_void_where_its_source_changed_since_the_first() -> None:
    script = resumed(running_record(ClaimStatus.FAILED, failures=1), FAILED)
    after = script.written()
    changed = {"flights": TableFinding(at(5, "t2", "m2"), 5, NOW)}
    script.read(after).look(changed).absent(changed)
    assert script.written().claim is None


def test_a_failed_run_that_was_repaired_is_followed_again() -> None:
    record = running_record(ClaimStatus.FAILED, failures=1)
    script = resumed(record, RUNNING)
    after = script.written()
    assert (claim_of(after).status, claim_of(after).generation) == (ClaimStatus.OPEN, 0)
    assert script.asks(acts.AwaitRun).run_id == 11
    script.answer(seen(11, OK, claim_of(after))).read(after)
    assert script.written().watermarks == {"flights": at(5)}


@pytest.mark.parametrize("status", [ClaimStatus.FAILED, ClaimStatus.BLOCKED])
def test_a_failed_run_that_was_repaired_by_now_is_committed(status: ClaimStatus) -> None:
    record = running_record(status, failures=3)
    script = resumed(record, OK).read(record)
    committed = script.written()
    assert (committed.claim, committed.watermarks) == (None, {"flights": at(5)})
    assert script.asks(acts.Finish).run_id == 11


@pytest.mark.parametrize("status", [ClaimStatus.OPEN, ClaimStatus.FAILED, ClaimStatus.BLOCKED])
def test_a_run_repaired_with_other_parameters_proves_nothing_about_our_ranges(status: ClaimStatus) -> None:
    """Success counts with the claim's parameters only: a person may have repaired it over another range."""
    record = running_record(status, failures=1)
    claim = claim_of(record)
    script = Script().read(record).answer(seen(11, OK, claim, flights_end="3"))
    if isinstance(script.act, acts.ReadRecord):
        script.read(record)
    if isinstance(script.act, acts.WriteRecord):
        assert script.act.record.watermarks == record.watermarks
        assert script.act.record.claim is not None
    else:
        script.asks(acts.Fail)


def test_the_last_failure_that_is_allowed_blocks() -> None:
    script = resumed(running_record(failures=2), FAILED)
    record = script.written()
    assert (claim_of(record).status, claim_of(record).failures) == (ClaimStatus.BLOCKED, 3)
    assert "no more runs are started" in str(script.fails(RunFailed))


@pytest.mark.parametrize("tries", range(3))
def test_a_blocked_claim_starts_nothing_however_often_it_is_tried(tries: int) -> None:
    record = running_record(ClaimStatus.BLOCKED, failures=3)
    error = resumed(record, FAILED, now=seconds(tries * 100_000)).fails(ClaimBlocked)
    for words in ("3 runs of", "the last is 11", "databricks-bridge claim resolve"):
        assert words in str(error)


def test_a_blocked_run_that_was_repaired_and_failed_again_stays_blocked() -> None:
    record = running_record(ClaimStatus.BLOCKED, failures=3)
    script = resumed(record, RUNNING)
    after = script.written()
    script.answer(seen(11, FAILED, claim_of(after)))
    assert claim_of(script.written()).status is ClaimStatus.BLOCKED


@pytest.mark.parametrize(("state", "error"), [(SKIPPED, ""), (FAILED, BEHIND)], ids=["skipped", "behind"])
def test_a_blocked_claim_starts_nothing_though_its_run_now_shows_another_ending(
    state: dict[str, Any], error: str
) -> None:
    resumed(running_record(ClaimStatus.BLOCKED, failures=3), state, error).fails(ClaimBlocked)


def test_one_generation_is_allowed_where_one_is_asked_for() -> None:
    assert (
        claim_of(resumed(running_record(), FAILED, plan=plan_of(max_generations=1)).written()).status
        is ClaimStatus.BLOCKED
    )


def test_from_the_first_failure_to_the_block_three_runs_are_started() -> None:
    started, record = [], claimed_record()
    for _ in range(6):
        script = Script().read(record)
        for _ in range(12):
            match script.act:
                case acts.Look():
                    script.look()
                case acts.StartRun(claim):
                    started.append(claim.token)
                    script.answer(acts.RunStarted(len(started)))
                case acts.GetRun(run_id) | acts.AwaitRun(run_id):
                    claim = claim_of(record)
                    script.answer(seen(run_id, FAILED, replace(claim, run_id=run_id)))
                case acts.WriteRecord(written):
                    record = written
                    script.answer(acts.RecordWritten())
                case acts.Fail():
                    break
    assert len(started) == len(set(started)) == 3
    script.fails(ClaimBlocked)


def test_a_generation_that_was_started_by_a_racer_is_adopted_too() -> None:
    record = resumed(running_record(ClaimStatus.FAILED, failures=1), FAILED).written()
    script = Script().read(record).look().answer(acts.RunStarted(12)).answer(seen(12, OK, claim_of(record)))
    noted = script.written()
    assert claim_of(noted).run_id == 12
    assert with_claim(noted, run_id=None).claim == with_claim(record).claim


def idle_pauses(plan: Plan, generations: int) -> tuple[list[timedelta], Record]:
    """The pauses of so many generations in a row that never ran, each looked at when its pause is over."""
    record, now, pauses = running_record(), NOW, []
    for n in range(generations):
        script = resumed(with_claim(record, run_id=11 + n), SKIPPED, plan=plan, now=now)
        record = script.written()
        until = script.asks(acts.Pause).until
        pauses.append(until - now)
        now = until
    return pauses, record


def test_the_pause_doubles_with_each_generation_that_never_ran_up_to_15_minutes() -> None:
    pauses, record = idle_pauses(plan_of(), 8)
    assert [pause.total_seconds() for pause in pauses] == [30, 60, 120, 240, 480, 900, 900, 900]
    assert (claim_of(record).idle, claim_of(record).generation, claim_of(record).failures) == (8, 8, 0)


def test_a_pause_that_is_longer_than_15_minutes_stays_as_it_was_asked_for() -> None:
    pauses, _ = idle_pauses(plan_of(pause=timedelta(hours=1)), 3)
    assert pauses == [timedelta(hours=1)] * 3


def test_no_pause_stays_none() -> None:
    script = resumed(running_record(), SKIPPED, plan=plan_of(pause=timedelta(0)))
    assert claim_of(script.written()).not_before == NOW
    script.asks(acts.StartRun)


def test_a_run_that_never_runs_for_days_is_still_tried_every_15_minutes() -> None:
    record = with_claim(running_record(), idle=1000)
    assert claim_of(resumed(record, SKIPPED).written()).not_before == seconds(900)


def test_a_failure_ends_the_doubling() -> None:
    record = with_claim(running_record(ClaimStatus.FAILED, failures=1), idle=5, not_before=seconds(-1))
    after = resumed(record, FAILED).written()
    assert (claim_of(after).idle, claim_of(after).not_before, claim_of(after).failures) == (0, None, 1)
    again = resumed(with_claim(after, run_id=12), SKIPPED).written()
    assert (claim_of(again).idle, claim_of(again).not_before) == (1, seconds(30))


def test_a_generation_that_never_ran_does_not_count_between_failures() -> None:
    record = resumed(running_record(failures=2), SKIPPED).written()
    assert claim_of(resumed(with_claim(record, run_id=12), FAILED).written()).status is ClaimStatus.BLOCKED


@pytest.mark.parametrize(
    ("status", "state"), [(ClaimStatus.FAILED, FAILED), (ClaimStatus.OPEN, SKIPPED)], ids=["failed", "never ran"]
)
def test_own_parameters_are_those_of_the_claim_over_all_generations(status: ClaimStatus, state: dict[str, Any]) -> None:
    """Also where today's code has others, or calls its tables otherwise."""
    today = plan_of(WEATHER, own_parameters={"region": "CA", "year": "2013"})
    record = with_claim(running_record(), status=status)
    for generation in (1, 2):
        record = resumed(record, state, plan=today).written()
        given = dict(claim_of(record).parameters)
        assert (given["region"], given["bridge_generation"]) == ("NY", str(generation))
        assert set(given) == set(dict(claim_of(running_record()).parameters))
        assert (given["flights_table"], given["flights_end"]) == ("ops_share.silver.flights", "5")
        record = with_claim(record, run_id=11 + generation, status=status)
