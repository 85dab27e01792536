"""Plays a schedule: first with everything that can go wrong, then without, to the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from faults import model
from faults.model import IDLE
from faults.processes import Process
from faults.schedule import DAY, MOST_MOVES, Schedule

RACE_GOES_ON = 0.9
MOST_FAULTY_MOVES = 110
"""The first phase goes on up to here while something that is aimed at has not happened."""
CAUGHT_UP = 70
"""When no run has ended for so many moves, they wait for something that only time brings: a day passes, and it is counted."""
RANDOM_FAULT = 0.10
"""How likely a fault is at each stop of a process, besides those that are aimed at."""


async def play(schedule: Schedule, most_moves: int = MOST_FAULTY_MOVES) -> Schedule:
    """A schedule, played and judged twice: after each phase."""
    lab = schedule.lab
    await schedule.set_up()
    try:
        for at in range(most_moves):
            if at >= schedule.options.moves and not schedule.targets:
                break
            lab.clock.seconds += 1
            await _move(schedule)
        await schedule.check(over=False)
        if schedule.verdict.clean:
            await _finish(schedule)
            await schedule.check(over=True)
    finally:
        for process in schedule.alive:
            await process.kill()
        while lab.working:
            await lab.end_run(min(lab.working), "ok")
        lab.clock.seconds += 10 * DAY
    return schedule


async def _move(schedule: Schedule) -> None:
    """One thing happens."""
    rng, alive = schedule.rng, schedule.alive
    ours, foreign = schedule.at_work(foreign=False), schedule.at_work(foreign=True)

    def aims(step: str) -> bool:
        return any(one[1] == step for one in schedule.targets)

    moves: list[tuple[float, Callable[[], Awaitable[object]]]] = [
        (0.15 if aims("pause") else 0.6, lambda: schedule.commit("WRITE")),
        (0.1, lambda: schedule.commit("OPTIMIZE")),
        (0.1, schedule.start_foreign),
        (_repair_weight(schedule), lambda: _repair(schedule)),
    ]
    if not alive:
        moves.append((2.0 if ours and aims(IDLE) else 8.0, lambda: _wake(schedule)))
    elif len(alive) == 1:
        # a run can be deleted unnoted only where nobody else has seen it
        alone = (model.RUN_DELETED, IDLE) in schedule.targets
        moves.append((0.02 if alone else 0.5, lambda: _wake(schedule)))
    moves += [(5.0 if len(alive) == 1 else 4.0, lambda one=one: _step(schedule, one)) for one in alive]  # type: ignore[misc]
    if ours:
        awaited = not aims("await") or any(one.step == "await" and one.amid for one in alive)
        here = [one.step for one in alive] or [IDLE]
        aimed = any(fault in model.ENDS and step in here for fault, step in schedule.targets)
        moves.append((15.0 if aimed else 2.5 if awaited else 0.1, lambda: _end(schedule, ours[0])))
    if foreign:
        moves.append((2.0, lambda: schedule.end_foreign(foreign[0])))
    if schedule.options.days and all(one.step in ("await", "pause") for one in alive):
        moves.append((0.4, lambda: _day(schedule)))
    (move,) = rng.choices([one for _, one in moves], [weight for weight, _ in moves])
    await move()


def _repair_weight(schedule: Schedule) -> float:
    if not schedule.may_be_repaired():
        return 0.0
    here = [one.step for one in schedule.alive] or [IDLE]
    return 15.0 if any((model.REPAIRED, step) in schedule.targets for step in here) else 0.4


async def _wake(schedule: Schedule) -> None:
    """A signal comes: any of those that were sent, or one of nothing at all."""
    signal = schedule.rng.choice(schedule.signals) if schedule.signals else -1
    late = signal < schedule.newest_signal
    schedule.newest_signal = max(schedule.newest_signal, signal)
    for other in schedule.alive:
        schedule.count("woken twice", other.step)
        if late:
            schedule.count("woken out of order", other.step)
    await schedule.wake()


async def _end(schedule: Schedule, task_run_id: int) -> None:
    """A run of ours ends, as it is aimed at or by chance."""
    here = [one.step for one in schedule.alive] or [IDLE]
    aimed = [one for one in schedule.targets if one[0] in model.ENDS and one[1] in here]
    how = schedule.rng.choices(["ok", *model.ENDS], [6.0, 2.0, 1.0, 0.7])[0]
    if aimed:
        how = aimed[0][0]
        schedule.targets.remove(aimed[0])
    elif any(fault == model.REPAIRED for fault, _ in schedule.targets) and not schedule.may_be_repaired():
        how = "run fails"
    if how == "run hollow" and not schedule.options.postcondition:
        how = "run fails"
    await schedule.end_ours(task_run_id, how)


async def _repair(schedule: Schedule) -> None:
    run_id = await schedule.repairable()
    if run_id is None:
        return
    for step in [one.step for one in schedule.alive] or [IDLE]:
        if (model.REPAIRED, step) in schedule.targets:
            schedule.targets.remove((model.REPAIRED, step))
    await schedule.repair(run_id)


async def _day(schedule: Schedule) -> None:
    schedule.lab.clock.seconds += DAY + 3600
    schedule.lab.forget_tokens()
    schedule.note("a day passes; old tokens are forgotten")


async def _step(schedule: Schedule, process: Process) -> None:
    """A process goes on, and what is aimed at its step, or comes by chance, strikes it."""
    rng = schedule.rng
    if schedule.options.races and process.amid and process.step == "write" and rng.random() < RACE_GOES_ON:
        await _race(schedule, process)
        return
    if process.amid:
        aimed = ("death amid", process.step) in schedule.targets
        if aimed or rng.random() < RANDOM_FAULT / 2:
            await _die(schedule, process, "death amid")
            return
        await schedule.step(process)
        return
    if schedule.options.searches and process.step == "start" and not schedule.met["death before", "start"]:
        await _die(schedule, process, "death before")
        await _until_token_is_old(schedule)
        return
    if process.step in ("get", "await") and _aims_at_nobody(schedule):
        await _die(schedule, process, "death before")
        return
    if await _unnoted(schedule, process):
        return
    here = [one for one in schedule.targets if one[1] == process.step and one[0] not in model.ENDS]
    here = [one for one in here if _is_there(schedule, process, one[0])]
    if process.commits and ((model.TRY_LOST, "write") in here or rng.random() < RANDOM_FAULT):
        fault = model.TRY_LOST
    elif here:
        fault = rng.choice(sorted(set(here)))[0]
    elif rng.random() < RANDOM_FAULT:
        possible = [one for one in model.FAULTS if process.step in model.rule_of(one).demanded]
        fault = rng.choice([one for one in possible if _is_there(schedule, process, one)])
    elif (model.NOT_SHOWN, "find") in schedule.targets and process.step == "get" and schedule.may_hide():
        fault = model.NOT_SHOWN
    else:
        await schedule.step(process)
        return
    await _strike(schedule, process, fault)
    if schedule.met[fault, process.step] and (fault, process.step) in schedule.targets:
        schedule.targets.remove((fault, process.step))


def _is_there(schedule: Schedule, process: Process, fault: str) -> bool:
    """Whether that fault can strike here at all: a run is hidden for some minutes only, and only a commit is lost after it."""
    if fault == model.NOT_SHOWN:
        return schedule.may_hide()
    return fault != model.TRY_LOST or process.commits


async def _unnoted(schedule: Schedule, process: Process) -> bool:
    """Die before the run is noted, where that run is to fail and to be deleted."""
    if (model.RUN_DELETED, IDLE) not in schedule.targets or not process.notes or len(schedule.alive) > 1:
        return False
    await _die(schedule, process, "death before")
    for foreign in schedule.at_work(foreign=True):
        await schedule.end_foreign(foreign)  # ours may wait behind it
    if ours := schedule.at_work(foreign=False):
        await schedule.end_ours(ours[0], "run fails")
    if await schedule.delete_unnoted():
        schedule.targets.remove((model.RUN_DELETED, IDLE))
    return True


def _aims_at_nobody(schedule: Schedule) -> bool:
    """Whether a run at work is to end badly while no process lives."""
    aimed = any(step == IDLE and fault in model.ENDS for fault, step in schedule.targets)
    return aimed and bool(schedule.at_work(foreign=False))


async def _race(schedule: Schedule, process: Process) -> None:
    """Whoever has checked its write stands still; the other comes as far, if it can, and sees one commit more."""
    others = [one for one in schedule.alive if one is not process]
    if not others:
        await schedule.commit("WRITE")
        await _wake(schedule)
    elif others[0].step == "write" and others[0].amid:
        await schedule.step(process)
        await schedule.step(others[0])
    else:
        await schedule.step(others[0])


async def _until_token_is_old(schedule: Schedule) -> None:
    if schedule.options.days:
        if not schedule.alive:
            await _day(schedule)
    else:
        for at in range(len(schedule.skews)):
            schedule.skews[at] += DAY + 3600
        schedule.note("all clocks jump a day ahead")


async def _die(schedule: Schedule, process: Process, how: str) -> None:
    schedule.count(how, process.step)
    if (how, process.step) in schedule.targets:
        schedule.targets.remove((how, process.step))
    await schedule.kill(process)


async def _strike(schedule: Schedule, process: Process, fault: str) -> None:
    rng, step = schedule.rng, process.step
    if fault in model.ON_THE_WAY:
        times = 1 if fault == "token refused" else rng.choice([1, 1, 2, 3, 40])
        process.harms, process.harm_after = [fault] * times, rng.choice([0, 0, 1]) if step == "look" else 0
        await schedule.step(process)
    elif fault in (model.KEEP_FAILS, model.KEEP_ANSWER_LOST):
        process.keep_fault = fault
        await schedule.step(process)
    elif fault == "death before":
        await _die(schedule, process, fault)
    elif fault == model.NOT_SHOWN:
        schedule.hidden_at = schedule.hidden_at or schedule.lab.clock.seconds
        process.harms = [fault]
        await schedule.step(process)
    elif fault in ("death after", model.TRY_LOST):
        process.die_after = True
        await schedule.step(process)
    elif fault == "death amid":
        if step in model.HTTP_STEPS and step != "await":
            process.harms = [rng.choice(["503", "reset", "answer lost"])] * 2
        await schedule.step(process)
    elif fault in model.CLOCKS:
        _jump(schedule, process, 1 if fault == "clock forward" else -1)
        schedule.count(fault, step)
        await schedule.step(process)
    elif fault in model.WAKES or fault == model.OTHER_ACTS:
        if fault == "woken out of order" and schedule.signals:
            schedule.newest_signal = max(schedule.newest_signal, max(schedule.signals)) + 1
        others = [one for one in schedule.alive if one is not process]
        if not others:
            await _wake(schedule)
        else:
            await schedule.step(others[0])
    elif fault == "data commit":
        await schedule.commit("WRITE")
    elif fault == "OPTIMIZE commit":
        await schedule.commit("OPTIMIZE")
    elif fault == "foreign run":
        await schedule.start_foreign()
    elif fault == model.SKIPPED:
        await _skip(schedule, process)
    elif fault == model.REPAIRED:
        await _repair(schedule)


def _jump(schedule: Schedule, process: Process, sign: int) -> None:
    far = 300.0 if schedule.options.days else 26 * 3600.0
    skews = schedule.skews
    if schedule.options.days:
        skews[process.worker] = sign * schedule.rng.uniform(1, far)
    else:
        skews[process.worker] = max(-far, min(far, skews[process.worker] + sign * schedule.rng.choice([60.0, far])))
    schedule.note(f"P{process.worker}'s clock is wrong by {skews[process.worker]:.0f} s")


async def _skip(schedule: Schedule, process: Process) -> None:
    """A person pauses the job by giving it no slots, for the time of one run-now."""
    before = len(await schedule.lab.runs(schedule.job_id, set()))
    await schedule.lab.set_slots(schedule.job_id, 0)
    await schedule.step(process)
    await schedule.lab.set_slots(schedule.job_id, schedule.options.slots)
    schedule.lab.deployment.workspaces["ops"].runs.promote(schedule.job_id)
    await schedule.lab.settled()
    runs = await schedule.lab.runs(schedule.job_id, set())
    if len(runs) > before and "CONCURRENT" in str(runs[-1]["state"].get("result_state")):
        schedule.count(model.SKIPPED, "start")


async def _finish(schedule: Schedule) -> None:
    """Nothing more goes wrong: whoever lives goes on, runs succeed, a person repairs what is blocked."""
    schedule.calm = True
    schedule.note("faults off")
    schedule.skews[:] = [0.0] * len(schedule.skews)
    for process in schedule.alive:
        process.harms, process.keep_fault, process.die_after = [], None, False
    quiet = 0
    for at in range(1, MOST_MOVES):
        schedule.lab.clock.seconds += 1
        quiet += 1
        foreign, ours, alive = schedule.at_work(foreign=True), schedule.at_work(foreign=False), schedule.alive
        if foreign:
            await schedule.end_foreign(foreign[0])
        elif ours and (at % 3 == 0 or not alive):
            await schedule.end_ours(ours[0], "ok")
            quiet = 0
        elif schedule.finished() and all(one.step in ("pause", "read", "look", "survey") for one in alive):
            return
        elif quiet > CAUGHT_UP:
            schedule.be_late()
            quiet = 0
        elif alive:
            await schedule.step(alive[at % len(alive)])
        elif schedule.blocked():
            await _repair(schedule)
            await schedule.wake()
        else:
            await schedule.wake()
