"""One schedule: its options and faults are drawn from its seed and number alone, so both bring it back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from databricks_bridge.core.claims import Plan
from databricks_bridge.core.parameter_names import names_of
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.record import Target
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.core.task_try import TaskTry
from faults import model
from faults.checker import Evidence, Verdict, judge, newest_data
from faults.keeps import Keep, ObjectKeep, UpsertKeep
from faults.lab import WORKSPACE, Lab
from faults.model import IDLE, Cell
from faults.processes import Process, Surroundings, parameters_of

TARGETS = 8
"""So many cells of the table are aimed at in each schedule, besides what comes by chance."""
MOVES = (45, 80)
MOST_MOVES = 900
"""The second phase must be over by then."""
DAY = 86_400.0
HIDDEN_SECONDS = 200.0
EXCUSED = {"Finish", "death", "RunFailed", "ClaimBlocked", "killed"}
WHEN_STRUCK = {"Unavailable", "Throttled", "LedgerError"}


@dataclass(frozen=True)
class Options:
    """What a schedule is made of. With `days`, days pass and tokens are forgotten; without, clocks are wrong by hours.

    With `races`, whoever stands between check and write waits there for another, who sees one commit more.
    """

    upsert: bool
    wait: bool
    postcondition: bool
    tables: int
    cap: int | None
    slots: int
    days: bool
    earliest: bool
    searches: bool
    races: bool
    moves: int
    targets: tuple[Cell, ...]


def options_of(rng: random.Random, number: int) -> Options:
    cells = model.demanded_cells()
    order = list(range(len(cells)))
    random.Random(number * TARGETS // len(cells)).shuffle(order)
    targets = tuple(cells[order[(number * TARGETS + n) % len(cells)]] for n in range(TARGETS))
    steps = {step for _, step in targets}
    searches = "find" in steps or rng.random() < 0.1
    return Options(
        upsert=rng.random() < 0.5 and model.TRY_LOST not in {one for one, _ in targets},
        wait="pause" in steps or rng.random() < 0.2,
        postcondition="prove" in steps or any(one == "run hollow" for one, _ in targets) or rng.random() < 0.3,
        tables=2 if rng.random() < 0.2 else 1,
        cap=rng.choice([None, None, 2]),
        slots=rng.choice([1, 5]),
        days=rng.random() < 0.4,
        earliest=searches or rng.random() < 0.85,
        searches=searches,
        races=rng.random() < 0.3,
        moves=rng.randint(*MOVES),
        targets=targets,
    )


@dataclass
class Schedule:
    """The state of one schedule while it is played."""

    lab: Lab
    name: str
    rng: random.Random
    options: Options
    keep: Keep
    job_id: int = 0
    plan: Plan | None = None
    tables: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    met: Counter[Cell] = field(default_factory=Counter)
    processes: list[Process | None] = field(default_factory=lambda: [None, None])
    skews: list[float] = field(default_factory=lambda: [0.0, 0.0])
    foreign: dict[int, str | None] = field(default_factory=dict)
    hollow: set[int] = field(default_factory=set)
    repaired: set[int] = field(default_factory=set)
    signals: list[int] = field(default_factory=list)
    newest_signal: int = -1
    targets: list[Cell] = field(default_factory=list)
    stepping: Process | None = None
    calm: bool = False
    late: bool = False
    may_repair: int = 0
    hidden_at: float | None = None
    tasks: list[TaskTry] = field(default_factory=lambda: [TaskTry("dag", f"w{at}-0", "consume") for at in range(2)])
    untold: list[tuple[int | None, str] | None] = field(default_factory=lambda: [None, None])
    verdict: Verdict = field(default_factory=Verdict)
    diary: list[str] = field(default_factory=list)

    @property
    def alive(self) -> list[Process]:
        return [one for one in self.processes if one is not None and one.alive]

    def note(self, what: str) -> None:
        self.diary.append(f"{self.lab.clock.seconds % 10**7:.0f} {what}")

    def count(self, fault: str, step: str) -> None:
        self.met[fault, step] += 1
        self.note(f"   {fault} at {step}")

    def happens(self, fault: str) -> None:
        """Something that strikes nobody in particular: it is met at the step of each who lives."""
        for step in [one.step for one in self.alive] or [IDLE]:
            self.count(fault, step)

    async def set_up(self) -> None:
        sources = []
        for at in range(self.options.tables):
            alias = f"t{at}"
            table = self.tables[alias] = f"main.silver.{self.name}_{at}"
            empty = self.options.wait or self.rng.random() < 0.3
            self.lab.commit(table, 0, "CREATE" if empty else "WRITE")
            self.versions[alias] = 0
            sources.append(DeltaTable(table, WORKSPACE, alias=alias))
        self.job_id = await self.lab.create_job(self.name, sorted(names_of(sources, [])), self.options.slots)
        workspace_id = self.lab.deployment.workspaces[WORKSPACE].workspace_id
        target = Target(self.lab.proxy.host, workspace_id, self.job_id)
        start: Any = "earliest" if self.options.earliest else "latest"
        spec = SubscriptionSpec(self.name, tuple(sources), start, Policy(), max_commits_per_run=self.options.cap)
        self.plan = Plan(
            spec,
            target,
            {},
            pause=timedelta(seconds=self.rng.choice([0, 30])),
            postcondition=self.options.postcondition,
            wait=self.options.wait,
        )
        self.lab.proxy.harm = lambda: self.stepping.harm() if self.stepping else None
        self.lab.proxy.retry_after = lambda: self.rng.choice([1, 2, 2, 300])
        self.lab.proxy.changes.clear()
        self.targets = list(self.options.targets)

    async def wake(self) -> Process | None:
        """A process on a free worker, None where both are taken."""
        free = [at for at, one in enumerate(self.processes) if one is None or not one.alive]
        if not free or self.plan is None:
            return None
        at = free[0]
        lab = self.lab
        given = Surroundings(
            lab.clock,
            lab.proxy.host,
            lambda: lab.deployment.token(WORKSPACE),
            self.keep,
            replace(self.plan, task=self.tasks[at]),
            self.count,
            self.rng.random,
            lambda run_id: run_id not in self.hollow,
        )
        process = self.processes[at] = Process(given, at, lambda: self.skews[at])
        await process.start()
        self.note(f"P{at} wakes")
        return process

    async def step(self, process: Process) -> None:
        """Let a process go on to its next stop."""
        for other in self.alive:
            if other is not process:
                self.met[model.OTHER_ACTS, other.step] += 1
        self.note(f"P{process.worker} {process.step}{' (amid)' if process.amid else ''}")
        self.stepping = process
        await process.go()
        self.stepping = None
        await self.after(process)

    async def kill(self, process: Process) -> None:
        await process.kill()
        await self.after(process)

    async def after(self, process: Process) -> None:
        await self.lab.settled()
        if process.alive:
            return
        why = str(process.error or "").replace(self.lab.proxy.host, "HOST")  # whose port is another each time
        self.note(f"P{process.worker} ends: {process.ended} {why}")
        self.told(process)
        # All clients of a workspace pause together after a 429, and here they live in one process.
        paused = process.ended == "Throttled" and any(fault == "429" for fault, _ in self.met)
        excused = process.ended in EXCUSED or paused or (process.struck and process.ended in WHEN_STRUCK)
        if not excused:
            self.verdict.add("errors", f"P{process.worker} ended with {process.ended}: {process.error}")

    def told(self, process: Process) -> None:
        """The task of the process has ended, or this try of it was lost. What it committed it has to tell, in whichever try."""
        at, task = process.worker, self.tasks[process.worker]
        if self.untold[at] and process.committed and not self.options.upsert:
            self.verdict.add("lost", f"{task} committed {process.committed}, and had not told {self.untold[at]}")
        self.untold[at] = process.committed or self.untold[at]
        if process.finish is None:
            self.tasks[at] = replace(task, number=task.number + 1)
            return
        due, self.untold[at] = self.untold[at], None
        if due is not None and due != process.finish and not self.options.upsert:
            self.verdict.add("lost", f"{task} committed {due}, and told {process.finish}")
        self.tasks[at] = replace(task, run_id=f"w{at}-{int(task.run_id.split('-')[1]) + 1}", number=1)

    def may_hide(self) -> bool:
        """Whether a run may be not shown now: within one stretch that is shorter than the minutes that are waited."""
        return self.hidden_at is None or self.lab.clock.seconds - self.hidden_at < HIDDEN_SECONDS

    async def delete_unnoted(self) -> bool:
        """A person deletes the run of the open claim, which failed before anybody could note it."""
        claim = (self.keep.stored() or {}).get("claim")
        if self.alive or not claim or claim["run_id"] is not None:
            return False
        for run in await self.lab.runs(self.job_id, set()):
            if parameters_of(run).get("bridge_token") == claim["token"] and run["run_id"] not in self.foreign:
                if run["state"].get("result_state") != "FAILED":
                    return False
                await self.lab.ask("2.2/jobs/runs/delete", {"run_id": run["run_id"]})
                self.hollow.add(run["run_id"])  # what the postcondition says of it
                self.note(f"run {run['run_id']} is deleted")
                self.count(model.RUN_DELETED, IDLE)
                return True
        return False

    async def commit(self, kind: str) -> None:
        alias = self.rng.choice(sorted(self.tables))
        self.versions[alias] += 1
        self.lab.commit(self.tables[alias], self.versions[alias], kind)
        self.signals.append(self.versions[alias])
        self.note(f"commit {self.versions[alias]} of {alias}: {kind}")
        if not self.calm:
            self.happens("OPTIMIZE commit" if kind == "OPTIMIZE" else "data commit")

    def at_work(self, *, foreign: bool) -> list[int]:
        """The task runs at work, of others or of ours."""
        return [task for task, (run, _) in sorted(self.lab.working.items()) if (run in self.foreign) is foreign]

    async def end_foreign(self, task_run_id: int) -> None:
        how = self.rng.choice(["ok", "run fails"])
        run_id = await self.lab.end_run(task_run_id, how)
        self.foreign[run_id] = "SUCCESS" if how == "ok" else "FAILED"
        self.note(f"foreign run {run_id} ends: {how}")

    async def end_ours(self, task_run_id: int, how: str) -> None:
        run_id = await self.lab.end_run(task_run_id, how)
        self.note(f"run {run_id} ends: {how}")
        if how == "run hollow":
            self.hollow.add(run_id)
        elif how == "ok":
            self.hollow.discard(run_id)
        if how != "ok":
            self.may_repair += 1
            self.happens(how)

    async def start_foreign(self) -> None:
        trigger = self.rng.choice(["ONE_TIME", "PERIODIC", "FILE_ARRIVAL"])
        run_id = await self.lab.start_foreign(self.job_id, trigger)
        self.foreign[run_id] = None
        self.note(f"foreign run {run_id} by {trigger}")
        self.happens("foreign run")

    def may_be_repaired(self) -> bool:
        """Whether asking the workspace is worth a call: some run of ours ended badly."""
        return self.may_repair > 0

    async def repairable(self) -> int | None:
        """The failed run of the open claim, where no process has seen it fail."""
        claim = (self.keep.stored() or {}).get("claim")
        if not claim:
            return None
        for run in reversed(await self.lab.runs(self.job_id, set())):
            if parameters_of(run).get("bridge_token") != claim["token"] or run["run_id"] in self.foreign:
                continue
            result = run["state"].get("result_state")
            failed = result == "FAILED" or (result == "SUCCESS" and run["run_id"] in self.hollow)
            seen = any(run["run_id"] in one.saw_failed for one in self.alive)
            hollow_seen = run["run_id"] in self.hollow and self.alive
            return run["run_id"] if failed and not seen and not hollow_seen else None
        return None

    async def repair(self, run_id: int) -> None:
        await self.lab.repair(run_id)
        self.repaired.add(run_id)
        self.note(f"run {run_id} is repaired")
        self.happens(model.REPAIRED)

    def blocked(self) -> bool:
        """Whether the claim waits for a person."""
        claim = (self.keep.stored() or {}).get("claim")
        return claim is not None and claim["status"] == "blocked"

    def be_late(self) -> None:
        """Let a day pass, once and again, and hold it against the schedule."""
        self.lab.clock.seconds += DAY + 3600
        self.note("nothing is wrong any more, and it has not finished; a day passes")
        if not self.late:
            self.late = True
            self.verdict.add("errors", "it did not finish before a day had passed without faults")

    def finished(self) -> bool:
        """Whether the record, read as plain JSON, has come as far as the tables' data."""
        record = self.keep.stored()
        if record is None or record["claim"]:
            return False
        marks = record["watermarks"]
        return all(
            alias in marks and marks[alias]["version"] >= newest_data(self.lab.log_of(table))
            for alias, table in self.tables.items()
        )

    async def check(self, *, over: bool) -> None:
        runs = await self.lab.runs(self.job_id, self.repaired | set(self.foreign))
        logs = {alias: self.lab.log_of(table) for alias, table in self.tables.items()}
        seen = Evidence(
            self.name,
            runs,
            logs,
            self.keep.stored(),
            self.foreign,
            frozenset(self.hollow),
            self.options.earliest,
            over,
            self.lab.gold_of(self.name),
            {alias: self.lab.rows_of(table) for alias, table in self.tables.items()},
        )
        self.verdict.merge(judge(seen))
        for line in self.lab.proxy.changes:
            self.verdict.add("touched", f"a consumer asked for {line}")


def new_schedule(
    lab: Lab, seed: int, number: int, home: Path, change: Callable[[Options], Options] = lambda drawn: drawn
) -> Schedule:
    """A schedule, as its seed and number draw it; `change` makes it another where every lab has its own limits."""
    rng = random.Random(f"{seed}/{number}")
    options = change(options_of(rng, number))
    name = f"s{number}"
    keep: Keep = UpsertKeep() if options.upsert else ObjectKeep(home / "ledgers", name)
    return Schedule(lab, name, rng, options, keep)
