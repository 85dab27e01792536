"""The protocol and the settings that are in force decide, wherever in the log they are named, and in both directions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.delta.named import catalog_managed

from .conftest import METADATA_ID, Folder, Open, append, commit, metadata

PLAIN: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
FEATURES = ("catalogManaged", "catalogOwned-preview")


def managed(feature: str = "catalogManaged", where: str = "readerFeatures") -> dict[str, Any]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, where: [feature, "deletionVectors"]}


def configured(**settings: str) -> dict[str, Any]:
    return {"metaData": {**metadata()["metaData"], "configuration": settings}}


def first(folder: Folder, protocol: dict[str, Any], last: int = 4) -> None:
    """Commits 0 to `last`; 0 sets the protocol."""
    folder.commits(0, last)
    folder.write(f"{0:020d}.json", commit({"protocol": protocol}, metadata(), append(0)))


def parquet(folder: Folder, version: int, *parts: list[dict[str, Any]]) -> None:
    """A classic checkpoint, or a multi-part one. A part has only the columns of the actions that are in it."""
    for number, actions in enumerate(parts, start=1):
        rows = pa.Table.from_pylist([{name: action.get(name) for one in actions for name in one} for action in actions])
        part = f".{number:010d}.{len(parts):010d}" if len(parts) > 1 else ""
        pq.write_table(rows, folder.log / f"{version:020d}.checkpoint{part}.parquet")
    folder.hint(version)


def sidecars(folder: Folder, version: int, actions: list[dict[str, Any]], kind: str) -> None:
    """A V2 checkpoint whose files stand in a sidecar."""
    named = f"{version:020d}.checkpoint.{uuid.uuid4()}.{kind}"
    sidecar = {"sidecar": {"path": "a.parquet", "sizeInBytes": 1, "modificationTime": 1}}
    whole = [{"checkpointMetadata": {"version": version}}, sidecar, *actions]
    if kind == "json":
        folder.write(named, commit(*whole))
    else:
        rows = [{name: action.get(name) for one in whole for name in one} for action in whole]
        pq.write_table(pa.Table.from_pylist(rows), folder.log / named)
    folder.hint(version)


ADD: dict[str, Any] = {"add": {"path": "p9.parquet", "size": 1, "dataChange": True}}
CHECKPOINTS: dict[str, Callable[[Folder, list[dict[str, Any]]], None]] = {
    "classic": lambda folder, actions: parquet(folder, 3, [*actions, ADD]),
    "multi-part, in the first": lambda folder, actions: parquet(folder, 3, actions, [ADD]),
    "multi-part, in the last": lambda folder, actions: parquet(folder, 3, [ADD], [ADD], actions),
    "multi-part, in two": lambda folder, actions: parquet(folder, 3, *[[one] for one in actions], [ADD]),
    "V2 in JSON": lambda folder, actions: sidecars(folder, 3, actions, "json"),
    "V2 in Parquet": lambda folder, actions: sidecars(folder, 3, actions, "parquet"),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
@pytest.mark.parametrize("cleaned", [True, False], ids=["cleaned", "all commits there"])
async def test_T14_T21_a_feature_that_only_a_checkpoint_names(
    kind: str, cleaned: bool, folder: Folder, open_log: Open
) -> None:
    folder.commits(0, 5)
    CHECKPOINTS[kind](folder, [{"protocol": managed()}, metadata()])
    if cleaned:
        folder.remove(0, 3)
        with pytest.raises(InvalidArgument, match=r"main\.s\.t is catalog-managed"):
            await open_log(folder.root)[0].latest()
    else:
        folder.hint(3)
        with pytest.raises(InvalidArgument, match="catalog-managed"):
            await open_log(folder.root)[0].latest()


@pytest.mark.parametrize("kind", CHECKPOINTS)
async def test_T21_the_metadata_is_found_in_whatever_part_has_it(kind: str, folder: Folder, open_log: Open) -> None:
    folder.commits(0, 5)
    CHECKPOINTS[kind](folder, [{"protocol": PLAIN}, metadata("in the checkpoint")])
    folder.remove(0, 3)
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert (found.version, found.metadata_id) == (5, "in the checkpoint")


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("where", ["readerFeatures", "writerFeatures"])
async def test_a_feature_in_a_commit(feature: str, where: str, folder: Folder, open_log: Open) -> None:
    first(folder, managed(feature, where))
    with pytest.raises(InvalidArgument, match="catalog-managed"):
        await open_log(folder.root)[0].latest()


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("value", ["supported", "enabled"])
async def test_a_feature_that_only_the_metadata_s_settings_name(
    feature: str, value: str, folder: Folder, open_log: Open
) -> None:
    folder.commits(0, 3)
    setting = configured(**{f"delta.feature.{feature}": value})
    folder.write(f"{0:020d}.json", commit({"protocol": PLAIN}, setting, append(0)))
    with pytest.raises(InvalidArgument, match="catalog-managed"):
        await open_log(folder.root)[0].latest()
    assert catalog_managed({"properties": {f"delta.feature.{feature}": value}})


@pytest.mark.parametrize("crc", [True, False], ids=["with checksums", "without"])
async def test_at_each_look_what_is_in_force_now_decides(crc: bool, folder: Folder, open_log: Open) -> None:
    """Enabled, and dropped again, under one watch: and an old line that names the feature harms nobody later."""
    first(folder, PLAIN, 2)
    log, _ = open_log(folder.root)

    def upgrade(version: int, protocol: dict[str, Any]) -> None:
        folder.write(
            f"{version:020d}.json", commit({"commitInfo": {"operation": "ADD FEATURE"}}, {"protocol": protocol})
        )
        if crc:
            folder.write(f"{version:020d}.crc", json.dumps({"metadata": metadata()["metaData"], "protocol": protocol}))

    assert await log.latest(2) is not None
    upgrade(3, managed())
    for one in (log, log, open_log(folder.root)[0]):
        with pytest.raises(InvalidArgument, match="catalog-managed"):
            await one.latest(2)
    upgrade(4, PLAIN)
    folder.write(f"{5:020d}.json", commit(append(5)))
    for one in (log, open_log(folder.root)[0]):
        found = await one.latest(2)
        assert found is not None
        assert (found.version, found.data_version) == (5, 5)
        assert [commit.version async for commit in one.commits(2, 5)] == [3, 4, 5]


async def test_a_checkpoint_from_before_the_feature_does_not_hide_it(folder: Folder, open_log: Open) -> None:
    first(folder, PLAIN, 5)
    parquet(folder, 3, [{"protocol": PLAIN}, metadata()])
    folder.write(f"{4:020d}.json", commit({"protocol": managed()}))
    with pytest.raises(InvalidArgument, match="catalog-managed"):
        await open_log(folder.root)[0].latest()


# In-commit timestamps


def at(millis: int, *actions: dict[str, Any], operation: str = "WRITE") -> str:
    return commit({"commitInfo": {"inCommitTimestamp": millis, "operation": operation}}, *actions)


def moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


ON = {"delta.enableInCommitTimestamps": "true"}


@pytest.mark.parametrize("on", [True, False])
async def test_T20_in_commit_timestamps_decide_where_they_are_on(on: bool, folder: Folder, open_log: Open) -> None:
    """Files that were copied are as new as the copy."""
    folder.write(f"{0:020d}.json", at(1_000_000, configured(**(ON if on else {})), append(0)))
    folder.write(f"{1:020d}.json", at(2_000_000, append(1)))
    folder.write(f"{2:020d}.json", at(3_000_000, operation="OPTIMIZE"))
    log, _ = open_log(folder.root)
    found = await log.latest(0)
    assert found is not None
    assert (found.data_version, found.metadata_id) == (1, METADATA_ID)
    summaries = [one async for one in log.commits(-1, 2)]
    if on:
        assert (found.committed_at, found.data_committed_at) == (moment(3_000_000), moment(2_000_000))
        assert [one.committed_at for one in summaries] == [moment(n * 1_000_000) for n in (1, 2, 3)]
        assert [one.committed_at async for one in log.commits(0, 1)] == [moment(2_000_000)]
    else:
        times = [found.committed_at, found.data_committed_at, *(one.committed_at for one in summaries)]
        assert all(one is not None and one > moment(10**12) for one in times)


async def test_they_count_from_the_commit_that_turned_them_on(folder: Folder, open_log: Open) -> None:
    folder.write(f"{0:020d}.json", at(1_000_000, configured(), append(0)))
    folder.write(f"{1:020d}.json", at(2_000_000, configured(**ON), operation="SET TBLPROPERTIES"))
    folder.write(f"{2:020d}.json", at(3_000_000, append(2)))
    log, _ = open_log(folder.root)
    times = [one.committed_at async for one in log.commits(-1, 2)]
    assert times[1:] == [moment(2_000_000), moment(3_000_000)]
    assert times[0] is not None
    assert times[0] > moment(10**12)
    found = await log.latest()
    assert found is not None
    assert found.committed_at == moment(3_000_000)
