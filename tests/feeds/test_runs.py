"""Finished runs as a source and as a plain wait, over a list of runs written in the test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from databricks_bridge.core.claims import claimed, committed
from databricks_bridge.core.pending import Settled
from databricks_bridge.core.positions import Range, RunsPosition
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.feeds.next_run import LONGEST_RUN, next_run
from databricks_bridge.feeds.runs import MOST_RUNS, OVERLAP, OVERLAP_RUNS, look_at_runs
from tests.core.builders import NOW, plan_of

HOUR = 3_600_000
BRONZE = TriggeredRuns(job_id=7, triggers=frozenset({"FILE_ARRIVAL"}))
SINCE = datetime(2026, 1, 10, tzinfo=UTC)
LONG_ID = 10**14
SINCE_MS = int(SINCE.timestamp() * 1000)


def run(
    run_id: int, start: int, end: int | None, result: str = "SUCCESS", trigger: str = "FILE_ARRIVAL"
) -> dict[str, Any]:
    """A run as `runs/list` shows it; without `end` it is active."""
    state = (
        {"life_cycle_state": "RUNNING"} if end is None else {"life_cycle_state": "TERMINATED", "result_state": result}
    )
    page = f"http://127.0.0.1/#job/7/run/{run_id}"
    return {
        "run_id": run_id,
        "job_id": 7,
        "trigger": trigger,
        "start_time": start,
        "end_time": end or 0,
        "state": state,
        "run_page_url": page,
        "job_parameters": [{"name": "a", "default": "", "value": "1"}],
    }


@dataclass
class Listing:
    """Answers `list_runs` as the API does: newest start first, `start_time_from` inclusive."""

    runs: list[dict[str, Any]] = field(default_factory=list)

    async def job_of(self, job_id: int | None, job_name: str | None, max_age: float | None = None) -> int:
        assert (job_id, job_name) == (7, None)
        return 7

    async def list_runs(
        self,
        *,
        job_id: int,
        start_time_from_ms: int,
        end_time_from_ms: int | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        assert job_id == 7
        for one in sorted(self.runs, key=lambda one: (-one["start_time"], -one["run_id"])):
            over = one["state"]["life_cycle_state"] in ("TERMINATED", "SKIPPED")
            if one["start_time"] < start_time_from_ms:
                continue
            if end_time_from_ms is None or not over or one["end_time"] >= end_time_from_ms:
                yield one


async def look(runs: list[dict[str, Any]], mark: RunsPosition | None = None, source: TriggeredRuns = BRONZE) -> Any:
    return await look_at_runs(Listing(runs), source, mark)


def after_commit(mark: RunsPosition, found: Any) -> RunsPosition:
    """The watermark once the protocol has claimed and committed what was found."""
    plan = plan_of(BRONZE)
    one = Range("job_7", "7", mark, found.position, found.runs)
    record = claimed(plan, None, Settled({"job_7": mark}, "0"), (one,), NOW)
    assert record.claim is not None
    after = committed(record, record.claim, 11, NOW).watermarks["job_7"]
    assert isinstance(after, RunsPosition)
    return after


async def test_runs_come_in_the_order_in_which_they_ended() -> None:
    found = await look([run(1, HOUR, 5 * HOUR), run(2, 2 * HOUR, 3 * HOUR), run(3, 3 * HOUR, 3 * HOUR)])
    assert found.runs == (2, 3, 1)
    assert found.changed_at == datetime.fromtimestamp(5 * 3600, UTC)


async def test_only_the_wanted_trigger_and_result_count_and_those_of_other_triggers_are_done() -> None:
    runs = [
        run(1, 10, 20),
        run(2, 11, 21, trigger="ONE_TIME"),
        run(3, 12, 22, result="FAILED"),
        run(4, 13, 23, trigger="TABLE"),
        run(5, 14, 24, result="SUCCESS_WITH_FAILURES"),
    ]
    found = await look(runs)
    assert found.runs == (1,)
    assert found.position.done == {1, 2, 4}
    other = TriggeredRuns(
        job_id=7, triggers=frozenset({"TABLE", "FILE_ARRIVAL"}), run_state=frozenset({"FAILED", "SUCCESS"})
    )
    assert (await look(runs, source=other)).runs == (1, 3, 4)


async def test_a_failed_run_holds_nothing_and_counts_once_it_is_repaired() -> None:
    """A repair keeps id and start of a run, and ends it anew."""
    runs = [run(1, 10, 20, result="FAILED"), run(2, 11, 21)]
    found = await look(runs)
    assert found.runs == (2,)
    mark = after_commit(RunsPosition(0), found)
    assert (await look(runs, mark)).runs == ()
    runs = [run(1, 10, 30), run(2, 11, 21), run(3, 12, 25)]
    found = await look(runs, mark)
    assert found.runs == (3, 1)
    assert (await look(runs, after_commit(mark, found))).runs == ()


async def test_a_repair_of_what_the_mark_has_passed_is_not_seen() -> None:
    """It has passed what is not of the last hour and not among the newest 24."""
    later = [run(n, n * HOUR, n * HOUR + 1) for n in range(2, 2 + OVERLAP_RUNS)]
    found = await look([run(1, HOUR, 2 * HOUR, result="FAILED"), *later])
    mark = after_commit(RunsPosition(0), found)
    assert mark.low_water_ms == 2 * HOUR
    assert (await look([run(1, HOUR, 99 * HOUR), *later], mark)).runs == ()


async def test_C08_a_skipped_run_is_no_range_and_what_comes_after_it_is() -> None:
    skipped = run(2, 11, 11, result="MAXIMUM_CONCURRENT_RUNS_REACHED")
    skipped["state"]["life_cycle_state"] = "SKIPPED"
    mark = after_commit(RunsPosition(0), await look([run(1, 10, 20), skipped]))
    found = await look([run(1, 10, 20), skipped, run(3, 30, 40)], mark)
    assert found.runs == (3,)
    only_skipped = TriggeredRuns(
        job_id=7, triggers=frozenset({"FILE_ARRIVAL"}), run_state=frozenset({"MAXIMUM_CONCURRENT_RUNS_REACHED"})
    )
    assert (await look([run(1, 10, 20), skipped], source=only_skipped)).runs == (2,)


async def test_a_trigger_kind_new_to_us_does_not_count_and_does_not_harm() -> None:
    assert (await look([run(1, 10, 20, trigger="FUTURE_KIND")])).runs == ()


async def test_no_runs_no_position() -> None:
    found = await look([])
    assert (found.position, found.runs, found.changed_at) == (RunsPosition(0), (), None)
    mark = RunsPosition(5 * HOUR, frozenset({9}))
    assert (await look([], mark)).position.low_water_ms == 5 * HOUR


async def test_each_run_comes_once_over_many_looks_whatever_order_they_end_in() -> None:
    """Ends reach us in another order than starts; one run is long, one is late by almost the overlap."""
    late = 10 * HOUR - int(OVERLAP.total_seconds() * 1000) + 1
    history = [
        [run(1, HOUR, 2 * HOUR), run(2, 2 * HOUR, None)],
        [run(3, 9 * HOUR, 9 * HOUR)],
        [run(4, 10 * HOUR, 10 * HOUR)],
        [run(2, 2 * HOUR, 11 * HOUR)],
        [run(5, late, late + 5), run(6, 12 * HOUR, 13 * HOUR)],
    ]
    listing: dict[int, dict[str, Any]] = {}
    mark = RunsPosition(0)
    taken: list[int] = []
    for news in history:
        listing |= {one["run_id"]: one for one in news}
        found = await look(list(listing.values()), mark)
        taken += found.runs
        mark = after_commit(mark, found)
    assert taken == [1, 3, 4, 2, 5, 6]


async def test_the_mark_never_goes_back() -> None:
    mark = RunsPosition(50 * HOUR, frozenset({1}))
    found = await look([run(1, 50 * HOUR, 51 * HOUR), run(2, 50 * HOUR, None)], mark)
    assert found.position.low_water_ms == 50 * HOUR


async def test_a_subscription_that_lives_long_does_not_outgrow_its_ledger() -> None:
    """A run each 30 minutes, under ids as long as the service's, committed one by one, as the protocol merges them."""
    mark = RunsPosition(0)
    runs: list[dict[str, Any]] = []
    for n in range(LONG_ID, LONG_ID + 300):
        start = (n - LONG_ID + 1) * HOUR // 2
        runs.append(run(n, start, start + 60_000))
        found = await look(runs, mark)
        assert found.runs == (n,)
        mark = after_commit(mark, found)
    assert len(mark.done) == OVERLAP_RUNS
    assert len(json.dumps(mark.to_json())) < 500


async def test_a_long_backlog_comes_in_ranges_that_fit_each_run_once() -> None:
    """An hourly job with its 60 days of runs, of which each tenth is of another trigger, some fail and some never end."""
    every = range(1, 24 * 60)
    kinds = {0: {"trigger": "PERIODIC"}, 3: {"result": "FAILED"}}
    runs = [
        run(LONG_ID + n, n * HOUR, None if n % 97 == 5 else n * HOUR + 60_000, **kinds.get(n % 10, {})) for n in every
    ]
    wanted = [one["run_id"] for n, one in zip(every, runs, strict=True) if n % 10 not in kinds and n % 97 != 5]
    mark, came = RunsPosition(0), []
    while (found := await look(runs, mark)).runs:
        assert len(found.runs) <= MOST_RUNS
        came.append(found.runs)
        mark = after_commit(mark, found)
        assert len(json.dumps(mark.to_json())) < 3_000
    assert [one for some in came for one in some] == wanted
    assert len(came) == -(-len(wanted) // MOST_RUNS)
    ended = [
        run(one["run_id"], one["start_time"], 24 * 61 * HOUR, **kinds.get(one["run_id"] % 10, {}))
        if one["end_time"] == 0
        else one
        for one in runs
    ]
    later = [
        one["run_id"]
        for one in ended
        if one["end_time"] == 24 * 61 * HOUR
        and one["trigger"] == "FILE_ARRIVAL"
        and one["state"].get("result_state") == "SUCCESS"
    ]
    assert list((await look(ended, mark)).runs) == later, "those that were open when the mark went past them"


async def test_runs_of_one_start_are_not_torn_apart_for_ever() -> None:
    runs = [run(n, HOUR, 2 * HOUR) for n in range(1, MOST_RUNS + 31)]
    first = await look(runs, RunsPosition(0))
    mark = after_commit(RunsPosition(0), first)
    second = await look(runs, mark)
    assert (len(first.runs), len(second.runs)) == (MOST_RUNS, 30)
    assert not set(first.runs) & set(second.runs)
    assert (await look(runs, after_commit(mark, second))).runs == ()


async def wait(runs: list[dict[str, Any]], wanted: TriggeredRuns = BRONZE) -> Any:
    return await next_run(Listing(runs), wanted, SINCE)


async def test_the_first_run_that_ended_at_or_after_since_is_found() -> None:
    runs = [
        run(1, SINCE_MS - HOUR, SINCE_MS - 1),
        run(2, SINCE_MS - 2 * HOUR, SINCE_MS + 9),
        run(3, SINCE_MS - HOUR, SINCE_MS),
        run(4, SINCE_MS + 1, SINCE_MS + 5),
    ]
    found = await wait(runs)
    assert found.run_id == 3
    assert (await wait([one for one in runs if one["run_id"] != 3])).run_id == 4


async def test_what_is_found_is_told_whole_and_is_json() -> None:
    found = await wait([run(3, SINCE_MS - HOUR, SINCE_MS)])
    assert json.loads(json.dumps(found.to_json())) == {
        "run_id": 3,
        "job_id": 7,
        "trigger": "FILE_ARRIVAL",
        "result_state": "SUCCESS",
        "start_time": SINCE_MS - HOUR,
        "end_time": SINCE_MS,
        "run_page_url": "http://127.0.0.1/#job/7/run/3",
        "job_parameters": {"a": "1"},
    }


@pytest.mark.parametrize(
    "other",
    [
        run(1, SINCE_MS, None),
        run(1, SINCE_MS, SINCE_MS + 1, trigger="ONE_TIME"),
        run(1, SINCE_MS, SINCE_MS + 1, result="FAILED"),
        run(1, SINCE_MS, SINCE_MS + 1, result="CANCELED"),
        run(1, SINCE_MS - 9, SINCE_MS - 1),
    ],
    ids=["active", "by hand", "failed", "cancelled", "before"],
)
async def test_what_does_not_match_is_waited_past(other: dict[str, Any]) -> None:
    assert await wait([other]) is None
    assert (await wait([other, run(2, SINCE_MS + 5, SINCE_MS + 6)])).run_id == 2


async def test_a_run_of_two_days_is_still_found() -> None:
    start = SINCE_MS - int(LONGEST_RUN.total_seconds() * 1000)
    assert (await wait([run(1, start, SINCE_MS)])).run_id == 1
    assert await wait([run(1, start - 1, SINCE_MS)]) is None


async def test_a_wait_for_failed_runs_reads_an_answer_that_has_only_status() -> None:
    """`state` is deprecated: a run that failed must be a failed run in an answer without it."""
    details = {"code": "RUN_EXECUTION_ERROR", "type": "CLIENT_ERROR", "message": "boom"}
    one = run(1, SINCE_MS, SINCE_MS + 1)
    del one["state"]
    one["status"] = {"state": "TERMINATED", "termination_details": details}
    wanted = TriggeredRuns(job_id=7, triggers=frozenset({"FILE_ARRIVAL"}), run_state=frozenset({"FAILED"}))

    class StatusOnly(Listing):
        async def list_runs(self, **filters: Any) -> AsyncIterator[dict[str, Any]]:
            for one in self.runs:
                yield one

    found = await next_run(StatusOnly([one]), wanted, SINCE)
    assert found is not None
