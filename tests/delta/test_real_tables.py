"""Tables written by delta-rs: what its commits look like is its business, what we make of them is ours."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from databricks_bridge.delta.model import LatestVersion

from .conftest import Open

deltalake = pytest.importorskip("deltalake")
DeltaTable, write_deltalake = deltalake.DeltaTable, deltalake.write_deltalake


def rows(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_deltalake(str(tmp_path), rows(1, 2))
    return tmp_path


async def look(open_log: Open, root: Path, known: int | None = None) -> LatestVersion:
    found = await open_log(root)[0].latest(known)
    assert found is not None
    table = DeltaTable(str(root))
    assert (found.version, found.metadata_id) == (table.version(), str(table.metadata().id))
    return found


async def test_a_life_of_a_table(root: Path, open_log: Open) -> None:
    log, _ = open_log(root)
    table = str(root)
    identity = str(DeltaTable(table).metadata().id)

    async def step(known: int) -> tuple[int, int | None]:
        cold = await look(open_log, root, known)
        warm = await log.latest(known)
        assert warm == cold
        assert cold.metadata_id == identity
        return cold.version, cold.data_version

    assert await step(-1) == (0, 0)
    write_deltalake(table, rows(3), mode="append")
    assert await step(0) == (1, 1)
    write_deltalake(table, rows(4), mode="overwrite")
    assert await step(1) == (2, 2)
    write_deltalake(table, rows(5), mode="append")
    DeltaTable(table).delete("id = 4")
    assert await step(2) == (4, 4)
    write_deltalake(table, rows(6), mode="append")
    assert await step(4) == (5, 5)
    DeltaTable(table).optimize.compact()
    assert await step(5) == (6, None)
    assert await step(4) == (6, 5)
    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    version, data = await step(5)
    assert (version > 6, data) == (True, None)
    DeltaTable(table).restore(5, ignore_missing_files=True)
    assert await step(version) == (version + 1, version + 1)


async def test_operations_are_told_apart(root: Path, open_log: Open) -> None:
    table = str(root)
    write_deltalake(table, rows(3), mode="append")
    DeltaTable(table).delete("id = 99")
    DeltaTable(table).optimize.compact()
    DeltaTable(table).alter.set_table_properties({"delta.appendOnly": "false"})
    newest = DeltaTable(table).version()
    found = [(c.operation, c.carries_data) async for c in open_log(root)[0].commits(-1, newest)]
    assert found[0][1] is True
    assert found[1] == ("WRITE", True)
    assert dict(found)["OPTIMIZE"] is False
    assert dict(found)["SET TBLPROPERTIES"] is False
    if newest == 4:
        assert dict(found)["DELETE"] is False


async def test_a_checkpoint_and_a_cleaned_log(root: Path, open_log: Open) -> None:
    table = str(root)
    for n in range(12):
        write_deltalake(table, rows(n), mode="append")
    identity = str(DeltaTable(table).metadata().id)
    DeltaTable(table).create_checkpoint()
    log = root / "_delta_log"
    newest = log / f"{12:020d}.json"
    kept = newest.read_bytes()
    for version in range(13):
        (log / f"{version:020d}.json").unlink()
    for hint in (True, False):
        if not hint:
            (log / "_last_checkpoint").unlink()
        found = await open_log(root)[0].latest(5)
        assert found is not None
        assert (found.version, found.metadata_id) == (12, identity)
        assert (found.fingerprint, found.data_version) == (None, 12)
    newest.write_bytes(kept)  # delta-rs refuses to write without it
    write_deltalake(table, rows(0), mode="append")
    found = await open_log(root)[0].latest()
    assert found is not None
    assert (found.version, found.metadata_id, found.data_version) == (13, identity, 13)
    assert found.fingerprint is not None


async def test_an_overwrite_with_another_schema_keeps_the_id(root: Path, open_log: Open) -> None:
    before = await look(open_log, root)
    write_deltalake(str(root), pa.table({"other": ["x"]}), mode="overwrite", schema_mode="overwrite")
    after = await look(open_log, root, 0)
    assert (after.metadata_id, after.data_version) == (before.metadata_id, 1)
    assert deltalake.DeltaTable(str(root)).version() == 1
