"""A version of a table from its log, as a sharing server needs it: the same from commits and from every kind of checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from databricks_bridge.local.server.delta_sharing_log import Action, CannotBeBuilt, Snapshot, snapshot

V2 = "00000000000000000003.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four versions of two files each; the second has put its own in the place of those of the first."""
    from deltalake import write_deltalake

    for version in range(4):
        data = pa.table({"n": [version, version + 10], "kind": ["a b", None]})
        mode = "overwrite" if version == 1 else "append"
        write_deltalake(str(tmp_path), data, mode=mode, partition_by=["kind"])
    return tmp_path


def said(found: Snapshot) -> tuple[Action, list[Action]]:
    """What matters to a reader; checkpoints write other fields of no content."""
    kept = ("path", "size", "partitionValues")
    files = [{name: file[name] for name in kept} | {"stats": json.loads(file["stats"])} for file in found.files]
    return {name: found.metadata[name] for name in ("id", "schemaString", "partitionColumns")}, files


def as_classic(log: Path, checkpoint: pa.Table) -> None:
    pq.write_table(checkpoint, log / f"{3:020d}.checkpoint.parquet")


def in_parts(log: Path, checkpoint: pa.Table) -> None:
    half = checkpoint.num_rows // 2
    for part, rows in ((1, checkpoint.slice(0, half)), (2, checkpoint.slice(half))):
        pq.write_table(rows, log / f"{3:020d}.checkpoint.{part:010d}.{2:010d}.parquet")
    # of another writer, which has not finished
    pq.write_table(checkpoint.slice(0, 1), log / f"{3:020d}.checkpoint.{1:010d}.{3:010d}.parquet")


def with_sidecar(log: Path, checkpoint: pa.Table) -> None:
    (log / "_sidecars").mkdir()
    pq.write_table(checkpoint.filter(pc.is_valid(checkpoint["add"])).select(["add"]), log / "_sidecars" / "one.parquet")
    actions: list[Action] = [{"checkpointMetadata": {"version": 3}}, {"sidecar": {"path": "one.parquet"}}]
    first = (log / f"{0:020d}.json").read_text().splitlines()
    lines = [line for line in first if "metaData" in line or "protocol" in line] + [json.dumps(one) for one in actions]
    (log / f"{V2}.json").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("write", [as_classic, in_parts, with_sidecar])
def test_it_is_the_same_from_any_checkpoint(table: Path, write: Callable[[Path, pa.Table], None]) -> None:
    from deltalake import DeltaTable

    log = table / "_delta_log"
    from_commits = said(snapshot(table, 3))
    assert len(from_commits[1]) == 6
    assert {str(file["partitionValues"]["kind"]) for file in from_commits[1]} == {"a b", "None"}
    DeltaTable(str(table)).create_checkpoint()
    made = log / f"{3:020d}.checkpoint.parquet"
    checkpoint = pq.read_table(made)
    made.unlink()
    write(log, checkpoint)
    for version in (1, 2, 3):
        (log / f"{version:020d}.json").unlink()
    assert said(snapshot(table, 3)) == from_commits
    with pytest.raises(CannotBeBuilt, match="version 2 is no longer in the log"):
        snapshot(table, 2)


def test_a_log_that_lacks_a_commit_or_is_none_tells_no_version(table: Path) -> None:
    log = table / "_delta_log"
    assert len(snapshot(table, 0).files) == 2
    (log / f"{1:020d}.json").unlink()
    with pytest.raises(CannotBeBuilt, match="version 3 is no longer in the log"):
        snapshot(table, 3)
    for content in ("not a log\n", "5\n", "{}\n", ""):
        (log / f"{0:020d}.json").write_text(content)
        with pytest.raises(CannotBeBuilt):
            snapshot(table, 0)
