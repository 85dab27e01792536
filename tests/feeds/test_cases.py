"""Faults that users of neighbouring projects reported, against the driver and a real local deployment."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.backfill import ranges_of
from databricks_bridge.core.bounds import bounds_of
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import HistoryGap, InvalidArgument, RunFailed
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.sources import DeltaTable
from tests.feeds.conftest import OK, TABLE, Lab, failure

SOURCE = DeltaTable(TABLE, "ops")

RENAMED = "StreamingQueryException: [DELTA_SCHEMA_CHANGED_WITH_VERSION] a column was renamed in version 12"


async def plan_of(lab: Lab, source: DeltaTable = SOURCE, **spec: Any) -> Plan:
    plan = await lab.plan()
    return replace(plan, spec=replace(plan.spec, sources=(source,), **spec))


async def consume(lab: Lab, plan: Plan, **changes: Any) -> acts.Finish:
    """One task: a process with nothing in memory."""
    async with lab.new_process():
        done = await (await lab.driver(plan=plan, **changes)).drive()
    assert isinstance(done, acts.Finish)
    return done


async def watermark(lab: Lab) -> int:
    mark = (await lab.record()).watermarks["flights"]
    assert isinstance(mark, TablePosition)
    return mark.version


def bounds(lab: Lab) -> list[tuple[int, int]]:
    """What each run was given: from exclusive, to inclusive."""
    return [(int(run["flights_start"]) - 1, int(run["flights_end"])) for run in lab.notebooks.runs]


def write(folder: Path, version: int) -> None:
    """Two rows as this version of a table with a change feed, by a real writer."""
    import pyarrow as pa
    from deltalake import write_deltalake

    rows = pa.table({"version": pa.array([version] * 2, pa.int64())})
    write_deltalake(str(folder), rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def changes_of(folder: Path, run: dict[str, str]) -> list[tuple[int, int]]:
    """Value and commit version of all that deltalake's own reader gives for the job parameters of a run."""
    from deltalake import DeltaTable

    reader = DeltaTable(str(folder)).load_cdf(
        starting_version=int(run["flights_start"]), ending_version=int(run["flights_end"])
    )
    table = reader.read_all()
    given = zip(table["version"], table["_commit_version"], strict=True)
    return sorted((int(value.as_py()), int(version.as_py())) for value, version in given)


async def test_D04_the_newest_version_is_read_once_and_nothing_beyond_it(lab: Lab) -> None:
    """`start > end` is a parameter value of ours only for a table beside another one that has something new; with one table
    no run is ever started with it."""
    folder = lab.deployment.layout.table_path("ops", TABLE)
    shutil.rmtree(folder)
    write(folder, 0)
    plan = await plan_of(lab)
    assert (await consume(lab, plan)).run_id is not None
    assert (await consume(lab, plan)).run_id is None
    write(folder, 1)
    await consume(lab, plan)
    given = [(run["flights_start"], run["flights_end"]) for run in lab.notebooks.runs]
    assert given == [("0", "0"), ("1", "1")]
    assert [changes_of(folder, run) for run in lab.notebooks.runs] == [[(0, 0)] * 2, [(1, 1)] * 2]


async def test_D04_bounds_that_end_before_they_begin_or_beyond_the_table_are_refused(lab: Lab) -> None:
    lab.commit(1)
    with pytest.raises(InvalidArgument, match=r"range of flights is \(1, 0\), which ends before it begins"):
        bounds_of({"flights": (1, 0)}, [SOURCE])
    spec = (await plan_of(lab)).spec
    findings = await lab.looker.look(spec, {})
    with pytest.raises(InvalidArgument, match=r"ends at 2, but main\.silver\.flights has 1"):
        ranges_of({"flights": (0, 2)}, [SOURCE], findings)
    with pytest.raises(HistoryGap, match="starts after version 2, but the table is at 1"):
        await consume(lab, await plan_of(lab, replace(SOURCE, start=2)))
    assert lab.notebooks.runs == []


def change_schema(lab: Lab, version: int, operation: str, *columns: str) -> None:
    """A commit that changes nothing but the columns: the table's metadata id stays."""
    log = lab.deployment.layout.table_path("ops", TABLE) / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    metadata = next(action["metaData"] for action in first if "metaData" in action)
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in columns]
    metadata["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    actions = [{"commitInfo": {"operation": operation}}, {"metaData": metadata}]
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


async def at_ten(lab: Lab) -> Plan:
    """The plan of a consumer that has processed version 10."""
    for version in range(1, 11):
        lab.commit(version)
    plan = await plan_of(lab)
    await consume(lab, plan)
    assert await watermark(lab) == 10
    return plan


@pytest.mark.parametrize("reached", [11, 10], ids=["stops at 12", "all in one batch"])
async def test_D07_a_reader_that_a_renamed_column_stops_moves_no_watermark_and_goes_on_with_the_rest(
    lab: Lab, reached: int
) -> None:
    """The watermark stays at 10 in both variants, for a claim is committed whole or not at all (rule 5: `to` is fixed); the
    reader's own checkpoint knows 11. No event tells of 12, for nothing is computed from events: the failed task does, in
    the words of the reader that stopped."""
    plan = await at_ten(lab)
    lab.commit(11)
    change_schema(lab, 12, "RENAME COLUMN", "m")
    lab.commit(13)
    lab.notebooks.answers = [failure(RENAMED)]
    with pytest.raises(RunFailed, match=r"DELTA_SCHEMA_CHANGED_WITH_VERSION.*renamed in version 12"):
        await consume(lab, plan)
    assert await watermark(lab) == 10

    async def prove(claim: Any, run_id: int) -> acts.Proved:
        """The checkpoint, which the run after the one that stopped early takes to the end."""
        checkpoint = 13 if len(bounds(lab)) > 3 else reached
        return acts.Proved(checkpoint == 13, f"the checkpoint has flights at {checkpoint}, not at 13")

    plan = replace(plan, postcondition=True)
    with pytest.raises(RunFailed, match=f"has flights at {reached}, not at 13"):
        await consume(lab, plan, prove=prove)
    assert await watermark(lab) == 10, "nor by a run that stops early and calls that a success"
    await consume(lab, plan, prove=prove)
    assert await watermark(lab) == 13
    assert bounds(lab)[1:] == [(10, 13)] * 3


async def test_D07_a_nullable_column_that_is_added_stops_nothing(lab: Lab) -> None:
    plan = await at_ten(lab)
    lab.commit(11)
    change_schema(lab, 12, "ADD COLUMNS", "n", "m")
    lab.commit(13)
    await consume(lab, plan)
    assert bounds(lab)[1:] == [(10, 13)]
    change_schema(lab, 14, "ADD COLUMNS", "n", "m", "o")
    assert (await consume(lab, plan)).run_id is None, "it holds no data"
    lab.commit(15)
    await consume(lab, plan)
    assert bounds(lab)[2:] == [(14, 15)]


async def behind(lab: Lab, newest: int, most: int | None) -> Plan:
    """A consumer that has processed version 0 of a table that is at `newest`; one run is given `most` commits."""
    plan = await plan_of(lab, max_commits_per_run=most)
    await consume(lab, plan)
    for version in range(1, newest + 1):
        lab.commit(version)
    lab.notebooks.runs.clear()
    return plan


async def test_D14_a_backlog_comes_in_pieces_each_awaited_before_the_next(lab: Lab) -> None:
    """One task is given one range: that each is awaited before the next is `max_active_runs=1`, or the open claim."""
    plan = await behind(lab, 250, 25)
    for piece in range(1, 11):
        await consume(lab, plan)
        assert (len(lab.notebooks.runs), await watermark(lab)) == (piece, piece * 25)
        assert len([run for run in await lab.runs() if run["state"]["life_cycle_state"] != "TERMINATED"]) == 0
    assert (bounds(lab)[0][0], bounds(lab)[-1][1]) == (0, 250)
    assert all(before[1] == after[0] for before, after in pairwise(bounds(lab)))
    assert (await consume(lab, plan)).run_id is None


async def test_D14_a_piece_that_fails_stops_the_way_where_it_is(lab: Lab) -> None:
    plan = await behind(lab, 50, 5)
    lab.notebooks.answers = [OK, OK, OK, failure("no")]
    for _ in range(3):
        await consume(lab, plan)
    with pytest.raises(RunFailed):
        await consume(lab, plan)
    assert await watermark(lab) == 15
    await consume(lab, plan)
    assert bounds(lab)[3:] == [(15, 20), (15, 20)], "and goes on there"


async def test_D14_without_a_cap_it_is_one_run_and_the_log_says_how_much(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    plan = await behind(lab, 50, None)
    with caplog.at_level(logging.INFO):
        await consume(lab, plan, poll_interval=timedelta(milliseconds=20))
    assert bounds(lab) == [(0, 50)]
    assert "claimed main.silver.flights (0, 50]" in caplog.text
