"""A claim is written only when its largest later form fits; history goes first; what can never fit is known at parse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.core.claims import Plan, claimed, committed, failed, noted, started, undecided
from databricks_bridge.core.commits import commit_of
from databricks_bridge.core.outcomes import Ending, Outcome
from databricks_bridge.core.pending import Settled
from databricks_bridge.core.positions import Position, Range, RunsPosition, TablePosition
from databricks_bridge.core.record import Record
from databricks_bridge.core.record_size import is_new_claim, largest_later, shrunk, size_of, sources_that_fit
from databricks_bridge.core.sources import DeltaTable, Source, TriggeredRuns
from databricks_bridge.core.task_try import TaskTry
from databricks_bridge.feeds.runs import MOST_RUNS, OVERLAP_RUNS
from tests.core.builders import NOW, TARGET, spec_of

LIMIT = 48 * 1024
IDS = {"table_id": "0" * 36, "metadata_id": "1" * 36, "fingerprint": "f" * 64}
TASK = TaskTry("d" * 60, "scheduled__2026-01-01T00:00:00+00:00", "t" * 60, -1, 1)


def position(source: Source, at: int) -> Position:
    if isinstance(source, DeltaTable):
        return TablePosition(1_000_000 + at, **IDS, through=1_000_000 + at)
    first = 900_000_000_000_000 + at * MOST_RUNS
    return RunsPosition(1_790_000_000_000 + at, frozenset(range(first, first + OVERLAP_RUNS)))


def range_of(source: Source, at: int) -> Range:
    name = source.reader_name if isinstance(source, DeltaTable) else source.job
    first = 900_000_000_000_000 + at * MOST_RUNS
    runs = () if isinstance(source, DeltaTable) else tuple(range(first, first + MOST_RUNS))
    return Range(source.alias, name, position(source, at), position(source, at + 1), runs)


def plan_on(sources: tuple[Source, ...]) -> Plan:
    as_of = frozenset(one.alias for one in sources if isinstance(one, DeltaTable))
    return Plan(spec_of(*sources), TARGET, {"region": "NY"}, task=TASK, as_of=as_of)


def cycles(sources: tuple[Source, ...], count: int) -> list[Record]:
    """Every record of so many cycles of claim, run, failure and commit, in which all sources are new each time."""
    plan = plan_on(sources)
    marks = {one.alias: position(one, 0) for one in sources}
    record = started(plan, None, Settled(marks, "e" * 36), NOW)
    records = [record]
    for at in range(count):
        task = replace(TASK, run_id=f"{TASK.run_id}{at}")
        ranges = tuple(range_of(one, at) for one in sources)
        record = claimed(replace(plan, task=task), record, Settled(dict(record.watermarks), "e" * 36), ranges, NOW)
        records.append(record)
        assert record.claim is not None
        record = noted(record, 10**15 + at, ranges, {}, NOW)
        lost = failed(plan, record, Outcome(Ending.FAILED, "INTERNAL_ERROR", "FAILED", "é" * 9_000), NOW)
        records += [record, lost, undecided(lost, 10**15 + at, "is gone, " + "x" * 20_000, NOW)]
        record = committed(record, record.claim, 10**15 + at, NOW, task)
        records.append(record)
    return records


def tables(count: int, name: str = "main.silver.source_table_{:03}") -> tuple[Source, ...]:
    return tuple(DeltaTable(name.format(one)) for one in range(count))


SETS: dict[str, Any] = {
    "one": tables(1),
    "many": tables(60),
    "long names": tables(40, "a_long_catalog_name.a_rather_long_schema_name.a_very_long_table_name_in_it_{:03}"),
    "short names": tables(60, "a.b.c{}"),
    "runs": tuple(TriggeredRuns(job_name=f"bronze-{one}", triggers={"PERIODIC"}) for one in range(8)),
    "both": (TriggeredRuns(job_name="bronze", triggers={"PERIODIC"}), *tables(50)),
}


@pytest.mark.parametrize("kind", SETS)
def test_as_many_sources_as_parse_lets_through_fit_for_ever(kind: str) -> None:
    """All that the protocol can write, in any cycle, with every source new each time and the longest error texts."""
    sources = SETS[kind][: sources_that_fit(SETS[kind], LIMIT)]
    assert sources
    for record in cycles(sources, 18):
        assert size_of(shrunk(record, LIMIT)) <= LIMIT
        if is_new_claim(record):
            assert size_of(largest_later(shrunk(record, LIMIT))) <= LIMIT


@pytest.mark.parametrize("kind", SETS)
def test_the_estimate_is_near_to_what_is_needed(kind: str) -> None:
    """A set that fits is not refused: of what is needed, the estimate is at most a third too high."""
    fit = sources_that_fit(SETS[kind], LIMIT)
    if fit < len(SETS[kind]):
        sources = SETS[kind][: int(fit * 1.34) + 1]
        worst = max(size_of(largest_later(one)) for one in cycles(sources, 3) if is_new_claim(one))
        assert worst > LIMIT, f"{len(sources)} sources need {worst} bytes, and {fit} were let through"


def test_history_goes_before_commits_and_the_last_of_each_stays() -> None:
    record = cycles(tables(5), 40)[-1]
    most = size_of(record) - 3_000
    less = shrunk(record, most)
    assert size_of(less) <= most
    assert less.commits == record.commits
    assert len(less.history) < len(record.history)
    least = shrunk(record, 100)
    assert (least.history, least.commits) == (record.history[-1:], record.commits[-1:])
    assert commit_of(least, replace(TASK, run_id=f"{TASK.run_id}39")) is not None
    assert (least.watermarks, least.claim, least.revision) == (record.watermarks, record.claim, record.revision)


@pytest.mark.parametrize("kind", SETS)
def test_no_later_form_is_larger_than_it_was_thought_to_become(kind: str) -> None:
    sources = SETS[kind][:8]
    first, *later = cycles(sources, 5)
    largest = size_of(first)
    for record in later:
        if is_new_claim(record):
            largest = size_of(largest_later(record))
        assert size_of(shrunk(record, 1)) <= largest
