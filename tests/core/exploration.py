"""What can happen next in the world of `exploration_world`: the moves of every consumer, run, person and clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from databricks_bridge.core import acts
from databricks_bridge.core.errors import ClaimBlocked, ClaimUndecided, Unavailable
from databricks_bridge.core.left_out import LeftOut
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.pending import Finding, TableFinding
from databricks_bridge.core.policy import Ready
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.protocol import begin, step
from databricks_bridge.core.record import Record
from databricks_bridge.core.task_try import TaskTry
from databricks_bridge.core.waiting import decide_wait, ready_at_once, to_look_at
from tests.core.exploration_world import (
    ENDINGS,
    NOW,
    Keep,
    Model,
    Process,
    Put,
    Run,
    Stored,
    Untold,
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
        elif world.repairs and run.state == "failed" and not run.deleted and _waits_for_a_person(world, at):
            yield f"run {at} is repaired", replace(with_run(world, at, state="active"), repairs=world.repairs - 1)
        elif world.deletes and not run.deleted and (model.plan.postcondition or run.state == "failed"):
            # Without a postcondition nothing can know that a success was deleted before it was noted.
            yield f"run {at} is deleted", replace(with_run(world, at, deleted=True), deletes=world.deletes - 1)
    yield from _time_passes(world)
    for at, process in enumerate(world.processes):
        if process is None:
            if model.sensor and not _let_go(model, world):
                continue
            yield f"P{at} starts", with_process(world, at, Process(*begin()))
            continue
        if world.crashes:
            yield (
                f"P{at} dies before {type(process.act).__name__}",
                replace(with_process(world, at, None), crashes=world.crashes - 1),
            )
        if isinstance(process.act, acts.Finish):
            yield f"P{at} tells Airflow", _told(world, at, process.act)
            continue
        if isinstance(process.act, acts.WriteRecord) and model.keep is Keep.CHECKED and _follows(world, process.act):
            yield f"P{at} checks its write", with_process(world, at, replace(process, act=Put(process.act.record)))
            continue
        for how, done in (("", _do(model, world, process.act)), (", not shown", _hidden(world, process.act))):
            if done is None:
                continue
            yield f"P{at} {type(process.act).__name__}{how}", _stepped(model, at, process, *done)
            yield from _outages(model, at, process, *done)


def _stepped(model: Model, at: int, process: Process, after: World, observation: acts.Observation) -> World:
    plan = model.plan
    if model.tries:
        plan = replace(plan, task=TaskTry("d", f"r{after.told[at]}", f"t{at}"))
        after = _committed(after, at, process.act, observation)
    memory, act = step(plan, process.memory, observation, after.now, after.now)
    over = isinstance(act, acts.Fail) or (isinstance(act, acts.Finish) and not model.tries)
    memory = replace(memory, record=_bare(memory.record, model.keep), service_now=None)
    return with_process(after, at, None if over else Process(memory, act))


def _committed(world: World, at: int, act: acts.Act | Put, observation: acts.Observation) -> World:
    """The world in which this task has committed, where this act did. What it committed stands in the record that it wrote."""
    if not isinstance(act, acts.WriteRecord | Put) or not isinstance(observation, acts.RecordWritten):
        return world
    record = act.record
    last = record.history[-1].what if record.history else ""
    if record.claim is not None or not last.startswith("committed"):
        return world
    ok = [one for one, run in enumerate(world.runs) if run.state == "ok"]
    ranges = tuple(str(world.runs[ok[-1]].bounds(alias)) for alias in record.watermarks)
    # Run 0 is none to the protocol, for no workspace has it.
    untold: Untold = (ok[-1] or None, ranges)
    return replace(world, untold=(*world.untold[:at], untold, *world.untold[at + 1 :]))


def _told(world: World, at: int, finish: acts.Finish) -> World:
    """The task ends, and Airflow hears of it: with the commit that this DAG run made, in whichever try."""
    world, due = with_process(world, at, None), world.untold[at]
    ranges = tuple(str((one.from_.at, one.to.at)) for one in finish.ranges)  # type: ignore[union-attr]
    if due is None:
        return replace(world, wrong=f"P{at} tells of {ranges}, which it never committed") if ranges else world
    if (finish.run_id or None, ranges) != due:
        return replace(world, wrong=f"P{at} committed {due}, and tells Airflow of {finish.run_id, ranges}")
    told = (*world.told[:at], world.told[at] + 1, *world.told[at + 1 :])
    return replace(world, told=told, untold=(*world.untold[:at], None, *world.untold[at + 1 :]))


def _let_go(model: Model, world: World) -> bool:
    """Whether the sensor lets the consumer go: it looks at the run of a claim that waits for a person first, as it is now."""
    record = world.stored.record
    claim = to_look_at(record)
    ending = Ending.FAILED if claim is None or claim.run_id is None else ENDINGS[world.runs[claim.run_id].state]
    try:
        if ready_at_once(model.plan.spec, record, ending):
            return True
    except (ClaimBlocked, ClaimUndecided):
        return False
    findings = _findings(model, world, record)
    marks = record.watermarks if record else {}
    return isinstance(decide_wait(model.plan.spec, marks, None, findings, world.now), Ready)


def _waits_for_a_person(world: World, run_id: int) -> bool:
    """Whether this is the run of the claim, which no process works on."""
    record = world.stored.record
    claim = record.claim if record else None
    return claim is not None and claim.run_id == run_id and not any(world.processes)


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
    observation: acts.Observation
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
            return world, acts.Looked(_findings(model, world, record))
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


def _findings(model: Model, world: World, record: Record | None) -> dict[str, Finding]:
    return {
        alias: _finding(model, version, record.watermarks.get(alias) if record else None)
        for alias, version in zip(model.aliases, world.versions, strict=True)
    }


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
