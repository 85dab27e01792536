"""What a mark over finished runs remembers: repairs, runs that stay open, ends that are not told."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from databricks_bridge.core.claims import claimed, committed
from databricks_bridge.core.pending import Settled, first_watermark
from databricks_bridge.core.positions import Range, RunsPosition, covers, merge
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.feeds import new_states
from databricks_bridge.feeds.runs import OVERLAP_RUNS
from tests.core.builders import NOW, plan_of, spec_of
from tests.feeds.test_runs import BRONZE, HOUR, LONG_ID, after_commit, look, run

DAY = 24 * HOUR
NOT_QUITE = TriggeredRuns(
    job_id=7,
    triggers=frozenset({"FILE_ARRIVAL"}),
    run_state=frozenset({"SUCCESS", "SUCCESS_WITH_FAILURES"}),
)


def hourly(first: int, count: int = OVERLAP_RUNS + 6) -> list[dict[str, Any]]:
    """Runs that succeed, one an hour from `first` on: enough for the mark to pass what came before."""
    return [run(n, n * HOUR, n * HOUR + 1) for n in range(first, first + count)]


@pytest.mark.parametrize("after_repair", ["SUCCESS", "FAILED"])
async def test_a_run_that_counted_and_is_repaired_while_another_is_claimed_does_not_count_again(
    after_repair: str,
) -> None:
    mark = after_commit(RunsPosition(0), await look([run(1, HOUR, HOUR + 1, "SUCCESS_WITH_FAILURES")], None, NOT_QUITE))
    assert mark.done == {1}
    found = await look([run(1, HOUR, None), run(3, HOUR + 60, HOUR + 61)], mark, NOT_QUITE)
    assert found.runs == (3,)
    mark = after_commit(mark, found)
    assert mark.done == {1, 3}
    runs = [run(1, HOUR, 2 * HOUR, after_repair), run(3, HOUR + 60, HOUR + 61), run(4, HOUR + 70, HOUR + 71)]
    found = await look(runs, mark, NOT_QUITE)
    assert found.runs == (4,)
    assert after_commit(mark, found).done == {1, 3, 4}
    runs[0] = run(1, HOUR, 3 * HOUR)
    assert (await look(runs, after_commit(mark, found), NOT_QUITE)).runs == ()


async def test_a_daily_run_that_is_repaired_after_the_next_days_run_counts() -> None:
    mark = after_commit(RunsPosition(0), await look([run(1, DAY, DAY + 1)]))
    failed, later = run(2, 2 * DAY, 2 * DAY + 1, "FAILED"), [run(n, n * DAY, n * DAY + 1) for n in range(3, 26)]
    for until in range(1, len(later) + 1):
        mark = after_commit(mark, await look([failed, *later[:until]], mark))
    repaired = run(2, 2 * DAY, 26 * DAY)
    found = await look([repaired, *later], mark)
    assert found.runs == (2,)
    assert (await look([repaired, *later], after_commit(mark, found))).runs == ()


async def test_the_newest_24_runs_are_kept_by_id_and_all_of_the_last_hour() -> None:
    seldom = [run(n, n * DAY, n * DAY + 1) for n in range(1, 31)]
    position = (await look(seldom)).position
    assert (position.low_water_ms, position.done) == (7 * DAY, frozenset(range(7, 31)))
    often = [run(n, DAY + n * 60_000, DAY + n * 60_000 + 1) for n in range(1, 101)]
    position = (await look(often)).position
    assert (position.low_water_ms, position.done) == (DAY + 40 * 60_000, frozenset(range(40, 101)))


async def test_a_run_that_stays_open_does_not_hold_the_mark_and_counts_when_it_ends() -> None:
    found = await look([run(1, HOUR, None), *hourly(2)])
    mark = after_commit(RunsPosition(0), found)
    assert (mark.low_water_ms, mark.late) == (8 * HOUR, frozenset({(HOUR, 1)}))
    assert (await look([run(1, HOUR, None), *hourly(2)], mark)).runs == ()
    found = await look([run(1, HOUR, None), *hourly(2, 40)], mark)
    assert found.runs == tuple(range(32, 42))
    mark = after_commit(mark, found)
    ended = [run(1, HOUR, 50 * HOUR), *hourly(2, 40)]
    found = await look(ended, mark)
    assert found.runs == (1,)
    to = after_commit(mark, found)
    assert to.late == frozenset()
    assert not covers(mark, to)
    assert covers(to, mark)
    assert (await look(ended, to)).runs == ()


@pytest.mark.parametrize("state", ["RUNNING", "FUTURE_STATE"])
async def test_a_run_that_stays_open_does_not_make_the_record_grow(state: str) -> None:
    hung = run(LONG_ID, HOUR, None)
    hung["state"] = {"life_cycle_state": state}
    mark, runs, sizes = RunsPosition(0), [hung], []
    for n in range(1, 151):
        start = (n + 1) * HOUR
        runs.append(run(LONG_ID + n, start, start + 1))
        found = await look(runs, mark)
        one = Range("job_7", "7", mark, found.position, found.runs)
        record = claimed(plan_of(BRONZE), None, Settled({"job_7": mark}, "0"), (one,), NOW)
        assert record.claim is not None
        sizes.append(len(json.dumps(record.to_json())))
        after = committed(record, record.claim, 11, NOW).watermarks["job_7"]
        assert isinstance(after, RunsPosition)
        mark = after
    assert mark.late == {(HOUR, LONG_ID)}
    assert max(sizes) < 5_000
    assert sizes[-1] - sizes[60] < 50, "only the digits of the times may grow"


async def test_of_what_is_older_than_the_mark_only_the_open_runs_are_looked_at_again() -> None:
    """The listing begins at the oldest of them, and shows others too."""
    failed, by_hand = run(2, 2 * HOUR, 2 * HOUR + 1, "FAILED"), run(90, 3 * HOUR, None, trigger="ONE_TIME")
    mark = after_commit(RunsPosition(0), await look([run(1, HOUR, None), failed, by_hand, *hourly(4)]))
    assert mark.late == {(HOUR, 1)}
    repaired, ended_by_hand = run(2, 2 * HOUR, 60 * HOUR), run(90, 3 * HOUR, 60 * HOUR)
    repaired_again = run(4, 4 * HOUR, None)
    runs = [run(1, HOUR, None), repaired, ended_by_hand, repaired_again, *hourly(5, 29), run(50, 50 * HOUR, 51 * HOUR)]
    found = await look(runs, mark)
    assert found.runs == (50,)
    assert found.position.late == {(HOUR, 1)}


@pytest.mark.parametrize("ending", ["deleted", "FAILED"])
async def test_an_open_run_that_is_deleted_or_fails_is_forgotten_at_the_next_claim(ending: str) -> None:
    mark = after_commit(RunsPosition(0), await look([run(1, HOUR, None), *hourly(2)]))
    gone = [] if ending == "deleted" else [run(1, HOUR, 40 * HOUR, ending)]
    found = await look([*gone, *hourly(2)], mark)
    assert found.runs == ()
    assert Range("job_7", "7", mark, mark, ()).empty
    found = await look([*gone, *hourly(2), run(50, 50 * HOUR, 50 * HOUR)], mark)
    assert (found.runs, found.position.late) == ((50,), frozenset())


async def test_a_run_that_is_open_at_a_start_at_latest_counts_when_it_ends() -> None:
    start = first_watermark(spec_of(BRONZE, start="latest"), BRONZE, await look([run(1, HOUR, None), *hourly(2)]))
    assert isinstance(start, RunsPosition)
    assert start.found
    assert start.late == {(HOUR, 1)}
    found = await look([run(1, HOUR, 60 * HOUR), *hourly(2)], start)
    assert found.runs == (1,)
    after = after_commit(start, found)
    assert not after.found
    assert (await look([run(1, HOUR, 60 * HOUR), *hourly(2)], after)).runs == ()


async def test_of_two_looks_from_one_mark_either_may_be_claimed_and_nothing_counts_twice() -> None:
    """The token is that of the mark: the run has what one of both saw, and both commit that."""
    mark = after_commit(RunsPosition(0), await look([run(1, HOUR, None), *hourly(2)]))
    early = await look([run(1, HOUR, None), *hourly(2, 32)], mark)
    ended = [run(1, HOUR, 60 * HOUR), *hourly(2, 32)]
    later = await look(ended, mark)
    assert (early.runs, later.runs) == ((32, 33), (32, 33, 1))
    assert (await look(ended, after_commit(mark, early))).runs == (1,)
    assert (await look(ended, after_commit(mark, later))).runs == ()
    assert merge(early.position, later.position) == merge(later.position, early.position) == later.position


@pytest.mark.parametrize("end", ["missing", 0, None])
async def test_an_end_that_is_not_told_is_the_start(end: Any) -> None:
    odd = run(1, 5 * HOUR, 9 * HOUR)
    odd["end_time"] = end
    if end == "missing":
        del odd["end_time"]
    found = await look([odd, run(2, HOUR, 6 * HOUR), run(3, HOUR, 2 * HOUR)])
    assert found.runs == (3, 1, 2)
    alone = await look([odd])
    assert alone.changed_at is not None
    assert alone.changed_at.timestamp() == 5 * 3600


async def test_A03_a_fired_run_in_a_state_new_to_us_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_states, "KEPT", 2)
    odd = run(LONG_ID + 7001, HOUR, None)
    odd["state"] = {"life_cycle_state": "HIBERNATING"}
    with caplog.at_level(logging.WARNING, "databricks_bridge.feeds"):
        for _ in range(3):
            assert (await look([odd, run(2, HOUR, None)])).runs == ()
    assert [record.getMessage() for record in caplog.records] == [
        f"run {LONG_ID + 7001} is in a state new to us (HIBERNATING); waiting on"
    ]


def test_what_was_warned_of_is_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_states, "KEPT", 2)
    warned: new_states.Warned = {}
    told: list[int] = []
    for run_id in (1, 2, 1, 3, 3, 1):
        odd = {"run_id": run_id, "state": {"life_cycle_state": "HIBERNATING"}}
        new_states.warn_once(odd, warned, lambda _, run_id, state: told.append(run_id))
    assert told == [1, 2, 3, 1]
    assert list(warned) == [(3, "HIBERNATING"), (1, "HIBERNATING")]


async def test_C13_a_retry_counts_only_where_retries_are_asked_for() -> None:
    runs = [run(1, HOUR, HOUR + 1, "FAILED"), run(2, HOUR + 2, HOUR + 3, trigger="RETRY")]
    runs[1] |= {"original_attempt_run_id": 1, "attempt_number": 1}
    found = await look(runs)
    assert (found.runs, found.position.done) == ((), {2})
    asked = TriggeredRuns(job_id=7, triggers=frozenset({"FILE_ARRIVAL", "RETRY"}))
    assert (await look(runs, source=asked)).runs == (2,)
