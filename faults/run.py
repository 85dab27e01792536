"""Many schedules in two worker processes, and what came of them."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from faults.checker import Verdict
from faults.lab import running_lab
from faults.model import FAULTS, IDLE, LEAST, STEPS, Cell, rule_of
from faults.play import play

SCHEDULES = 1000
WORKERS = 2
DEPLOYMENT_FOR = 50
"""So many schedules share one deployment."""


@dataclass
class Result:
    """What came of some schedules. `stories` are the violations, each with the schedule's number and diary."""

    schedules: int = 0
    met: Counter[Cell] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    stories: list[tuple[int, list[str], list[str]]] = field(default_factory=list)

    def merge(self, other: Result) -> None:
        self.schedules += other.schedules
        self.met += other.met
        self.verdict.merge(other.verdict)
        self.stories += other.stories


async def play_all(seed: int, numbers: Iterable[int], home: Path, *, diary: bool = False) -> Result:
    """Play these schedules one after the other, in one deployment."""
    result = Result()
    async with running_lab(home) as lab:
        for number in numbers:
            schedule = await play(lab, seed, number, home)
            result.schedules += 1
            result.met += schedule.met
            result.verdict.merge(schedule.verdict)
            if diary or not schedule.verdict.clean:
                result.stories.append((number, schedule.verdict.lines, [str(schedule.options), *schedule.diary]))
    return result


def _work(seed: int, numbers: list[int]) -> Result:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="databricks-bridge-faults-") as home:
        return asyncio.run(play_all(seed, numbers, Path(home)))


def _all(seed: int, count: int) -> Result:
    chunks = [list(range(start, min(start + DEPLOYMENT_FOR, count))) for start in range(0, count, DEPLOYMENT_FOR)]
    result = Result()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn) as pool:
        for done in pool.map(_work, [seed] * len(chunks), chunks):
            result.merge(done)
            print(f"faults: {result.schedules} schedules played, {len(result.stories)} of them wrong", flush=True)
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
    count = int(given.get("SCHEDULES") or SCHEDULES)
    began = time.monotonic()
    print(f"faults: seed {seed}, {'schedule ' + only if only else f'{count} schedules'}", flush=True)
    if only:
        with tempfile.TemporaryDirectory(prefix="databricks-bridge-faults-") as home:
            result = asyncio.run(play_all(seed, [int(only)], Path(home), diary=True))
    else:
        result = _all(seed, count)
    for _, _, diary in result.stories:
        if only:
            print("\n".join(diary))
    print("".join(f"{line}\n" for line in story_lines(seed, result)), end="")
    missing = [] if only else thin(result.met)
    if not only:
        print(f"{table(result.met)}\n{legend()}")
        print("\n".join(missing)) if missing else None
    print(f"faults: {time.monotonic() - began:.0f} s, errors of other kinds {result.verdict.errors}")
    print(last_line(result), flush=True)
    return 0 if result.verdict.clean and not missing else 1
