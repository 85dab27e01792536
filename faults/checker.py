"""What must never be, computed from the workspace's own list of runs and the tables' logs. Shares no code with what it checks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

Run = Mapping[str, Any]
ROWS_OF_A_VERSION = 1000
"""Where notebooks are real, a source's row numbers its version in thousands."""


@dataclass(frozen=True)
class GoldRow:
    """A row of gold: which row of which source, and the `start` of the range that brought it."""

    n: int
    alias: str
    start: int


@dataclass
class Verdict:
    """How often each thing went wrong, with a line for each."""

    lost: int = 0
    doubled: int = 0
    twice: int = 0
    touched: int = 0
    errors: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.twice or self.touched or self.errors)

    def add(self, kind: str, line: str) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        self.lines.append(f"{kind}: {line}")

    def merge(self, other: Verdict) -> None:
        for kind in ("lost", "doubled", "twice", "touched", "errors"):
            setattr(self, kind, getattr(self, kind) + getattr(other, kind))
        self.lines += other.lines


@dataclass(frozen=True)
class Evidence:
    """What is there to be judged.

    `runs` is the run list of the job, each with its tasks; `logs` the log folder of each table, by alias; `record` the
    stored record as plain JSON. `foreign` holds the runs that others started, with the result that they were given (None: still at
    work) and their parameters at the start. `hollow` are runs that succeeded without having done their work. `from_start` is
    whether everything from version 0 on is due, `over` whether everything should be finished. Where notebooks are real,
    `gold` is what they wrote, and `source_rows` all rows of each source, by alias.
    """

    subscription: str
    runs: Sequence[Run]
    logs: Mapping[str, Path]
    record: Mapping[str, Any] | None
    foreign: Mapping[int, str | None]
    hollow: frozenset[int]
    from_start: bool
    over: bool
    gold: Sequence[GoldRow] | None = None
    source_rows: Mapping[str, Sequence[int]] = field(default_factory=dict)


def judge(seen: Evidence) -> Verdict:
    verdict = Verdict()
    ours = [run for run in seen.runs if run["run_id"] not in seen.foreign]
    for run in ours:
        if _given(run).get("bridge_subscription") != seen.subscription:
            verdict.add("errors", f"run {run['run_id']} is nobody's")
    for alias in seen.logs:
        _ranges(verdict, seen, ours, alias)
        if seen.gold is not None:
            _gold(verdict, seen, [row for row in seen.gold if row.alias == alias], alias)
    _starts(verdict, ours)
    _strangers(verdict, seen)
    return verdict


def _ranges(verdict: Verdict, seen: Evidence, ours: Sequence[Run], alias: str) -> None:
    done = []
    for run in ours:
        given = _given(run)
        start, end = int(given[f"{alias}_start"]), int(given[f"{alias}_end"])
        if start <= end and _result(run) == "SUCCESS" and run["run_id"] not in seen.hollow:
            done.append((start, end, run["run_id"]))
    done.sort()
    marks = (seen.record or {}).get("watermarks", {})
    mark = marks[alias]["version"] if alias in marks else None
    reached = -1
    if not seen.from_start:
        reached = done[0][0] - 1 if done else (-1 if mark is None else mark)
    for (_, end, one), (start, _, other) in pairwise(done):
        if start <= end:
            verdict.add("doubled", f"{alias}: runs {one} and {other} both wrote from version {start} on: {done}")
    data = data_versions(seen.logs[alias])
    for start, end, run_id in done:
        # What holds no data needs no run: the next range may begin after it.
        if any(reached < version < start for version in data):
            verdict.add("lost", f"{alias}: nothing wrote versions {reached + 1} to {start - 1}, run {run_id} went on")
        reached = max(reached, end)
    if mark is not None and mark > reached:
        verdict.add("lost", f"{alias}: the watermark is {mark}, but runs have written up to {reached} only")
    if seen.over:
        newest = newest_data(seen.logs[alias])
        if reached < newest or mark is None or mark < newest:
            verdict.add("lost", f"{alias}: version {newest} is due; written up to {reached}, the watermark is {mark}")


def _gold(verdict: Verdict, seen: Evidence, gold: Sequence[GoldRow], alias: str) -> None:
    """Every row of the source up to the watermark, exactly once; where all is over, every row."""
    times = Counter(row.n for row in gold)
    for n, count in sorted(times.items()):
        if count > 1:
            starts = sorted(row.start for row in gold if row.n == n)
            verdict.add("doubled", f"{alias}: gold has row {n} {count} times, by the ranges that start at {starts}")
    marks = (seen.record or {}).get("watermarks", {})
    mark = marks[alias]["version"] if alias in marks else -1
    first = 0 if seen.from_start else min((row.start for row in gold), default=mark + 1)
    due = [
        n
        for n in seen.source_rows[alias]
        if first <= n // ROWS_OF_A_VERSION and (seen.over or n // ROWS_OF_A_VERSION <= mark)
    ]
    missing = sorted(set(due) - set(times))
    if missing:
        verdict.add("lost", f"{alias}: gold lacks the rows {missing}; the watermark is {mark}")
    strange = sorted(set(times) - set(seen.source_rows[alias]))
    if strange:
        verdict.add("errors", f"{alias}: gold has the rows {strange}, which no source has")


def _starts(verdict: Verdict, ours: Sequence[Run]) -> None:
    tokens: Counter[str] = Counter()
    facts: Counter[tuple[str, ...]] = Counter()
    for run in ours:
        given = _given(run)
        starts = tuple(f"{name}={value}" for name, value in sorted(given.items()) if re.fullmatch(r"t\d_start", name))
        tokens[given["bridge_token"]] += 1
        facts[given["bridge_epoch"], given["bridge_generation"], *starts] += 1
    for known, what in ((tokens, "token"), (facts, "epoch, generation and starts")):
        for key, count in known.items():
            if count > 1:
                verdict.add("twice", f"{count} runs for one {what}: {key}")
    at_work = sorted((begin, end, run["run_id"]) for run in ours for begin, end in _at_work(run))
    for (_, end, one), (begin, _, other) in pairwise(at_work):
        if begin < end and one != other:
            verdict.add("twice", f"runs {one} and {other} were active at once")


def _strangers(verdict: Verdict, seen: Evidence) -> None:
    there = {run["run_id"]: run for run in seen.runs}
    for run_id, result in seen.foreign.items():
        run = there.get(run_id)
        if run is None:
            verdict.add("touched", f"the foreign run {run_id} is gone")
        elif (_result(run) or None) != result or len(run.get("repair_history", ())) > 1:
            verdict.add("touched", f"the foreign run {run_id} should be {result}, and is {_result(run)}")
        elif any(name.startswith("bridge_") and value for name, value in _given(run).items()):
            verdict.add("touched", f"the foreign run {run_id} was given parameters of ours")


def _given(run: Run) -> dict[str, str]:
    return {one["name"]: one["value"] for one in run.get("job_parameters", ())}


def _result(run: Run) -> str:
    return str((run.get("state") or {}).get("result_state") or "")


def _at_work(run: Run) -> list[tuple[int, int]]:
    """From when to when (epoch ms) it was active; a run that was repaired, more than once. A skipped run never was."""
    if run["state"]["life_cycle_state"] == "SKIPPED" or "CONCURRENT" in _result(run):
        return []
    history = run.get("repair_history", ())
    rounds = history if len(history) > 1 else [run]
    return [(one["start_time"], one.get("end_time") or 2**62) for one in rounds]


def versions(log: Path) -> dict[int, Path]:
    return {int(file.stem): file for file in sorted(log.glob("*.json")) if file.stem.isdigit()}


def data_versions(log: Path) -> list[int]:
    """The versions of a table that added or removed data, oldest first."""
    found = []
    for version, file in versions(log).items():
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        if any((action.get("add") or {}).get("dataChange") for action in actions):
            found.append(version)
    return found


def newest_data(log: Path) -> int:
    """The newest version of a table that added or removed data, -1 where none did."""
    return max(data_versions(log), default=-1)
