"""Many schedules in two worker processes, and what came of them."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from faults.checker import Verdict
from faults.lab import running_lab
from faults.model import FAULTS, IDLE, LEAST, STEPS, Cell, rule_of
from faults.play import play
from faults.schedule import new_schedule
from faults.spark import MOST_FAULTY_MOVES as SPARK_MOVES
from faults.spark import running_spark_lab, shorter

SCHEDULES = 1000
ON_SPARK = 20
SPARK = "spark-"
"""Before the number of a schedule with real notebook runs."""
WORKERS = 2
DEPLOYMENT_FOR = 50
"""So many schedules share one deployment."""


@dataclass
class Result:
    """What came of some schedules. `stories` are the violations, each with the schedule's name and diary."""

    schedules: int = 0
    met: Counter[Cell] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    stories: list[tuple[str, list[str], list[str]]] = field(default_factory=list)
    spark: bool = False

    def merge(self, other: Result) -> None:
        self.schedules += other.schedules
        self.met += other.met
        self.verdict.merge(other.verdict)
        self.stories += other.stories


async def play_all(
    seed: int, numbers: Iterable[int], home: Path, *, diary: bool = False, spark: bool = False
) -> Result:
    """Play these schedules one after the other, in one deployment; with `spark`, shorter ones with real notebook runs."""
    result = Result(spark=spark)
    async with running_spark_lab(home) if spark else running_lab(home) as lab:
        for number in numbers:
            if spark:
                schedule = await play(new_schedule(lab, seed, number, home, shorter), SPARK_MOVES)
            else:
                schedule = await play(new_schedule(lab, seed, number, home))
            result.schedules += 1
            result.met += schedule.met
            result.verdict.merge(schedule.verdict)
            if diary or not schedule.verdict.clean:
                name = f"{SPARK if spark else ''}{number}"
                result.stories.append((name, schedule.verdict.lines, [str(schedule.options), *schedule.diary]))
    return result


def _work(seed: int, numbers: list[int], spark: bool) -> Result:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="databricks-bridge-faults-") as home:
        return asyncio.run(play_all(seed, numbers, Path(home), spark=spark))


def _all(seed: int, count: int, on_spark: int) -> Result:
    chunks = [list(range(start, min(start + DEPLOYMENT_FOR, count))) for start in range(0, count, DEPLOYMENT_FOR)]
    result = Result()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn) as pool:
        # Spark first: it takes longest, and its worker is the only one that pays for a JVM.
        waiting = [pool.submit(_work, seed, list(range(on_spark)), True)] if on_spark else []
        waiting += [pool.submit(_work, seed, chunk, False) for chunk in chunks]
        for future in as_completed(waiting):
            done = future.result()
            result.merge(done)
            where = ", those on Spark among them" if done.spark else ""
            print(
                f"faults: {result.schedules} schedules played{where}, {len(result.stories)} of them wrong", flush=True
            )
    return result


def table(met: Mapping[Cell, int]) -> str:
    """How often each fault met each step. A dot is a cell that is impossible, brackets one that is only counted."""
    columns = (*STEPS, IDLE)
    lines = ["".join([f"{'fault':<20}", *(f"{step:>8}" for step in columns)])]
    for fault in FAULTS:
        rule, cells = rule_of(fault), []
        for step in columns:
            count = met.get((fault, step), 0)
            shown = "." if not count and rule.elsewhere == "impossible" else f"({count})"
            cells.append(f"{count if step in rule.demanded else shown:>8}")
        lines.append(f"{fault:<20}{''.join(cells)}")
    return "\n".join(lines)


def legend() -> str:
    """Why the cells that are not demanded are not."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for fault in FAULTS:
        rule = rule_of(fault)
        if rule.why:
            reasons.setdefault((rule.elsewhere, rule.why), []).append(fault)
    return "\n".join(f"{kind}: {why} ({', '.join(faults)})" for (kind, why), faults in reasons.items())


def thin(met: Mapping[Cell, int]) -> list[str]:
    """The demanded cells that were met too seldom."""
    return [
        f"{fault} at {step} was met {met.get((fault, step), 0)} times, and {LEAST} are demanded"
        for fault in FAULTS
        for step in rule_of(fault).demanded
        if met.get((fault, step), 0) < LEAST
    ]


def story_lines(seed: int, result: Result) -> list[str]:
    """A line for each violation, with what brings it back."""
    return [
        f"schedule {number} (make faults SEED={seed} ONLY={number}): {line}"
        for number, lines, _ in result.stories
        for line in lines
    ]


def last_line(result: Result) -> str:
    found = result.verdict
    return (
        f"schedules {result.schedules}, ranges lost {found.lost}, doubled {found.doubled}, "
        f"runs started twice {found.twice}, foreign runs touched {found.touched}"
    )


def main(given: Mapping[str, str]) -> int:
    seed, only = int(given.get("SEED") or 1), given.get("ONLY")
    count, on_spark = int(given.get("SCHEDULES") or SCHEDULES), int(given.get("SPARK") or ON_SPARK)
    began = time.monotonic()
    told = f"schedule {only}" if only else f"{count} schedules, and {on_spark} on real Spark"
    print(f"faults: seed {seed}, {told}", flush=True)
    result = _one(seed, only) if only else _all(seed, count, on_spark)
    for _, _, diary in result.stories:
        if only:
            print("\n".join(diary))
    print("".join(f"{line}\n" for line in story_lines(seed, result)), end="")
    missing = [] if only else thin(result.met)
    if not only:
        print("\n".join([table(result.met), legend(), *missing]))
    print(f"faults: {time.monotonic() - began:.0f} s, errors of other kinds {result.verdict.errors}")
    print(last_line(result), flush=True)
    return 0 if result.verdict.clean and not missing else 1


def _one(seed: int, name: str) -> Result:
    number, spark = int(name.removeprefix(SPARK)), name.startswith(SPARK)
    with tempfile.TemporaryDirectory(prefix="databricks-bridge-faults-") as home:
        return asyncio.run(play_all(seed, [number], Path(home), diary=True, spark=spark))
