"""Explores every interleaving of consumers that drive the real step function, over a model of everything around it.

The model: tables whose versions grow, some of them by commits without data, one ledger (with compare-and-set; an upsert whose revision is checked just before,
as in the Airflow keep; or a blind upsert), a workspace where run-now
under a known token answers the old run, runs that succeed, fail, are skipped or succeed without having done their work
(only the postcondition knows), and processes that die between any two acts. The workspace may not show a run for some
minutes, a person may delete one that is over, and after a day its token is forgotten. Shares no code with the protocol but
the step function that it explores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import Unavailable
from databricks_bridge.core.left_out import LeftOut
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.protocol import begin, step
from databricks_bridge.core.record import Record, Target
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.steps import Memory
from databricks_bridge.core.subscription import SubscriptionSpec


class Keep(StrEnum):
    """How the ledger takes a write: in one step, in two with a gap between check and write, or whatever comes."""

    COMPARE_AND_SET = "compare-and-set"
    CHECKED = "checked"
    UPSERT = "upsert"


NOW = datetime(2026, 1, 1, tzinfo=UTC)
STRETCH, DAY = timedelta(minutes=6), timedelta(hours=25)
EARLIEST = DeltaTable("c.s.t")
LATEST = DeltaTable("c.s.u", start="latest")
ENDINGS = {
    "active": Ending.ACTIVE,
    "ok": Ending.SUCCEEDED,
    "hollow": Ending.SUCCEEDED,
    "failed": Ending.FAILED,
    "skipped": Ending.NOTHING_RAN,
}


def plan_on(*sources: DeltaTable, postcondition: bool = False) -> Plan:
    spec = SubscriptionSpec("s", sources or (EARLIEST,), "earliest", Policy())
    return Plan(
        spec, Target("http://w", "1", 7), {}, max_generations=3, pause=timedelta(0), postcondition=postcondition
    )


@dataclass(frozen=True)
class Model:
    """What does not change along a path: the plan, where each table ends, the ledger's kind, the versions without data."""

    plan: Plan
    last: tuple[int, ...]
    keep: Keep
    without_data: frozenset[int] = frozenset()

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(source.alias for source in self.plan.spec.sources)


class Digested:
    """Is part of many states: its digest is made once."""

    @cached_property
    def digest(self) -> bytes:
        return hashlib.blake2b(repr(self).encode(), digest_size=16).digest()


@dataclass(frozen=True)
class Run(Digested):
    """`hidden_in` is the one stretch of minutes in which some answers did not show it; `known`: the token leads to it."""

    token: str
    parameters: tuple[tuple[str, str], ...]
    state: str
    hidden_in: int | None = None
    deleted: bool = False
    known: bool = True

    def bounds(self, alias: str) -> tuple[int, int]:
        given = dict(self.parameters)
        return int(given[f"{alias}_start"]) - 1, int(given[f"{alias}_end"])


@dataclass(frozen=True)
class Put:
    """The second half of a write that was checked."""

    record: Record


@dataclass(frozen=True)
class Process(Digested):
    memory: Memory
    act: acts.Act | Put


@dataclass(frozen=True)
class Stored(Digested):
    record: Record | None


@dataclass(frozen=True)
class World:
    """A state of everything. `versions` are the tables' newest, -1 while one is empty; the counts are faults left: `hides`
    of answers that do not show a run, `deletes` of runs, `days` that pass. `minutes` counts stretches of more than GONE_AFTER.
    """

    versions: tuple[int, ...]
    stored: Stored
    runs: tuple[Run, ...]
    processes: tuple[Process | None, ...]
    crashes: int
    failures: int
    skips: int
    hollows: int
    hides: int = 0
    deletes: int = 0
    days: int = 0
    outages: int = 0
    minutes: int = 0
    passed: int = 0

    @property
    def now(self) -> datetime:
        return NOW + self.minutes * STRETCH + self.passed * DAY

    def key(self) -> bytes:
        faults = (
            self.crashes,
            self.failures,
            self.skips,
            self.hollows,
            self.hides,
            self.deletes,
            self.days,
            self.outages,
        )
        plain = (self.versions, len(self.runs), faults, self.minutes, self.passed)
        parts = [run.digest for run in self.runs]
        parts += [process.digest if process else b"-" * 16 for process in self.processes]
        return hashlib.blake2b(b"".join([repr(plain).encode(), self.stored.digest, *parts]), digest_size=16).digest()


def moves(model: Model, world: World) -> Iterator[tuple[str, World]]:
    """Every next state, with what happened."""
    for at, (version, last) in enumerate(zip(world.versions, model.last, strict=True)):
        if version < last:
            versions = (*world.versions[:at], version + 1, *world.versions[at + 1 :])
            yield f"commit {version + 1} of {model.aliases[at]}", replace(world, versions=versions)
    for at, run in enumerate(world.runs):
        if run.state == "active":
            yield f"run {at} succeeds", _ended(world, at, "ok")
            if world.failures:
                yield f"run {at} fails", replace(_ended(world, at, "failed"), failures=world.failures - 1)
            if world.skips:
                yield f"run {at} is skipped", replace(_ended(world, at, "skipped"), skips=world.skips - 1)
            if world.hollows:
                yield f"run {at} is hollow", replace(_ended(world, at, "hollow"), hollows=world.hollows - 1)
        elif world.deletes and not run.deleted and (model.plan.postcondition or run.state == "failed"):
            # Without a postcondition nothing can know that a success was deleted before it was noted.
            yield f"run {at} is deleted", replace(_with_run(world, at, deleted=True), deletes=world.deletes - 1)
    yield from _time_passes(world)
    for at, process in enumerate(world.processes):
        if process is None:
            yield f"P{at} starts", _with(world, at, Process(*begin()))
            continue
        if world.crashes:
            yield (
                f"P{at} dies before {type(process.act).__name__}",
                replace(_with(world, at, None), crashes=world.crashes - 1),
            )
        if isinstance(process.act, acts.WriteRecord) and model.keep is Keep.CHECKED and _follows(world, process.act):
            yield f"P{at} checks its write", _with(world, at, replace(process, act=Put(process.act.record)))
            continue
        for how, done in (("", _do(model, world, process.act)), (", not shown", _hidden(world, process.act))):
            if done is None:
                continue
            yield f"P{at} {type(process.act).__name__}{how}", _stepped(model, at, process, *done)
            yield from _outages(model, at, process, *done)


def _stepped(model: Model, at: int, process: Process, after: World, observation: acts.Observation) -> World:
    memory, act = step(model.plan, process.memory, observation, after.now, after.now)
    over = isinstance(act, acts.Finish | acts.Fail)
    memory = replace(memory, record=_bare(memory.record, model.keep), service_now=None)
    return _with(after, at, None if over else Process(memory, act))


def _outages(
    model: Model, at: int, process: Process, after: World, observation: acts.Observation
) -> Iterator[tuple[str, World]]:
    """The same poll where one of several sources gives no answer to this process."""
    if not after.outages or not isinstance(observation, acts.Looked) or len(model.aliases) < 2:
        return
    less = replace(after, outages=after.outages - 1)
    for alias in model.aliases:
        looked = acts.Looked({**observation.findings, alias: LeftOut(Unavailable("down"), NOW)})
        yield f"P{at} polls all but {alias}", _stepped(model, at, process, less, looked)


def _time_passes(world: World) -> Iterator[tuple[str, World]]:
    """Minutes, for a process that waits for them; a day, but not between a decision to start a run and run-now."""
    waiting = [process.act for process in world.processes if process is not None]
    if any(isinstance(act, acts.Pause) and act.until > world.now for act in waiting):
        yield "minutes pass", replace(world, minutes=world.minutes + 1)
    if world.days and not any(isinstance(act, acts.StartRun) for act in waiting):
        runs = tuple(replace(run, known=False) for run in world.runs)
        yield "a day passes", replace(world, runs=runs, days=world.days - 1, passed=world.passed + 1)


def _hidden(world: World, act: acts.Act | Put) -> tuple[World, acts.Observation] | None:
    """The same act, answered by a workspace that does not show the run yet. One run is hidden in one stretch only."""
    match act:
        case acts.GetRun(run_id) | acts.AwaitRun(run_id):
            at, observation = run_id, acts.RunGone(run_id)
        case acts.FindRun(claim):
            found, observation = _find(world, claim.token), acts.RunFound(None)
            if found is None:
                return None
            at = found
        case _:
            return None
    run = world.runs[at]
    if not world.hides or run.deleted or run.hidden_in not in (None, world.minutes):
        return None
    return replace(_with_run(world, at, hidden_in=world.minutes), hides=world.hides - 1), observation


def _find(world: World, token: str) -> int | None:
    return next((at for at, run in enumerate(world.runs) if run.token == token and not run.deleted), None)


def _follows(world: World, act: acts.WriteRecord) -> bool:
    before = world.stored.record
    return act.record.revision == (before.revision if before else 0) + 1


def _do(model: Model, world: World, act: acts.Act | Put) -> tuple[World, acts.Observation] | None:
    match act:
        case acts.ReadRecord():
            return world, acts.RecordRead(world.stored.record)
        case acts.WriteRecord() if model.keep is not Keep.UPSERT and not _follows(world, act):
            return world, acts.RecordLost()
        case acts.WriteRecord(record) | Put(record):
            return replace(world, stored=Stored(_bare(record, model.keep))), acts.RecordWritten()
        case acts.Look(record):
            findings = {
                alias: _finding(model, version, record.watermarks.get(alias) if record else None)
                for alias, version in zip(model.aliases, world.versions, strict=True)
            }
            return world, acts.Looked(findings)
        case acts.Survey():
            return world, acts.Surveyed(len(world.runs) - 1 if world.runs else None)
        case acts.FindRun(claim):
            return world, acts.RunFound(_find(world, claim.token))
        case acts.StartRun(claim):
            for at, run in enumerate(world.runs):
                if run.token == claim.token and run.known:
                    return world, acts.TokenSpent("deleted", at) if run.deleted else acts.RunStarted(at)
            run = Run(claim.token, claim.parameters, "active")
            return replace(world, runs=(*world.runs, run)), acts.RunStarted(len(world.runs))
        case acts.GetRun(run_id) | acts.AwaitRun(run_id) if world.runs[run_id].deleted:
            return world, acts.RunGone(run_id)
        case acts.GetRun(run_id):
            return world, _seen(world, run_id)
        case acts.AwaitRun(run_id):
            return None if world.runs[run_id].state == "active" else (world, _seen(world, run_id))
        case acts.Prove(run_id=run_id):
            return world, acts.Proved(world.runs[run_id].state == "ok")
        case acts.Pause(until=until):
            return (world, acts.Woke()) if until <= world.now else None
    raise TypeError(f"the model does not know {act!r}")


def _finding(model: Model, version: int, mark: Position | None) -> TableFinding:
    if version < 0:
        return TableFinding(None, None, None)
    known = mark.at if isinstance(mark, TablePosition) else -1
    return TableFinding(TablePosition(version, "id", "m"), _newest_data(model, known, version), NOW)


def _newest_data(model: Model, above: int, version: int) -> int | None:
    return max((one for one in range(above + 1, version + 1) if one not in model.without_data), default=None)


def _seen(world: World, run_id: int) -> acts.RunSeen:
    run = world.runs[run_id]
    outcome = Outcome(ENDINGS[run.state], "", "", "")
    return acts.RunSeen(run_id, outcome, dict(run.parameters))


def _bare(record: Record | None, keep: Keep) -> Record | None:
    """Without what cannot matter to the protocol but would make every path a state of its own."""
    if record is None:
        return None
    return replace(record, history=(), revision=0 if keep is Keep.UPSERT else record.revision)


def _with(world: World, at: int, process: Process | None) -> World:
    return replace(world, processes=(*world.processes[:at], process, *world.processes[at + 1 :]))


def _ended(world: World, at: int, state: str) -> World:
    return _with_run(world, at, state=state)


def _with_run(world: World, at: int, **changes: Any) -> World:
    return replace(world, runs=(*world.runs[:at], replace(world.runs[at], **changes), *world.runs[at + 1 :]))


def violation(model: Model, world: World) -> str | None:
    """What must never be: two runs at work, successes that overlap or leave a gap, a watermark ahead of success.

    A source that starts at "latest" has no gap before its first range.
    """
    if sum(run.state == "active" for run in world.runs) > 1:
        return "two runs at work at once"
    record = world.stored.record
    for source in model.plan.spec.sources:
        succeeded = sorted(run.bounds(source.alias) for run in world.runs if run.state == "ok")
        succeeded = [(from_, to) for from_, to in succeeded if from_ < to]
        mark = record.watermarks.get(source.alias) if record else None
        at = mark.version if isinstance(mark, TablePosition) else -1
        covered = -1 if source is EARLIEST else succeeded[0][0] if succeeded else at
        for from_, to in succeeded:
            if from_ < covered:
                return f"successful runs overlap in {source.alias}: {succeeded}"
            if _newest_data(model, covered, from_) is not None:
                return f"a range of {source.alias} was lost: {succeeded}"
            covered = to
        # What was only found claims nothing yet: the first run's own `from` counts, whoever finds it again.
        processed = isinstance(mark, TablePosition) and not mark.found
        if processed and _newest_data(model, covered, at) is not None:
            return f"the watermark {at} of {source.alias} is ahead of what succeeded ({covered})"
    return None
