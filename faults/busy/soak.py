"""`python -m faults.busy.soak`: two hundred jobs that fire for MINUTES (10), and whether anything leaks, is missed or doubled.

Runs are instant and time is shortened. Memory, open files and tasks of the workspace's process after the warm-up, a fifth of
the time, are compared with those at the end.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.children import cpu_seconds, pss_mb
from benchmarks.figures import Figure, line, number
from databricks_bridge.local.layout import Layout
from faults.busy.server import COUNTS
from faults.busy.world import Server, World, now_ms, running

MINUTES = 10.0
FILES, TABLES, COMPLETIONS, SCHEDULES = 90, 80, 20, 10
PERIOD_SECONDS = 10
SCALE = 0.02
REST_SECONDS = (4.0, 16.0)
SAMPLE_SECONDS = 5.0
WARM_UP = 0.2
EACH_END = 5
"""Samples that stand for the state after the warm-up, and as many for that at the end: the median of each."""
LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class Sample:
    """The workspace's process at one time: memory in MB, open file descriptors, asyncio tasks, threads; its store in bytes."""

    memory: float
    files: int
    tasks: int
    threads: int
    store: int
    runs: int


def main(given: Mapping[str, str]) -> int:
    minutes, seed = float(given.get("MINUTES") or MINUTES), int(given.get("SEED") or 1)
    jobs = FILES + TABLES + COMPLETIONS + SCHEDULES
    print(f"soak: {jobs} jobs fire for {number(minutes)} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="databricks-bridge-soak-") as home:
        figures = soak(Path(home), minutes * 60, random.Random(seed))
    print(line("soak", figures), flush=True)
    return 0 if all(figure.met for figure in figures) else 1


def soak(home: Path, seconds: float, chance: random.Random) -> list[Figure]:
    """Let everything fire for so long; what came of it."""
    server = Server(home, SCALE)
    with running(server):
        world = World(server, chance, REST_SECONDS, uploads=True)
        world.furnish(FILES, TABLES, COMPLETIONS, SCHEDULES, PERIOD_SECONDS)
        began, cpu, samples, due = time.monotonic(), cpu_seconds(server.pid), [], 0.0
        while (passed := time.monotonic() - began) < seconds:
            world.change()
            world.look()
            if passed >= due:
                samples.append(_sample(server, world))
                due += SAMPLE_SECONDS
                if len(samples) % 12 == 1:
                    _tell(passed, samples[-1])
            time.sleep(LOOK_SECONDS)
        cores = (cpu_seconds(server.pid) - cpu) / (time.monotonic() - began)
        until = now_ms() - PERIOD_SECONDS * 1000
        world.settle(LOOK_SECONDS)
        # A second run of what has fired would come with the next looks.
        time.sleep(server.interval * 3)
        world.look_at_all()
        account = world.account(until)
    for wrong in account.lines[:20]:
        print(f"soak: {wrong}")
    warm, end = _ends(samples)
    runs = end.runs - warm.runs
    print(
        f"soak: {account.due} times due, {account.fired} runs; {number(cores)} of a core; after the warm-up "
        f"{_told(warm)}, at the end {_told(end)}; the store grew by {number((end.store - warm.store) / max(1, runs))} "
        f"bytes for each of {runs} runs"
    )
    rows, file = _store(home)
    print(f"soak: the store holds, in MB of rows: {', '.join(f'{name} {number(size / 1e6)}' for name, size in rows)}")
    return [
        Figure("times due without a run", account.missed, most=0),
        Figure("runs too many", account.doubled, most=0),
        Figure("MB more than after the warm-up", max(0.0, end.memory - warm.memory), most=5),
        Figure("open files more", max(0, end.files - warm.files), most=2),
        Figure("tasks more", max(0, end.tasks - warm.tasks), most=5),
        Figure("bytes of the store for each byte of its rows", file / sum(size for _, size in rows), most=1.5),
    ]


def _sample(server: Server, world: World) -> Sample:
    counts = json.loads((server.home / COUNTS).read_text())
    store = Layout(server.home).store_file
    size = sum(file.stat().st_size for file in store.parent.glob(f"{store.name}*"))
    runs = sum(len(watch.runs) for watch in world.watches)
    files = len(os.listdir(f"/proc/{server.pid}/fd"))
    return Sample(pss_mb(server.pid), files, counts["tasks"], counts["threads"], size, runs)


def _ends(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    warm = int(len(samples) * WARM_UP)
    return _middle(samples[warm : warm + EACH_END]), _middle(samples[-EACH_END:])


def _middle(samples: Sequence[Sample]) -> Sample:
    def of(name: str) -> float:
        return float(median(getattr(sample, name) for sample in samples))

    whole = {name: int(of(name)) for name in ("files", "tasks", "threads", "store", "runs")}
    return Sample(memory=of("memory"), **whole)


def _told(sample: Sample) -> str:
    return (
        f"{number(sample.memory)} MB, {sample.files} files, {sample.tasks} tasks, {sample.threads} threads, "
        f"{number(sample.store / 1e6)} MB of store"
    )


def _tell(passed: float, sample: Sample) -> None:
    print(f"soak: {passed:4.0f} s: {sample.runs} runs, {_told(sample)}", flush=True)


def _store(home: Path) -> tuple[list[tuple[str, int]], int]:
    """The bytes of text in each table of the store, and of its file when all is written back."""
    file = Layout(home).store_file
    database = sqlite3.connect(file)
    try:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        sizes = {}
        for name in names:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
            lengths = " + ".join(f"ifnull(length({column}), 0)" for column in columns)
            sizes[name] = database.execute(f"SELECT ifnull(sum({lengths}), 0) FROM {name}").fetchone()[0]
    finally:
        database.close()
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    return [(name, size) for name, size in largest if size > 10_000], file.stat().st_size


if __name__ == "__main__":
    sys.exit(main(os.environ))
