"""What can happen next in the world of `exploration_world`: the moves of every consumer, run, person and clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from databricks_bridge.core import acts
from databricks_bridge.core.errors import Unavailable
from databricks_bridge.core.left_out import LeftOut
from databricks_bridge.core.outcomes import Outcome
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.protocol import begin, step
from databricks_bridge.core.record import Record
from tests.core.exploration_world import (
    ENDINGS,
    NOW,
    Keep,
    Model,
    Process,
    Put,
    Run,
    Stored,
    World,
    ended,
    newest_data,
    with_process,
    with_run,
)


def moves(model: Model, world: World) -> Iterator[tuple[str, World]]:
    """Every next state, with what happened."""
    for at, (version, last) in enumerate(zip(world.versions, model.last, strict=True)):
        if version < last:
            versions = (*world.versions[:at], version + 1, *world.versions[at + 1 :])
            yield f"commit {version + 1} of {model.aliases[at]}", replace(world, versions=versions)
    for at, run in enumerate(world.runs):
        if run.state == "active":
            yield f"run {at} succeeds", ended(world, at, "ok")
            if world.failures:
                yield f"run {at} fails", replace(ended(world, at, "failed"), failures=world.failures - 1)
            if world.skips:
                yield f"run {at} is skipped", replace(ended(world, at, "skipped"), skips=world.skips - 1)
            if world.hollows:
                yield f"run {at} is hollow", replace(ended(world, at, "hollow"), hollows=world.hollows - 1)
        elif world.deletes and not run.deleted and (model.plan.postcondition or run.state == "failed"):
            # Without a postcondition nothing can know that a success was deleted before it was noted.
            yield f"run {at} is deleted", replace(with_run(world, at, deleted=True), deletes=world.deletes - 1)
    yield from _time_passes(world)
    for at, process in enumerate(world.processes):
        if process is None:
            yield f"P{at} starts", with_process(world, at, Process(*begin()))
            continue
        if world.crashes:
            yield (
                f"P{at} dies before {type(process.act).__name__}",
                replace(with_process(world, at, None), crashes=world.crashes - 1),
            )
        if isinstance(process.act, acts.WriteRecord) and model.keep is Keep.CHECKED and _follows(world, process.act):
            yield f"P{at} checks its write", with_process(world, at, replace(process, act=Put(process.act.record)))
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
    return with_process(after, at, None if over else Process(memory, act))


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
    return replace(with_run(world, at, hidden_in=world.minutes), hides=world.hides - 1), observation


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
    return TableFinding(TablePosition(version, "id", "m"), newest_data(model, known, version), NOW)


def _seen(world: World, run_id: int) -> acts.RunSeen:
    run = world.runs[run_id]
    outcome = Outcome(ENDINGS[run.state], "", "", "")
    return acts.RunSeen(run_id, outcome, dict(run.parameters))


def _bare(record: Record | None, keep: Keep) -> Record | None:
    """Without what cannot matter to the protocol but would make every path a state of its own."""
    if record is None:
        return None
    return replace(record, history=(), revision=0 if keep is Keep.UPSERT else record.revision)
