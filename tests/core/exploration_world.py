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
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import TablePosition
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
    """What does not change along a path: the plan, where each table ends, the ledger's kind, the versions without data.

    With `tries` each consumer is the task of a DAG run, which is tried again until Airflow was told of a commit. With
    `sensor` it starts only when a sensor lets it go.
    """

    plan: Plan
    last: tuple[int, ...]
    keep: Keep
    without_data: frozenset[int] = frozenset()
    tries: bool = False
    sensor: bool = False

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


Untold: TypeAlias = tuple[int | None, tuple[str, ...]]
"""The run and the ranges of a commit that Airflow was not told of."""


@dataclass(frozen=True)
class World:
    """A state of everything. `versions` are the tables' newest, -1 while one is empty; the counts are faults left: `hides`
    of answers that do not show a run, `deletes` of runs, `days` that pass, `repairs` by a person. `untold` is what each DAG run's task has
    committed without a word of it, `told` how many DAG runs were told. `minutes` counts stretches of more than GONE_AFTER.
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
    repairs: int = 0
    untold: tuple[Untold | None, ...] = ()
    told: tuple[int, ...] = ()
    wrong: str = ""

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
            self.repairs,
            self.untold,
            self.told,
            self.wrong,
        )
        plain = (self.versions, len(self.runs), faults, self.minutes, self.passed)
        parts = [run.digest for run in self.runs]
        parts += [process.digest if process else b"-" * 16 for process in self.processes]
        return hashlib.blake2b(b"".join([repr(plain).encode(), self.stored.digest, *parts]), digest_size=16).digest()


def newest_data(model: Model, above: int, version: int) -> int | None:
    return max((one for one in range(above + 1, version + 1) if one not in model.without_data), default=None)


def with_process(world: World, at: int, process: Process | None) -> World:
    return replace(world, processes=(*world.processes[:at], process, *world.processes[at + 1 :]))


def ended(world: World, at: int, state: str) -> World:
    return with_run(world, at, state=state)


def with_run(world: World, at: int, **changes: Any) -> World:
    return replace(world, runs=(*world.runs[:at], replace(world.runs[at], **changes), *world.runs[at + 1 :]))


def violation(model: Model, world: World) -> str | None:
    """What must never be: two runs at work, successes that overlap or leave a gap, a watermark ahead of success.

    A source that starts at "latest" has no gap before its first range.
    """
    if world.wrong:
        return world.wrong
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
            if newest_data(model, covered, from_) is not None:
                return f"a range of {source.alias} was lost: {succeeded}"
            covered = to
        # What was only found claims nothing yet: the first run's own `from` counts, whoever finds it again.
        processed = isinstance(mark, TablePosition) and not mark.found
        if processed and newest_data(model, covered, at) is not None:
            return f"the watermark {at} of {source.alias} is ahead of what succeeded ({covered})"
    return None
