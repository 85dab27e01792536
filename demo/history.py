"""The proof itself: pure functions over what was found. Nothing here reads anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from demo.gold import Hour, Row, differences

FIRED = frozenset({"FILE_ARRIVAL", "TABLE"})
BEFORE_ALL = -1  # the position of a source of which nothing was processed: version 0 is the first


@dataclass(frozen=True)
class Range:
    """`(start, end]` of one source: versions above `start`, up to and with `end`. Empty when they are equal."""

    alias: str
    table_id: str
    start: int
    end: int

    @property
    def is_empty(self) -> bool:
        return self.start == self.end


@dataclass(frozen=True)
class GoldRun:
    """A run of the gold job, with the claim that its job parameters name."""

    run_id: int
    started: int
    result: str
    subscription: str
    epoch: str
    generation: str
    token: str
    ranges: tuple[Range, ...]
    rows_in: Mapping[str, int]
    rows_out: int

    @property
    def succeeded(self) -> bool:
        return self.result == "SUCCESS"

    @property
    def place(self) -> tuple[object, ...]:
        """What must be unique: the same claim from the same positions may start only one run."""
        positions = tuple(sorted((r.alias, r.table_id, r.start) for r in self.ranges))
        return self.subscription, self.epoch, self.generation, positions


@dataclass(frozen=True)
class FiredRun:
    """A run of a bronze or silver job."""

    workspace: str
    job: str
    run_id: int
    trigger: str


@dataclass(frozen=True)
class AuditRun:
    """A run of the audit job, and the bronze runs that it was started for."""

    run_id: int
    result: str
    bronze_runs: tuple[int, ...]


@dataclass(frozen=True)
class Killed:
    """The task that the driver killed, and what Airflow says of it now."""

    dag_run: str
    run_id_at_kill: int
    tries: tuple[tuple[int, str], ...]
    run_id_now: int | None


@dataclass(frozen=True)
class Overtaken:
    """What the driver saw while it held a gold run: its source had moved on to `version`."""

    run_id: int
    alias: str
    version: int


@dataclass(frozen=True)
class Facts:
    """All that the proof looks at."""

    gold_runs: Sequence[GoldRun]
    fired_runs: Sequence[FiredRun]
    audit_runs: Sequence[AuditRun]
    latest: Mapping[str, int]
    killed: Killed | None
    overtaken: Overtaken | None
    gold: Mapping[Hour, Row]
    expected: Mapping[Hour, Row]


@dataclass(frozen=True)
class Committed:
    """A line of the proof's table: a range that is not empty, and the successful run that did it."""

    run: GoldRun
    range: Range


@dataclass(frozen=True)
class Verdict:
    """The counts of the last line, and every finding against the proof."""

    committed: tuple[Committed, ...]
    gaps: int
    overlaps: int
    started_twice: int
    findings: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.findings

    @property
    def line(self) -> str:
        return (
            f"ranges committed {len(self.committed)}, gaps {self.gaps}, overlaps {self.overlaps}, "
            f"runs started twice {self.started_twice}"
        )


def judge(facts: Facts, at_least: int = 3) -> Verdict:
    """Check everything that the demo claims."""
    committed = tuple(Committed(run, part) for run in _successful(facts) for part in run.ranges if not part.is_empty)
    gaps, overlaps, misplaced = [], [], []
    for alias, latest in facts.latest.items():
        found = _coverage(alias, latest, [line for line in committed if line.range.alias == alias])
        gaps += found[0]
        overlaps += found[1]
        misplaced += found[2]
    unknown = {line.range.alias for line in committed} - facts.latest.keys()
    twice = list(started_twice(facts.gold_runs))
    few = [f"only {len(committed)} ranges were committed, {at_least} were to be"] if len(committed) < at_least else []
    return Verdict(
        committed=committed,
        gaps=len(gaps),
        overlaps=len(overlaps),
        started_twice=len(twice),
        findings=(
            *few,
            *gaps,
            *overlaps,
            *misplaced,
            *(f"a range of {alias}, which is not a source" for alias in sorted(unknown)),
            *twice,
            *foreign_starts(facts.fired_runs),
            *audited_twice(facts),
            *killed_task(facts),
            *overtaken_run(facts),
            *differences(dict(facts.gold), dict(facts.expected)),
        ),
    )


def started_twice(runs: Sequence[GoldRun]) -> Iterator[str]:
    """One line for each run that an earlier run stood for: the same claim, the same token, or the same range done."""
    seen: dict[tuple[object, ...], int] = {}
    for run in sorted(runs, key=lambda run: (run.started, run.run_id)):
        keys: list[tuple[object, ...]] = [("claim", *run.place), ("token", run.token)]
        if run.succeeded:
            keys += [("range", r.alias, r.table_id, r.start, r.end) for r in run.ranges if not r.is_empty]
        clash = next(((key[0], seen[key]) for key in keys if key in seen), None)
        if clash is not None:
            yield f"run {run.run_id} was started although run {clash[1]} has the same {clash[0]}"
        for key in keys:
            seen.setdefault(key, run.run_id)


def foreign_starts(runs: Sequence[FiredRun]) -> Iterator[str]:
    """Bronze and silver must have been started by Databricks' own triggers, and must have been started at all."""
    if not runs:
        yield "no bronze or silver run was found"
    for run in runs:
        if run.trigger not in FIRED:
            yield f"{run.workspace}: run {run.run_id} of {run.job} was started by {run.trigger}, not by a trigger"


def audited_twice(facts: Facts) -> Iterator[str]:
    """The DAG after bronze starts one run for a bronze run, and at least one in all."""
    seen: dict[int, int] = {}
    bronze = {run.run_id for run in facts.fired_runs if run.job.startswith("bronze-")}
    for run in facts.audit_runs:
        for bronze_run in run.bronze_runs:
            if bronze_run in seen:
                yield f"audit runs {seen[bronze_run]} and {run.run_id} were both started for bronze run {bronze_run}"
            if bronze_run not in bronze:
                yield f"audit run {run.run_id} was started for {bronze_run}, which is no bronze run"
            seen[bronze_run] = run.run_id
    if not any(run.result == "SUCCESS" for run in facts.audit_runs):
        yield "no bronze run was audited"


def killed_task(facts: Facts) -> Iterator[str]:
    """The killed task came back as its second try and followed the run that its first try had started."""
    killed = facts.killed
    if killed is None:
        yield "no task was killed"
        return
    if killed.tries[-1:] != ((2, "success"),):
        yield f"the killed task of {killed.dag_run} did not come back as try 2: its tries are {list(killed.tries)}"
    if killed.run_id_now != killed.run_id_at_kill:
        yield f"the killed task of {killed.dag_run} had run {killed.run_id_at_kill}, its second try {killed.run_id_now}"
    if not any(run.run_id == killed.run_id_at_kill and run.succeeded for run in facts.gold_runs):
        yield f"run {killed.run_id_at_kill}, which the killed task had started, did not succeed"


def overtaken_run(facts: Facts) -> Iterator[str]:
    """Data came while a gold run was under way, and that run kept to the versions that it had claimed."""
    seen = facts.overtaken
    if seen is None:
        yield "no data came while a gold run was under way"
        return
    ends = [r.end for run in facts.gold_runs if run.run_id == seen.run_id for r in run.ranges if r.alias == seen.alias]
    if not ends or ends[0] >= seen.version:
        yield f"run {seen.run_id} was to end below version {seen.version} of {seen.alias}, its ranges end at {ends}"


def _successful(facts: Facts) -> list[GoldRun]:
    return sorted((run for run in facts.gold_runs if run.succeeded), key=lambda run: (run.started, run.run_id))


def _coverage(alias: str, latest: int, lines: Sequence[Committed]) -> tuple[list[str], list[str], list[str]]:
    """(gaps, overlaps, what is out of place): the ranges of one source must cut `(-1, latest]` into pieces, in order."""
    gaps, overlaps, misplaced = [], [], []
    reached = BEFORE_ALL
    by_start = sorted(lines, key=lambda line: (line.range.start, line.range.end))
    for line in by_start:
        part = line.range
        shown = f"({part.start}, {part.end}] of run {line.run.run_id}"
        if part.end < part.start:
            misplaced.append(f"{alias}: {shown} ends before it begins")
        if part.start > reached:
            gaps.append(f"{alias}: no run has processed ({reached}, {part.start}]")
        if part.start < reached:
            overlaps.append(f"{alias}: {shown} begins before {reached}, which was processed already")
        reached = max(reached, part.end)
    if reached < latest:
        gaps.append(f"{alias}: no run has processed ({reached}, {latest}]")
    if reached > latest:
        misplaced.append(f"{alias}: processed up to {reached}, but the table's latest version is {latest}")
    if by_start != list(lines):
        misplaced.append(f"{alias}: the runs did not process its ranges in order")
    return gaps, overlaps, misplaced
