"""The control-table keep, by SQL over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from databricks_bridge.core.errors import InvalidArgument, LedgerError, Unavailable, WriteLost
from databricks_bridge.core.positions import RunsPosition
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.control_table import ControlTableKeep
from databricks_bridge.workspace.client import Workspace
from databricks_bridge.workspace.statements import Warehouse
from tests.core.builders import NOW, at
from tests.ledgers.warehouse import FakeWarehouse, client, serve

FIRST = Record("delays", "consumer", {"flights": at(3), "weather": at(7), "by_file": RunsPosition(9)}).after(
    NOW, "started"
)


@pytest.fixture
async def warehouse() -> AsyncIterator[FakeWarehouse]:
    async with serve() as warehouse:
        yield warehouse


@pytest.fixture
async def workspace(warehouse: FakeWarehouse) -> AsyncIterator[Workspace]:
    async with client(warehouse) as workspace:
        yield workspace


def keep_of(workspace: Workspace) -> ControlTableKeep:
    async def open_warehouse() -> Warehouse:
        return Warehouse(workspace, "wh-1", sleep=no_pause)

    return ControlTableKeep(open_warehouse, "lake.bridge")


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


def watermarks(warehouse: FakeWarehouse) -> dict[str, int]:
    rows = warehouse.sql("SELECT job, source, last_version FROM lake.bridge.job_watermarks")
    assert {job for job, _, _ in rows} <= {"delays"}
    assert all(updated for (updated,) in warehouse.sql("SELECT updated_at FROM lake.bridge.job_watermarks"))
    return {source: version for _, source, version in rows}


async def test_records_are_written_and_read_by_sql(warehouse: FakeWarehouse, workspace: Workspace) -> None:
    keep = keep_of(workspace)
    ledger = keep.ledger("delays")
    assert await ledger.read() is None
    await ledger.write(FIRST)
    assert await keep_of(workspace).ledger("delays").read() == FIRST
    assert watermarks(warehouse) == {"flights": 3, "weather": 7}, "the runs of a job have no version"
    second = FIRST.after(NOW, 'it\'s "again"; DROP :name', watermarks={**FIRST.watermarks, "flights": at(4)})
    await ledger.write(second)
    assert await ledger.read() == second
    assert watermarks(warehouse) == {"flights": 4, "weather": 7}
    assert await keep.names() == ["delays"]
    assert [one.what for one in await ledger.history(1)] == ['it\'s "again"; DROP :name']


async def test_what_a_notebook_wrote_is_read(warehouse: FakeWarehouse, workspace: Workspace) -> None:
    keep = keep_of(workspace)
    assert await keep.kept_watermarks("delays") == {}
    warehouse.sql(
        "INSERT INTO lake.bridge.job_watermarks VALUES ('delays', 'flights', 12, now()), ('x', 'flights', 3, now())"
    )
    assert await keep.kept_watermarks("delays") == {"flights": 12}


async def test_a_rewind_is_shown_in_the_watermarks_too(warehouse: FakeWarehouse, workspace: Workspace) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    await ledger.write(FIRST.after(NOW, "rewound", watermarks={"flights": at(1)}))
    assert watermarks(warehouse)["flights"] == 1


@pytest.mark.parametrize("revision", [0, 1, 3])
async def test_only_the_next_revision_is_taken(workspace: Workspace, revision: int) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    with pytest.raises(WriteLost):
        await ledger.write(replace(FIRST, revision=revision))
    assert await ledger.read() == FIRST


async def test_two_writers_at_once_one_wins(workspace: Workspace) -> None:
    await keep_of(workspace).ledger("delays").write(FIRST)
    ours = [FIRST.after(NOW, f"writer {n}") for n in range(4)]
    ended = await asyncio.gather(
        *(keep_of(workspace).ledger("delays").write(one) for one in ours), return_exceptions=True
    )
    assert [type(one) for one in ended].count(type(None)) == 1
    assert [type(one) for one in ended].count(WriteLost) == 3
    won = await keep_of(workspace).ledger("delays").read()
    assert won == ours[ended.index(None)]


async def test_an_answer_lost_after_the_write_is_a_success(warehouse: FakeWarehouse, workspace: Workspace) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    warehouse.lose = "MERGE INTO `lake`.`bridge`.job_claims"
    second = FIRST.after(NOW, "again")
    await ledger.write(second)
    assert sum("job_claims" in one and "MERGE" in one for one in warehouse.statements) == 3, "first, lost, again"
    assert await ledger.read() == second


async def test_a_conflict_that_wrote_nothing_is_an_error_with_the_warehouses_words(
    warehouse: FakeWarehouse, workspace: Workspace
) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    warehouse.refuse = "MERGE INTO `lake`.`bridge`.job_claims"
    with pytest.raises(LedgerError, match="DELTA_CONCURRENT_APPEND") as raised:
        await ledger.write(FIRST.after(NOW, "again"))
    assert not isinstance(raised.value, WriteLost)
    await ledger.write(FIRST.after(NOW, "again"))


async def test_a_write_that_died_before_the_watermarks_is_made_good_by_the_next(
    warehouse: FakeWarehouse, workspace: Workspace
) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    warehouse.refuse = "MERGE INTO `lake`.`bridge`.job_watermarks"
    second = FIRST.after(NOW, "to 4", watermarks={"flights": at(4)})
    with pytest.raises(LedgerError):
        await ledger.write(second)
    assert await ledger.read() == second, "the record is the truth"
    assert watermarks(warehouse)["flights"] == 3
    await ledger.write(second.after(NOW, "next"))
    assert watermarks(warehouse)["flights"] == 4


async def test_statements_that_wait_and_answers_in_chunks(warehouse: FakeWarehouse, workspace: Workspace) -> None:
    warehouse.slow, warehouse.chunk_rows = True, 2
    keep = keep_of(workspace)
    for name in ("a", "b", "c", "d", "e"):
        await keep.ledger(name).write(replace(FIRST, subscription=name))
    assert await keep.names() == ["a", "b", "c", "d", "e"]


async def test_a_warehouse_that_does_not_come_up_is_not_a_lost_write(
    warehouse: FakeWarehouse, workspace: Workspace
) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    warehouse.refuse = "SELECT revision"
    with pytest.raises(LedgerError, match="control tables cannot be used: 'SELECT revision"):
        await ledger.read()
    warehouse.slow = warehouse.never = True
    with pytest.raises(Unavailable, match=r"did not end in 600 s \(state PENDING\)"):
        await ledger.write(FIRST.after(NOW, "again"))


async def test_doubled_rows_are_an_error(warehouse: FakeWarehouse, workspace: Workspace) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    warehouse.sql("INSERT INTO lake.bridge.job_claims SELECT * FROM lake.bridge.job_claims")
    with pytest.raises(LedgerError, match="has 2 rows for 'delays'"):
        await ledger.read()


async def test_a_row_that_holds_no_record_is_an_error(warehouse: FakeWarehouse, workspace: Workspace) -> None:
    ledger = keep_of(workspace).ledger("delays")
    await ledger.write(FIRST)
    warehouse.sql("UPDATE lake.bridge.job_claims SET record = 'x'")
    with pytest.raises(LedgerError, match="does not hold a record"):
        await ledger.read()


@pytest.mark.parametrize("schema", ["main", "a.b.c", "a.b;drop", "a.`b`", ".b", "a."])
def test_a_schema_that_is_none_is_refused(schema: str, workspace: Workspace) -> None:
    with pytest.raises(InvalidArgument, match=r"give catalog\.schema"):
        ControlTableKeep(keep_of(workspace)._open, schema)
