"""Generated histories of a job's runs, and two consumers that look, claim and commit in any order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from databricks_bridge.core.pending import RunsFinding, first_watermark
from databricks_bridge.core.positions import Position, RunsPosition, covers, merge, position_from_json
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.feeds import runs as feeds_runs
from tests.core.builders import spec_of
from tests.feeds.test_runs import look, run

MINUTE = 60_000
SOURCE = TriggeredRuns(
    job_id=7,
    triggers=frozenset({"FILE_ARRIVAL"}),
    run_state=frozenset({"SUCCESS", "SUCCESS_WITH_FAILURES"}),
)
COUNTS = ("SUCCESS", "SUCCESS_WITH_FAILURES")
RESULTS = (*COUNTS, "FAILED")

upstream = st.tuples(
    st.sampled_from(["start", "start", "by hand", "end", "end", "end", "repair", "delete"]), st.integers(0, 11)
)
BEFORE_ALL = RunsPosition(0)
consumers = st.tuples(st.sampled_from(["look", "claim", "look and claim"]), st.integers(0, 1))


@dataclass
class World:
    """The job's runs; the record's mark; what each consumer saw last, from which mark.

    `claims` are the ranges by the mark they begin at: a token is that of the mark, so a second claim from there gets the
    run of the first one.
    """

    clock: int = 0
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    mark: RunsPosition = BEFORE_ALL
    seen: dict[int, tuple[RunsPosition, RunsFinding, frozenset[int]]] = field(default_factory=dict)
    claims: dict[str, RunsFinding] = field(default_factory=dict)
    taken: Counter[int] = field(default_factory=Counter)
    passed: set[int] = field(default_factory=set)
    ids: Iterator[int] = field(default_factory=lambda: count(100))

    def happens(self, what: str, which: int) -> None:
        """Something upstream; `which` picks the run and the result."""
        self.clock += (which + 1) * 17 * MINUTE
        open_ones = [one for one in self.runs.values() if not one["end_time"]]
        over = [one for one in self.runs.values() if one["end_time"]]
        if what in ("start", "by hand"):
            trigger = "ONE_TIME" if what == "by hand" else "FILE_ARRIVAL"
            run_id = next(self.ids)
            self.runs[run_id] = run(run_id, self.clock, None, trigger=trigger)
        elif what == "end" and open_ones:
            self._replace(open_ones[which % len(open_ones)], self.clock, RESULTS[which % len(RESULTS)])
        elif what == "repair" and (broken := [one for one in over if one["state"]["result_state"] != "SUCCESS"]):
            self._replace(broken[which % len(broken)], None)
        elif what == "delete" and over:
            del self.runs[over[which % len(over)]["run_id"]]

    def _replace(self, one: dict[str, Any], end: int | None, result: str = "SUCCESS") -> None:
        self.runs[one["run_id"]] = run(one["run_id"], one["start_time"], end, result, one["trigger"])

    async def acts(self, what: str, who: int) -> None:
        """A consumer looks; or claims what it saw, however old that is, and commits it."""
        if what != "claim":
            found = await look(list(self.runs.values()), self.mark, SOURCE)
            self.seen[who] = self.mark, found, self.failed_now()
        if what != "look" and who in self.seen and self.seen[who][1].runs:
            from_, found, failed = self.seen.pop(who)
            first = self.claims.setdefault(json.dumps(from_.identity()), found)
            if first is found:
                self.taken.update(found.runs)
                self.passed |= {run_id for run_id in failed if self.has(found.position, run_id)}
            self.commit(from_, first.position)

    def commit(self, from_: RunsPosition, to: Position) -> None:
        if not covers(self.mark, to):
            mark = to if self.mark == from_ else merge(self.mark, to)
            assert isinstance(mark, RunsPosition)
            assert covers(mark, to)
            self.mark = mark

    def failed_now(self) -> frozenset[int]:
        return frozenset(
            run_id for run_id, one in self.runs.items() if one["end_time"] and one["state"]["result_state"] == "FAILED"
        )

    def has(self, mark: RunsPosition, run_id: int) -> bool:
        return run_id in self.runs and mark.has(self.runs[run_id]["start_time"], run_id)

    def check(self) -> None:
        assert position_from_json(json.loads(json.dumps(self.mark.to_json()))) == self.mark
        assert max(self.taken.values(), default=0) <= 1, "a run was claimed twice"
        for run_id, one in self.runs.items():
            if one["trigger"] != "FILE_ARRIVAL":
                assert not self.taken[run_id]
            elif self.taken[run_id]:
                assert self.has(self.mark, run_id), f"{run_id} would be claimed again"
            elif run_id not in self.passed:
                assert not self.has(self.mark, run_id), f"{run_id} was lost"


@settings(max_examples=150, deadline=None)
@given(
    before=st.lists(upstream, max_size=12),
    latest=st.booleans(),
    steps=st.lists(upstream | consumers, min_size=15, max_size=60),
)
async def test_every_run_counts_once_whatever_happens_to_it_and_whoever_looks_when(
    before: Sequence[tuple[str, int]], latest: bool, steps: Sequence[tuple[str, int]]
) -> None:
    """But one that failed and that the mark has passed: with two runs kept by id instead of 24, that happens soon."""
    world = World()
    with patch.object(feeds_runs, "OVERLAP_RUNS", 2):
        for what, which in before:
            world.happens(what, which)
        if latest:
            found = await look(list(world.runs.values()), None, SOURCE)
            start = first_watermark(spec_of(SOURCE, start="latest"), SOURCE, found)
            assert isinstance(start, RunsPosition)
            world.mark = start
            world.passed = {run_id for run_id in world.runs if world.has(start, run_id)}
        world.check()
        for what, which in steps:
            if "look" in what or what == "claim":
                await world.acts(what, which)
            else:
                world.happens(what, which)
            world.check()
        for one in [one for one in world.runs.values() if not one["end_time"]]:
            world._replace(one, world.clock + 1)
        await world.acts("look and claim", 0)
        world.check()
    ended_well = {
        run_id
        for run_id, one in world.runs.items()
        if one["trigger"] == "FILE_ARRIVAL" and one["state"]["result_state"] in COUNTS
    }
    assert ended_well - world.passed <= set(world.taken)
