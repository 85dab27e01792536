"""Explores every interleaving of consumers that drive the real step function, over a model of everything around it.

The model: one table whose version grows, one ledger (with compare-and-set, or a plain upsert), a workspace where
run-now under a known token answers the old run, runs that succeed, fail or are skipped, and processes that die
between any two acts. Shares no code with the protocol but the step function that it explores.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.protocol import Memory, begin, step
from databricks_bridge.core.record import Record, Target
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.subscription import SubscriptionSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = SubscriptionSpec("s", (DeltaTable("c.s.t"),), "earliest", Policy())
PLAN = Plan(SPEC, Target("http://w", "1", 7), {}, max_generations=3, pause=timedelta(0))
ENDINGS = {
    "active": Ending.ACTIVE,
    "ok": Ending.SUCCEEDED,
    "failed": Ending.FAILED,
    "skipped": Ending.NOTHING_RAN,
}


@dataclass(frozen=True)
class Run:
    token: str
    parameters: tuple[tuple[str, str], ...]
    state: str

    @property
    def bounds(self) -> tuple[int, int]:
        given = dict(self.parameters)
        return int(given["t_start"]) - 1, int(given["t_end"])


@dataclass(frozen=True)
class Process:
    memory: Memory
    act: acts.Act


@dataclass(frozen=True)
class World:
    """A state of everything. `version` is the table's newest, -1 while it is empty."""

    version: int
    record: Record | None
    runs: tuple[Run, ...]
    processes: tuple[Process | None, ...]
    crashes: int
    failures: int
    skips: int

    def key(self) -> bytes:
        return hashlib.blake2b(repr(self).encode(), digest_size=16).digest()


def moves(world: World, last_version: int, compare_and_set: bool) -> Iterator[tuple[str, World]]:
    """Every next state, with what happened."""
    if world.version < last_version:
        yield f"commit {world.version + 1}", replace(world, version=world.version + 1)
    for at, run in enumerate(world.runs):
        if run.state == "active":
            yield f"run {at} succeeds", _ended(world, at, "ok")
            if world.failures:
                yield f"run {at} fails", replace(_ended(world, at, "failed"), failures=world.failures - 1)
            if world.skips:
                yield f"run {at} is skipped", replace(_ended(world, at, "skipped"), skips=world.skips - 1)
    for at, process in enumerate(world.processes):
        if process is None:
            yield f"P{at} starts", _with(world, at, Process(*begin()))
            continue
        if world.crashes:
            yield (
                f"P{at} dies before {type(process.act).__name__}",
                replace(_with(world, at, None), crashes=world.crashes - 1),
            )
        done = _do(world, process.act, compare_and_set)
        if done is not None:
            after, observation = done
            memory, act = step(PLAN, process.memory, observation, NOW)
            over = isinstance(act, acts.Finish | acts.Fail)
            memory = replace(memory, record=_bare(memory.record, compare_and_set))
            yield f"P{at} {type(process.act).__name__}", _with(after, at, None if over else Process(memory, act))


def _do(world: World, act: acts.Act, compare_and_set: bool) -> tuple[World, acts.Observation] | None:
    match act:
        case acts.ReadRecord():
            return world, acts.RecordRead(world.record)
        case acts.WriteRecord(record):
            stored = world.record.revision if world.record else 0
            if compare_and_set and record.revision != stored + 1:
                return world, acts.RecordLost()
            return replace(world, record=_bare(record, compare_and_set)), acts.RecordWritten()
        case acts.Look(record):
            if world.version < 0:
                return world, acts.Looked({"t": TableFinding(None, None, None)})
            return world, acts.Looked({"t": TableFinding(TablePosition(world.version, "id", "m"), world.version, NOW)})
        case acts.Survey():
            return world, acts.Surveyed(len(world.runs) - 1 if world.runs else None)
        case acts.FindRun(claim):
            found = [at for at, run in enumerate(world.runs) if run.token == claim.token]
            return world, acts.RunFound(found[0] if found else None)
        case acts.StartRun(claim):
            for at, run in enumerate(world.runs):
                if run.token == claim.token:
                    return world, acts.RunStarted(at)
            run = Run(claim.token, claim.parameters, "active")
            return replace(world, runs=(*world.runs, run)), acts.RunStarted(len(world.runs))
        case acts.GetRun(run_id):
            return world, _seen(world, run_id)
        case acts.AwaitRun(run_id):
            return None if world.runs[run_id].state == "active" else (world, _seen(world, run_id))
        case acts.Pause():
            return world, acts.Woke()
    raise TypeError(f"the model does not know {act!r}")


def _seen(world: World, run_id: int) -> acts.RunSeen:
    run = world.runs[run_id]
    outcome = Outcome(ENDINGS[run.state], "", "", "")
    return acts.RunSeen(run_id, outcome, dict(run.parameters))


def _bare(record: Record | None, compare_and_set: bool) -> Record | None:
    """Without what cannot matter to the protocol but would make every path a state of its own."""
    if record is None:
        return None
    return replace(record, history=(), revision=record.revision if compare_and_set else 0)


def _with(world: World, at: int, process: Process | None) -> World:
    return replace(world, processes=(*world.processes[:at], process, *world.processes[at + 1 :]))


def _ended(world: World, at: int, state: str) -> World:
    return replace(world, runs=(*world.runs[:at], replace(world.runs[at], state=state), *world.runs[at + 1 :]))


def violation(world: World) -> str | None:
    """What must never be: two runs at work, successful runs that overlap, a watermark ahead of success."""
    if sum(run.state == "active" for run in world.runs) > 1:
        return "two runs at work at once"
    succeeded = sorted(run.bounds for run in world.runs if run.state == "ok")
    covered = -1
    for from_, to in succeeded:
        if from_ < covered:
            return f"successful runs overlap: {succeeded}"
        if from_ == covered:
            covered = to
    mark = world.record.watermarks["t"] if world.record and "t" in world.record.watermarks else None
    if isinstance(mark, TablePosition) and mark.version > covered:
        return f"the watermark {mark.version} is ahead of what succeeded ({covered})"
    return None


@dataclass(frozen=True)
class Exploration:
    states: int
    violation: str | None
    path: tuple[str, ...]
    stuck: int
    stuck_path: tuple[str, ...] = ()


def explore(
    *, consumers: int, last_version: int, crashes: int, failures: int, skips: int, compare_and_set: bool
) -> Exploration:
    """Visit every reachable state; then check that the end (all committed, no claim) stays reachable from each.

    A claim blocked after max_generations failures waits for a person and counts as an end.
    """
    start = World(-1, None, (), (None,) * consumers, crashes, failures, skips)
    came_from: dict[bytes, tuple[bytes, str] | None] = {start.key(): None}
    before: dict[bytes, list[bytes]] = {}
    ends: list[bytes] = []
    queue = deque([start])
    while queue:
        world = queue.popleft()
        key = world.key()
        wrong = violation(world)
        if wrong:
            return Exploration(len(came_from), wrong, _path(came_from, key), 0)
        if _is_end(world, last_version):
            ends.append(key)
        for what, after in moves(world, last_version, compare_and_set):
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


def _is_end(world: World, last_version: int) -> bool:
    record = world.record
    if world.version < last_version or record is None:
        return False
    if record.claim is not None:
        return record.claim.status == "blocked"
    mark = record.watermarks.get("t")
    return isinstance(mark, TablePosition) and mark.version == last_version


def _path(came_from: dict[bytes, tuple[bytes, str] | None], key: bytes) -> tuple[str, ...]:
    steps: list[str] = []
    while (step_before := came_from[key]) is not None:
        key, what = step_before
        steps.append(what)
    return tuple(reversed(steps))
