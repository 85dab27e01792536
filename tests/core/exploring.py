"""The search through every reachable state of the model in `exploration`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from databricks_bridge.core.claims import Plan
from databricks_bridge.core.positions import TablePosition
from tests.core.exploration import moves
from tests.core.exploration_world import Keep, Model, Stored, World, plan_on, violation


@dataclass(frozen=True)
class Exploration:
    states: int
    violation: str | None
    path: tuple[str, ...]
    stuck: int
    stuck_path: tuple[str, ...] = ()


def explore(
    *,
    plan: Plan | None = None,
    consumers: int,
    last: tuple[int, ...],
    keep: Keep,
    first: tuple[int, ...] | None = None,
    crashes: int = 0,
    failures: int = 0,
    skips: int = 0,
    hollows: int = 0,
    hides: int = 0,
    deletes: int = 0,
    days: int = 0,
    outages: int = 0,
    repairs: int = 0,
    tries: bool = False,
    sensor: bool = False,
    without_data: frozenset[int] = frozenset(),
) -> Exploration:
    """Visit every reachable state; then check that the end (all committed, no claim) stays reachable from each.

    Each table grows from `first` (empty) to `last`. A claim blocked after max_generations failures waits for a person
    and counts as an end, unless a sensor waits though that person has repaired its run; so does one that is undecided since its run was deleted.
    """
    model = Model(plan or plan_on(), last, keep, without_data, tries, sensor)
    processes = (None,) * consumers
    counts = (crashes, failures, skips, hollows, hides, deletes, days, outages)
    start = World(first or (-1,) * len(last), Stored(None), (), processes, *counts, repairs=repairs)
    start = replace(start, untold=(None,) * consumers, told=(0,) * consumers)
    came_from: dict[bytes, tuple[bytes, str] | None] = {start.key(): None}
    before: dict[bytes, list[bytes]] = {}
    ends: list[bytes] = []
    queue = deque([start])
    while queue:
        world = queue.popleft()
        key = world.key()
        wrong = violation(model, world)
        if wrong:
            return Exploration(len(came_from), wrong, _path(came_from, key), 0)
        if _is_end(model, world):
            ends.append(key)
        for what, after in moves(model, world):
            next_key = after.key()
            before.setdefault(next_key, []).append(key)
            if next_key not in came_from:
                came_from[next_key] = (key, what)
                queue.append(after)
    reachable = set(ends)
    back = deque(ends)
    while back:
        for key in before.get(back.popleft(), ()):
            if key not in reachable:
                reachable.add(key)
                back.append(key)
    stuck = [key for key in came_from if key not in reachable]
    return Exploration(len(came_from), None, (), len(stuck), _path(came_from, stuck[0]) if stuck else ())


def _is_end(model: Model, world: World) -> bool:
    record = world.stored.record
    if world.versions != model.last or record is None or any(world.untold):
        return False
    if record.claim is not None:
        run_id = record.claim.run_id
        if model.sensor and run_id is not None and world.runs[run_id].state in ("active", "ok"):
            return False
        deleted = any(run.deleted for run in world.runs)
        return record.claim.status == "blocked" or (deleted and record.claim.status == "undecided")
    marks = [record.watermarks.get(alias) for alias in model.aliases]
    return [mark.at for mark in marks if isinstance(mark, TablePosition)] == list(model.last)


def _path(came_from: dict[bytes, tuple[bytes, str] | None], key: bytes) -> tuple[str, ...]:
    steps: list[str] = []
    while (step_before := came_from[key]) is not None:
        key, what = step_before
        steps.append(what)
    return tuple(reversed(steps))
