"""For any history of commits, kinds, crashes and endings, what was committed partitions what came since the start."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from databricks_bridge.core.positions import TablePosition
from tests.core.exploration import moves
from tests.core.exploration_world import EARLIEST, LATEST, Keep, Model, Stored, World, plan_on, violation

LAST = 7
kinds = st.frozensets(st.integers(1, LAST), max_size=LAST)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    without_data=kinds,
    keep=st.sampled_from(Keep),
    consumers=st.integers(1, 2),
    cap=st.none() | st.integers(1, 3),
)
def test_what_was_committed_partitions_what_came(
    seed: int, without_data: frozenset[int], keep: Keep, consumers: int, cap: int | None
) -> None:
    random = Random(seed)
    plan = plan_on(EARLIEST, LATEST)
    plan = replace(plan, spec=replace(plan.spec, max_commits_per_run=cap), max_generations=99)
    model = Model(plan, (LAST, LAST), keep, without_data)
    world = World((0, 0), Stored(None), (), (None,) * consumers, crashes=3, failures=2, skips=2, hollows=0)
    for commit in random.choices([True, False], [1, 11], k=random.randint(50, 200)):
        # Commits come seldom, or all would be there before the first look.
        nexts = [after for what, after in moves(model, world) if what.startswith("commit ") == commit]
        world = random.choice(nexts) if nexts else world
        assert violation(model, world) is None
    world = run_to_the_end(model, replace(world, crashes=0, failures=0, skips=0))
    assert world.stored.record is not None
    for source in plan.spec.sources:
        ranges = sorted(run.bounds(source.alias) for run in world.runs if run.state == "ok")
        ranges = [(from_, to) for from_, to in ranges if from_ < to]
        data = [one for one in range(LAST + 1) if one not in without_data]
        covered = [version for from_, to in ranges for version in range(from_ + 1, to + 1)]
        assert len(covered) == len(set(covered)), f"{source.alias}: {ranges} overlap"
        start = -1 if source is EARLIEST else ranges[0][0] if ranges else LAST
        assert {one for one in data if one > start} <= set(covered), f"{source.alias}: {ranges} leave data out"
        assert all(version > start for version in covered)
        mark = world.stored.record.watermarks[source.alias]
        assert isinstance(mark, TablePosition)
        assert mark.at >= max([one for one in data if one > start], default=start)


def run_to_the_end(model: Model, world: World) -> World:
    """No more faults: commits first, then every process in turn until no act changes anything any more."""
    seen: set[bytes] = set()
    while True:
        nexts = list(moves(model, world))
        commits = [after for what, after in nexts if what.startswith("commit ")]
        if commits:
            world = commits[0]
            continue
        fresh = [after for what, after in nexts if after.key() not in seen]
        if not fresh:
            return world
        world = fresh[0]
        seen.add(world.key())
