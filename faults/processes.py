"""One process of a consumer: the real driver, which stops before every act and is told when to go on, or to die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import BridgeError
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.positions import Range
from databricks_bridge.core.record import Claim
from databricks_bridge.feeds.driver import Driver
from databricks_bridge.feeds.look import Looker
from databricks_bridge.workspace.client import Workspace
from faults.keeps import Keep, failed
from faults.model import KEEP_ANSWER_LOST, KEEP_FAILS, TRY_LOST

STUCK_SECONDS = 60.0
STEP_OF = {
    acts.ReadRecord: "read",
    acts.Survey: "survey",
    acts.Look: "look",
    acts.WriteRecord: "write",
    acts.StartRun: "start",
    acts.FindRun: "find",
    acts.GetRun: "get",
    acts.AwaitRun: "await",
    acts.Pause: "pause",
    acts.Prove: "prove",
}


class Death(Exception):
    """The process is gone."""


@dataclass
class Clock:
    """The world's time in seconds; a worker's clock is it and a `skew` of its own."""

    seconds: float

    def now(self) -> float:
        return self.seconds


@dataclass
class Surroundings:
    """What every process of a schedule is given."""

    clock: Clock
    host: str
    token: Callable[[], str]
    keep: Keep
    plan: Plan
    met: Callable[[str, str], None]
    random: Callable[[], float]
    worked: Callable[[int], bool]


@dataclass
class Process:
    """A consumer's process. `step` is the act that it stands before, or `amid` of which it stands.

    `harms` are the faults that will strike its next requests, after `harm_after` unharmed ones; `keep_fault` its next
    call of the keep. `commits` and `notes`: it stands before the write of a commit, or of the id of its run. `committed` is what
    it wrote, `finish` what it told. `struck` is whether any fault struck it, which excuses an error.
    """

    given: Surroundings
    worker: int
    skew: Callable[[], float]
    step: str = "read"
    amid: bool = False
    harms: list[str] = field(default_factory=list)
    harm_after: int = 0
    keep_fault: str | None = None
    die_after: bool = False
    struck: bool = False
    dying: bool = False
    commits: bool = False
    notes: bool = False
    committed: tuple[int | None, str] | None = None
    finish: tuple[int | None, str] | None = None
    saw_failed: set[int] = field(default_factory=set)
    ended: str = ""
    error: BaseException | None = None
    _go: asyncio.Event = field(default_factory=asyncio.Event)
    _parked: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return not self.ended

    async def start(self) -> None:
        """Begin, up to the first act."""
        self._task = asyncio.create_task(self._live())
        self._task.add_done_callback(lambda _: self._parked.set())
        await self._stopped()

    async def go(self) -> None:
        """On, to the next act or pause, or to the end."""
        self._parked.clear()
        self._go.set()
        await self._stopped()

    async def kill(self) -> None:
        """Die here and now."""
        self.dying = True
        await self.go()

    async def _stopped(self) -> None:
        await asyncio.wait_for(self._parked.wait(), STUCK_SECONDS)

    async def gate(self, step: str, *, amid: bool = False) -> None:
        """Stand still until told to go on."""
        self.step, self.amid = step, amid
        self._parked.set()
        await self._go.wait()
        self._go.clear()
        if self.dying:
            raise Death

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.given.clock.seconds + self.skew(), UTC)

    async def sleep(self, seconds: float) -> None:
        """A pause, in the world's time; what the others do meanwhile is for the schedule to say."""
        due = self.given.clock.seconds + seconds
        await self.gate(self.step, amid=True)
        self.given.clock.seconds = max(self.given.clock.seconds, due)

    async def seam(self, place: str) -> None:
        """Of the keep: a call fails, a write's answer is lost, or another process comes between check and write."""
        if place == "between":
            await self.gate("write", amid=True)
        elif (place, self.keep_fault) in (("before", KEEP_FAILS), ("after", KEEP_ANSWER_LOST)):
            fault, self.keep_fault, self.struck = self.keep_fault, None, True
            self.given.met(str(fault), self.step)
            raise failed("gave no answer")

    def harm(self) -> str | None:
        """The fault that strikes the request of this process that is on its way."""
        if not self.harms:
            return None
        if self.harm_after:
            self.harm_after -= 1
            return None
        self.struck = True
        fault = self.harms.pop(0)
        self.given.met(fault, self.step)
        return fault

    async def _live(self) -> None:
        try:
            self.ended = await self._drive()
        except Death:
            self.ended = "death"
        except BridgeError as error:
            self.ended, self.error = type(error).__name__, error
        except (TypeError, ValueError, AssertionError, LookupError, AttributeError, OSError) as error:
            self.ended, self.error = f"bug {type(error).__name__}", error
        finally:
            self.ended = self.ended or "bug unknown"

    async def _drive(self) -> str:
        given = self.given

        async def authorize() -> dict[str, str]:
            return {"Authorization": f"Bearer {given.token()}"}

        async def reauthorize() -> None:
            """The token is as good as before: only one answer said no."""

        async def open_workspace(name: str) -> Workspace:
            return Workspace(
                given.host,
                authorize,
                reauthorize=reauthorize,
                sleep=self.sleep,
                random=given.random,
                clock=given.clock.now,
                now=self.now,
            )

        async with Looker(open_workspace) as looker:
            driver = Stepwise(
                given.plan,
                given.keep.ledger(self.seam),
                looker,
                await looker.workspace("ops"),
                prove=self._prove,
                now=self.now,
                sleep=self.sleep,
                poll_interval=timedelta(seconds=30),
            )
            driver.process = self
            done = await driver.drive()
            if isinstance(done, acts.Finish):
                self.finish = done.run_id, words_of(done.ranges)
            return type(done).__name__

    async def _prove(self, claim: Claim, run_id: int) -> acts.Proved:
        return acts.Proved(self.given.worked(run_id), "the notebook wrote nothing")


class Stepwise(Driver):
    """The driver, which asks its process before and after every act."""

    process: Process

    async def _do(self, act: acts.Act) -> acts.Observation:
        process, step = self.process, STEP_OF[type(act)]
        process.commits, process.notes = _what_it_writes(act)
        await process.gate(step)
        observation = await super()._do(act)
        process.harms, process.harm_after, process.keep_fault = [], 0, None
        if process.commits and isinstance(observation, acts.RecordWritten) and isinstance(act, acts.WriteRecord):
            last = act.record.commits[-1]
            process.committed = last.run_id, words_of(last.ranges)
        if process.die_after:
            process.given.met(TRY_LOST if process.committed else "death after", step)
            raise Death
        if isinstance(observation, acts.RunSeen) and observation.outcome.ending is Ending.FAILED:
            process.saw_failed.add(observation.run_id)
        return observation


def _what_it_writes(act: acts.Act) -> tuple[bool, bool]:
    """Whether it is the commit of a claim's run, and whether it is the id of that run."""
    if not isinstance(act, acts.WriteRecord):
        return False, False
    what = act.record.history[-1].what
    return what.startswith("committed") and "without a run" not in what and bool(act.record.commits), what.startswith(
        "run "
    ) and what.endswith("started")


def words_of(ranges: Iterable[Range]) -> str:
    return ", ".join(str(one) for one in ranges if not one.empty)


def parameters_of(run: dict[str, Any]) -> dict[str, str]:
    """The job parameters of a run, by plain reading."""
    return {one["name"]: one["value"] for one in run.get("job_parameters", ())}
