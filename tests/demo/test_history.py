"""The proof, over histories that are right and histories that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from demo.history import AuditRun, Facts, FiredRun, GoldRun, Killed, Overtaken, Range, judge

HOUR = ("EWR", "2013-01-16T10:00:00Z")


def gold_run(run_id: int, flights: tuple[int, int], weather: tuple[int, int], **changed: object) -> GoldRun:
    run = GoldRun(
        run_id=run_id,
        started=run_id * 1000,
        result="SUCCESS",
        subscription="delays_by_weather",
        epoch="0",
        generation="1",
        token=f"{run_id:064x}",
        ranges=(Range("flights", "t-1", *flights), Range("weather", "t-2", *weather)),
        rows_in={"flights": 10, "weather": 3},
        rows_out=5,
    )
    return replace(run, **changed)


FIRST = gold_run(1, (-1, 1), (-1, 1))
SECOND = gold_run(2, (1, 2), (1, 1))
THIRD = gold_run(3, (2, 4), (1, 3))

GOOD = Facts(
    gold_runs=(FIRST, SECOND, THIRD),
    fired_runs=(
        FiredRun("ops", "bronze-flights", 11, "FILE_ARRIVAL"),
        FiredRun("ops", "silver-flights", 12, "TABLE"),
    ),
    audit_runs=(AuditRun(21, "SUCCESS", (11,)),),
    latest={"flights": 4, "weather": 3},
    killed=Killed("scheduled__1", 2, ((1, "failed"), (2, "success")), 2),
    overtaken=Overtaken(1, "flights", 2),
    gold={HOUR: (2, 2, 2, 67, 144, 5.75, 4.0, 0.09)},
    expected={HOUR: (2, 2, 2, 67, 144, 5.75, 4, 0.09)},
)


def test_good_history_holds_and_is_counted() -> None:
    verdict = judge(GOOD)
    assert verdict.findings == ()
    assert verdict.holds
    assert verdict.line == "ranges committed 5, gaps 0, overlaps 0, runs started twice 0"


def test_failed_generation_and_its_successor_are_no_double_start() -> None:
    failed = replace(SECOND, run_id=7, started=1500, result="FAILED", token="f" * 64)
    again = replace(SECOND, generation="2")
    verdict = judge(replace(GOOD, gold_runs=(FIRST, failed, again, THIRD)))
    assert verdict.holds
    assert verdict.line == "ranges committed 5, gaps 0, overlaps 0, runs started twice 0"


def with_runs(*runs: GoldRun) -> Callable[[Facts], Facts]:
    return lambda facts: replace(facts, gold_runs=runs)


WRONG = {
    "the middle was never processed": (
        with_runs(FIRST, THIRD),
        "ranges committed 4, gaps 1, overlaps 0, runs started twice 0",
        "flights: no run has processed (1, 2]",
    ),
    "the end was never processed": (
        with_runs(FIRST, SECOND),
        "ranges committed 3, gaps 2, overlaps 0, runs started twice 0",
        "weather: no run has processed (1, 3]",
    ),
    "a version was processed twice": (
        with_runs(FIRST, SECOND, gold_run(3, (0, 4), (1, 3))),
        "ranges committed 5, gaps 0, overlaps 2, runs started twice 0",
        "flights: (1, 2] of run 2 begins before 4, which was processed already",
    ),
    # What a token with `to` in it would do: two racers of one `from` see two latest versions and start two runs.
    "the token was broken, so that one claim started two runs": (
        with_runs(FIRST, SECOND, gold_run(9, (1, 4), (1, 3)), gold_run(10, (4, 4), (3, 3))),
        "ranges committed 5, gaps 0, overlaps 1, runs started twice 1",
        "run 9 was started although run 2 has the same claim",
    ),
    "a doubled run failed, but it was started": (
        with_runs(FIRST, SECOND, replace(SECOND, run_id=8, started=2500, result="FAILED", token="e" * 64), THIRD),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 1",
        "run 8 was started although run 2 has the same claim",
    ),
    "one token names two runs": (
        with_runs(FIRST, SECOND, replace(THIRD, token=SECOND.token)),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 1",
        "run 3 was started although run 2 has the same token",
    ),
    "the next generation did again what had succeeded": (
        with_runs(FIRST, SECOND, replace(SECOND, run_id=8, started=2500, generation="2", token="e" * 64), THIRD),
        "ranges committed 6, gaps 0, overlaps 1, runs started twice 1",
        "run 8 was started although run 2 has the same range",
    ),
    "the ranges were processed out of order": (
        with_runs(FIRST, replace(SECOND, started=9000), THIRD),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "flights: the runs did not process its ranges in order",
    ),
    "more was processed than the table has": (
        lambda facts: replace(facts, latest={"flights": 3, "weather": 3}),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "flights: processed up to 4, but the table's latest version is 3",
    ),
    "someone started a silver run": (
        lambda facts: replace(facts, fired_runs=(*facts.fired_runs, FiredRun("met", "silver-weather", 13, "ONE_TIME"))),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "met: run 13 of silver-weather was started by ONE_TIME, not by a trigger",
    ),
    "one bronze run was audited twice": (
        lambda facts: replace(facts, audit_runs=(*facts.audit_runs, AuditRun(22, "SUCCESS", (11,)))),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "audit runs 21 and 22 were both started for bronze run 11",
    ),
    "nothing was audited": (
        lambda facts: replace(facts, audit_runs=()),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "no bronze run was audited",
    ),
    "the killed task started another run": (
        lambda facts: replace(facts, killed=Killed("scheduled__1", 2, ((1, "failed"), (2, "success")), 3)),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "the killed task of scheduled__1 had run 2, its second try 3",
    ),
    "the killed task never came back": (
        lambda facts: replace(facts, killed=Killed("scheduled__1", 2, ((1, "failed"),), 2)),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "the killed task of scheduled__1 did not come back as try 2: its tries are [(1, 'failed')]",
    ),
    "no task was killed": (
        lambda facts: replace(facts, killed=None),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "no task was killed",
    ),
    "a run took in what came while it was under way": (
        lambda facts: replace(facts, overtaken=Overtaken(2, "flights", 2)),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "run 2 was to end below version 2 of flights, its ranges end at [2]",
    ),
    "nothing came while a run was under way": (
        lambda facts: replace(facts, overtaken=None),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "no data came while a gold run was under way",
    ),
    "gold is wrong": (
        lambda facts: replace(facts, gold={HOUR: (2, 2, 2, 67, 143, 5.75, 4.0, 0.09)}),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "EWR 2013-01-16T10:00:00Z: gold has (2, 2, 2, 67, 143, 5.75, 4.0, 0.09), "
        "computed from the raw records it is (2, 2, 2, 67, 144, 5.75, 4, 0.09)",
    ),
    "gold lacks an hour": (
        lambda facts: replace(facts, gold={}),
        "ranges committed 5, gaps 0, overlaps 0, runs started twice 0",
        "EWR 2013-01-16T10:00:00Z: gold has no row, "
        "computed from the raw records it is (2, 2, 2, 67, 144, 5.75, 4, 0.09)",
    ),
}


@pytest.mark.parametrize(("spoil", "line", "finding"), WRONG.values(), ids=WRONG.keys())
def test_wrong_history(spoil: Callable[[Facts], Facts], line: str, finding: str) -> None:
    verdict = judge(spoil(GOOD))
    assert verdict.line == line
    assert finding in verdict.findings
    assert not verdict.holds


def test_too_few_ranges() -> None:
    facts = replace(GOOD, gold_runs=(FIRST,), latest={"flights": 1, "weather": 1})
    assert "only 2 ranges were committed, 3 were to be" in judge(facts).findings
