"""Every interleaving of DAG runs that claim, work and commit around external work, with a record that is lost and brought back.

The copy of the record is written after the record, and a process may die between the two; but no record is lost, and nobody
brings one back, in that very moment, for nothing could know of it. A DAG run goes from its claim task to
the work to its commit task; each task is tried again, until a person gives the DAG run up. Shares no code with `exploration`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

from databricks_bridge.core import acts
from databricks_bridge.core.around import begin_commit
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.protocol import begin, step
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record, Target
from databricks_bridge.core.second_copy import brought_back
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.steps import Memory
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.core.task_try import TaskTry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PERSON = Reason("ada", "it was lost")
SPEC = SubscriptionSpec("s", (DeltaTable("c.s.t"),), "earliest", Policy())
Work: TypeAlias = tuple[str, tuple[int, int]]
"""A claim's id, and the range that was handed out with it."""


@dataclass(frozen=True)
class Copying:
    """The record is written, its copy is not."""

    record: Record


@dataclass(frozen=True)
class Process:
    memory: Memory
    act: acts.Act | Copying


@dataclass(frozen=True)
class DagRun:
    """A DAG run under way: before its claim `work` is None; with `worked` the commit task is next."""

    number: int
    work: Work | None = None
    worked: bool = False
    process: Process | None = None

    @property
    def task(self) -> TaskTry:
        return TaskTry("d", f"r{self.number}", "commit" if self.worked else "claim")


@dataclass(frozen=True)
class World:
    """`handed` are all ids with their ranges, `done` the work since the subscription began. The other numbers are faults left."""

    version: int
    dag_runs: tuple[DagRun | None, ...]
    next_run: int
    crashes: int
    losses: int
    given_up: int
    restarts: int
    record: Record | None = None
    copy: Record | None = None
    handed: tuple[Work, ...] = ()
    done: tuple[Work, ...] = ()
    wrong: str = ""

    def key(self) -> bytes:
        return hashlib.blake2b(repr(self).encode(), digest_size=16).digest()


@dataclass(frozen=True)
class Found:
    states: int
    violation: str
    path: tuple[str, ...]
    stuck: tuple[str, ...]


def explore_around(
    *,
    dag_runs: int,
    last: int,
    at_once: int = 1,
    crashes: int = 0,
    losses: int = 0,
    given_up: int = 0,
    restarts: int = 0,
) -> Found:
    """Visit every reachable state. `dag_runs` are started in all, `at_once` of them at most side by side."""
    start = World(-1, (None,) * at_once, 0, crashes, losses, given_up, restarts)
    came_from: dict[bytes, tuple[bytes, str] | None] = {start.key(): None}
    before: dict[bytes, list[bytes]] = {}
    queue, ends = deque([start]), []
    while queue:
        world = queue.popleft()
        key = world.key()
        wrong = violation(world)
        if wrong:
            return Found(len(came_from), wrong, _path(came_from, key), ())
        if not any(world.dag_runs) and world.next_run == dag_runs:
            ends.append(key)
        for what, after in _moves(world, dag_runs, last):
            next_key = after.key()
            before.setdefault(next_key, []).append(key)
            if next_key not in came_from:
                came_from[next_key] = key, what
                queue.append(after)
    reachable, back = set(ends), deque(ends)
    while back:
        for one in before.get(back.popleft(), ()):
            if one not in reachable:
                reachable.add(one)
                back.append(one)
    stuck = next((one for one in came_from if one not in reachable), None)
    return Found(len(came_from), "", (), () if stuck is None else _path(came_from, stuck))


def violation(world: World) -> str:
    """What must never be: one id with two ranges, work that overlaps or was passed over, two DAG runs at one claim."""
    if world.wrong:
        return world.wrong
    if len({token for token, _ in world.handed}) < len(world.handed):
        return f"one id was handed out with two ranges: {sorted(world.handed)}"
    held = [one.work for one in world.dag_runs if one is not None and one.work is not None]
    if len(set(held)) < len(held):
        return "two DAG runs have one claim"
    reached = -1
    for _, (from_, to) in sorted(world.done, key=lambda work: work[1]):
        if from_ != reached:
            return f"work overlaps or was left out: {sorted(work for _, work in world.done)}"
        reached = to
    mark = world.record.watermarks.get("t") if world.record else None
    if isinstance(mark, TablePosition) and mark.version > reached:
        return f"the watermark {mark.version} is ahead of the work ({reached})"
    return ""


def _moves(world: World, dag_runs: int, last: int) -> Iterator[tuple[str, World]]:
    if world.version < last:
        yield f"commit {world.version + 1}", replace(world, version=world.version + 1)
    copying = any(one is not None and one.process and isinstance(one.process.act, Copying) for one in world.dag_runs)
    if world.losses and world.record is not None and not copying:
        yield "the record is lost", replace(world, record=None, losses=world.losses - 1)
    if world.record is None and world.copy is not None and not copying:
        back = brought_back(world.copy, "s", "dag d", PERSON, NOW)
        yield "a person brings it back", replace(world, record=_bare(back))
        if world.restarts and not any(world.dag_runs):
            again = replace(world, copy=None, done=(), restarts=world.restarts - 1)
            yield "a person deletes the copy, to begin anew", again
    for at, dag_run in enumerate(world.dag_runs):
        if dag_run is None:
            if world.next_run < dag_runs:
                begun = replace(world, next_run=world.next_run + 1)
                yield f"DAG run {world.next_run} begins", _with(begun, at, DagRun(world.next_run))
            continue
        name = f"DAG run {dag_run.number}"
        if dag_run.process is None:
            yield from _next_task(world, at, dag_run)
        else:
            if world.crashes:
                died = replace(world, crashes=world.crashes - 1)
                what = f"{name} loses its process before {type(dag_run.process.act).__name__}"
                yield what, _with(died, at, replace(dag_run, process=None))
            yield f"{name} {type(dag_run.process.act).__name__}", _done(world, at, dag_run, dag_run.process)
        if world.given_up and dag_run.process is None:
            yield f"{name} is given up", _with(replace(world, given_up=world.given_up - 1), at, None)


def _next_task(world: World, at: int, dag_run: DagRun) -> Iterator[tuple[str, World]]:
    name = f"DAG run {dag_run.number}"
    if dag_run.work is None:
        yield f"{name} claims", _with(world, at, replace(dag_run, process=Process(*begin())))
    elif not dag_run.worked:
        worked = replace(world, done=_among(world.done, dag_run.work))
        yield f"{name} works", _with(worked, at, replace(dag_run, worked=True))
    else:
        yield f"{name} commits", _with(world, at, replace(dag_run, process=Process(*begin_commit(dag_run.work[0]))))


def _done(world: World, at: int, dag_run: DagRun, process: Process) -> World:
    memory, act = process.memory, process.act
    match act:
        case acts.Finish() if dag_run.worked:
            assert dag_run.work is not None
            told = [(_version(one.from_), _version(one.to)) for one in act.ranges]
            wrong = "" if told == [dag_run.work[1]] else f"{dag_run.work} was committed, and {told} is told"
            return replace(_with(world, at, None), wrong=wrong)
        case acts.Finish(claim=None):
            return _with(world, at, None)
        case acts.Finish(claim=claim):
            assert claim is not None
            (one,) = claim.ranges
            work = claim.token, (_version(one.from_), _version(one.to))
            after = replace(world, handed=_among(world.handed, work))
            return _with(after, at, replace(dag_run, work=work, process=None))
        case acts.Fail():
            return _with(world, at, replace(dag_run, process=None))
        case acts.ReadRecord():
            copy = world.copy if world.record is None else world.record
            return _stepped(replace(world, copy=copy), at, dag_run, memory, acts.RecordRead(world.record))
        case acts.WriteRecord(record):
            before = world.record.revision if world.record else 0
            if record.revision != before + 1:
                return _stepped(world, at, dag_run, memory, acts.RecordLost())
            first = world.record is None and world.copy is not None
            after = replace(world, record=_bare(record), wrong="a lost record was a first start" if first else "")
            return _with(after, at, replace(dag_run, process=Process(memory, Copying(_bare(record)))))
        case Copying(record):
            return _stepped(replace(world, copy=record), at, dag_run, memory, acts.RecordWritten())
        case acts.Survey():
            return _stepped(world, at, dag_run, memory, acts.Surveyed(None, "the copy" if world.copy else ""))
        case acts.AskDagRun(claim):
            active = claim.task is not None and any(
                one is not None and one.task.run_id == claim.task.run_id for one in world.dag_runs
            )
            return _stepped(world, at, dag_run, memory, acts.DagRunSeen(active))
        case acts.Look(record):
            mark = record.watermarks.get("t") if record else None
            seen = TablePosition(world.version, "id", "m") if world.version >= 0 else None
            newest = world.version if world.version > (_version(mark) if mark else -1) else None
            finding = TableFinding(seen, newest, NOW if seen else None)
            return _stepped(world, at, dag_run, memory, acts.Looked({"t": finding}))
    raise TypeError(f"the model does not know {act!r}")


def _stepped(world: World, at: int, dag_run: DagRun, memory: Memory, observation: acts.Observation) -> World:
    plan = Plan(SPEC, Target("dag d", "", 0), {}, around=True, task=dag_run.task, nonce="n")
    memory, act = step(plan, memory, observation, NOW)
    if isinstance(act, acts.Fail):
        return _with(world, at, replace(dag_run, process=None))
    bare = None if memory.record is None else _bare(memory.record)
    return _with(world, at, replace(dag_run, process=Process(replace(memory, record=bare), act)))


def _among(works: tuple[Work, ...], work: Work) -> tuple[Work, ...]:
    return tuple(sorted({*works, work}))


def _version(position: object) -> int:
    return position.version if isinstance(position, TablePosition) else -1


def _bare(record: Record) -> Record:
    return replace(record, history=record.history[-1:])


def _with(world: World, at: int, dag_run: DagRun | None) -> World:
    return replace(world, dag_runs=(*world.dag_runs[:at], dag_run, *world.dag_runs[at + 1 :]))


def _path(came_from: dict[bytes, tuple[bytes, str] | None], key: bytes) -> tuple[str, ...]:
    steps: list[str] = []
    while (step_before := came_from[key]) is not None:
        key, what = step_before
        steps.append(what)
    return tuple(reversed(steps))
