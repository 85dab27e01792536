"""Tables that a job writes: what is new in them comes with a run of it, and all of it."""

from __future__ import annotations

from dataclasses import replace

from databricks_bridge.core.pending import Finding, RunsFinding, TableFinding, ranges_of
from databricks_bridge.core.positions import Position, Range, RunsPosition
from databricks_bridge.core.sources import TriggeredRuns
from tests.core.builders import FLIGHTS, NOW, WEATHER, at, spec_of
from tests.core.test_pending import found

WRITTEN = TriggeredRuns(job_name="silver-flights", alias="silver", databricks_conn_id="ops", writes=(FLIGHTS,))
BY_RUNS = spec_of(WRITTEN, FLIGHTS, WEATHER)
BY_RUNS_MARKS = {"silver": RunsPosition(5), "flights": at(3), "weather": at(4)}


def ranges_by_runs(runs: tuple[int, ...]) -> dict[str, Range]:
    to = RunsPosition(9, frozenset(runs)) if runs else RunsPosition(5)
    findings: dict[str, Finding] = {"silver": RunsFinding(to, runs, NOW), "flights": found(7), "weather": found(6)}
    return {one.alias: one for one in ranges_of(BY_RUNS, BY_RUNS_MARKS, findings)}


def test_a_table_that_a_job_writes_is_new_only_with_a_run_of_it() -> None:
    """A commit of somebody else, or of a run that is not over, waits for the next run; other tables do not."""
    assert {alias: one.empty for alias, one in ranges_by_runs(()).items()} == {
        "silver": True,
        "flights": True,
        "weather": False,
    }
    with_run = ranges_by_runs((11,))
    assert (with_run["silver"].runs, with_run["flights"].to) == ((11,), at(7))


def test_any_of_the_jobs_that_write_a_table_is_enough() -> None:
    other = replace(WRITTEN, alias="other", job_name="repair-flights")
    spec = spec_of(WRITTEN, other, FLIGHTS)
    findings: dict[str, Finding] = {
        "silver": RunsFinding(RunsPosition(5), (), NOW),
        "other": RunsFinding(RunsPosition(9, frozenset({12})), (12,), NOW),
        "flights": found(7),
    }
    marks: dict[str, Position] = {"silver": RunsPosition(5), "other": RunsPosition(5), "flights": at(3)}
    assert [one.empty for one in ranges_of(spec, marks, findings)] == [True, False, False]


def test_a_run_waits_for_the_last_of_what_it_wrote() -> None:
    spec = replace(spec_of(WRITTEN, FLIGHTS), max_commits_per_run=3)
    to = RunsPosition(50, frozenset({1}))
    marks: dict[str, Position] = {"silver": RunsPosition(0), "flights": at(3)}
    findings: dict[str, Finding] = {"silver": RunsFinding(to, (1,), NOW), "flights": TableFinding(at(7), 7, NOW)}
    first = {one.alias: one for one in ranges_of(spec, marks, findings)}
    assert first["silver"].empty
    assert first["silver"].runs == ()
    marks["flights"] = first["flights"].to
    rest = {one.alias: one for one in ranges_of(spec, marks, findings)}
    assert (rest["silver"].to, rest["silver"].runs) == (to, (1,))
    assert rest["flights"].to == at(7)


def test_a_run_waits_for_the_reader_of_what_it_wrote() -> None:
    behind = TableFinding(at(7), 7, NOW, reader_version=3)
    findings: dict[str, Finding] = {
        "silver": RunsFinding(RunsPosition(50, frozenset({1})), (1,), NOW),
        "flights": behind,
    }
    ranges = ranges_of(spec_of(WRITTEN, FLIGHTS), {"silver": RunsPosition(0), "flights": at(3)}, findings)
    assert all(one.empty for one in ranges)
