"""Whether the changes in a range can still be read: by logs written by hand, and by tables that delta-rs wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from .conftest import METADATA_ID, Folder, Open, append, commit

DAY = 86_400
NOON = 1_800_000_000


def configured(feed: bool | None) -> dict[str, Any]:
    settings = {} if feed is None else {"delta.enableChangeDataFeed": str(feed).lower()}
    action = {"id": METADATA_ID, "format": {"provider": "parquet"}, "schemaString": "{}", "configuration": settings}
    return {"metaData": action}


def named(operation: str, **parameters: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, "operationParameters": parameters}}


class History:
    """A log whose commits are written one after another, each at a time of the test's choice."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self.version = folder, -1

    def add(self, *actions: dict[str, Any], at: float = NOON) -> None:
        self.version += 1
        path = self.folder.write(f"{self.version:020d}.json", commit(*actions))
        os.utime(path, (at, at))


@pytest.fixture
def history(folder: Folder) -> History:
    return History(folder)


async def gap(open_log: Open, folder: Folder, from_: int, to: int) -> str | None:
    return await open_log(folder.root)[0].gap(from_, to)


async def test_a_range_that_is_all_there_has_no_gap(history: History, folder: Folder, open_log: Open) -> None:
    history.add(configured(True), append(0))
    history.add(append(1))
    history.add(append(2))
    assert await gap(open_log, folder, 0, 2) is None


async def test_D01_a_log_that_no_longer_reaches_the_watermark(folder: Folder, open_log: Open) -> None:
    folder.commits(8, 12)
    folder.checkpoint(8)
    assert await gap(open_log, folder, 7, 12) is None
    found = await gap(open_log, folder, 3, 12)
    assert found is not None
    assert found.startswith("commit 4 of main.s.t is not in the log")


@pytest.mark.parametrize(
    ("settings", "off_at"),
    [
        ([None, None, True], 1),  # enabled after the watermark
        ([True, None, False], 2),  # switched off
        ([True, False, True], 1),  # off for a while
        ([True, True, True], None),  # a change of schema writes the settings again
        ([None, None, None], None),  # never on
        ([False, False, None], None),
        ([None, True, None], None),  # enabled by the first commit after the watermark
    ],
)
async def test_the_change_feed_must_be_on_at_each_version_or_at_none(
    settings: list[bool | None], off_at: int | None, history: History, folder: Folder, open_log: Open
) -> None:
    for n, feed in enumerate(settings):
        history.add(*([configured(feed)] if n == 0 or feed is not None else []), append(n))
    found = await gap(open_log, folder, 0, 2)
    if off_at is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(f"delta.enableChangeDataFeed was off at version {off_at},")


def retained(history: History, checkpoint: int, feed: bool) -> None:
    """Commits 20 to 40, and one checkpoint: those of checkpoints are kept for a shorter time."""
    history.version = 19
    for _ in range(20, 41):
        history.add(append(history.version + 1))
    history.folder.write(f"{checkpoint:020d}.checkpoint.{METADATA_ID}.json", commit(configured(feed)))


@pytest.mark.parametrize(("checkpoint", "feed", "refused"), [(35, True, True), (24, True, False), (35, False, False)])
async def test_D02_commits_without_the_snapshot_they_start_from_are_no_change_feed(
    checkpoint: int, feed: bool, refused: bool, history: History, folder: Folder, open_log: Open
) -> None:
    retained(history, checkpoint, feed)
    log = open_log(folder.root)[0]
    assert [one.version async for one in log.commits(23, 30)] == list(range(24, 31))
    found = await log.gap(23, 40)
    assert (found is not None) is refused
    if found is not None:
        assert "as of version 24, which cannot be built any more" in found


@pytest.mark.parametrize(("watermark", "off_at"), [(2, 3), (8, 12), (13, 14), (16, None)])
async def test_D03_the_first_version_without_change_data_is_named(
    watermark: int, off_at: int | None, history: History, folder: Folder, open_log: Open
) -> None:
    """On at 5, off at 12, on at 15; 20 is the newest."""
    settings: dict[int, bool | None] = {0: None, 5: True, 12: False, 15: True}
    for version in range(21):
        history.add(*([configured(settings[version])] if version in settings else []), append(version))
    found = await gap(open_log, folder, watermark, 20)
    if off_at is None:
        assert found is None
    else:
        assert str(found).startswith(f"delta.enableChangeDataFeed was off at version {off_at},")


async def test_what_was_set_before_the_range_may_stand_in_a_checkpoint_alone(folder: Folder, open_log: Open) -> None:
    folder.commits(8, 9)
    folder.write(f"{8:020d}.checkpoint.{METADATA_ID}.json", commit(configured(True)))
    folder.write(f"{10:020d}.json", commit(configured(False), append(10)))
    found = await gap(open_log, folder, 8, 10)
    assert found is not None
    assert "off at version 10" in found


@pytest.mark.parametrize(("kept", "lost"), [(7 * DAY, True), (30 * DAY, False)])
@pytest.mark.parametrize("feed", [True, False])
async def test_a_vacuum_may_have_deleted_change_files(
    kept: int, lost: bool, feed: bool, history: History, folder: Folder, open_log: Open
) -> None:
    """Data from 8 days before the VACUUM; without a change feed the files in use stay, and the reader needs no others."""
    history.add(configured(feed), append(0), at=NOON - 20 * DAY)
    history.add(append(1), at=NOON - 8 * DAY)
    history.add(append(2), at=NOON - DAY)
    history.add(named("VACUUM START", retentionCheckEnabled="true", defaultRetentionMillis=kept * 1000))
    found = await gap(open_log, folder, 0, history.version)
    assert (found is not None) is (lost and feed)
    if found is not None:
        assert "the VACUUM of version 3" in found
        assert "version 1 is older" in found


async def test_what_was_asked_of_a_vacuum_counts_before_the_table_s_own(
    history: History, folder: Folder, open_log: Open
) -> None:
    history.add(configured(True), append(0))
    history.add(append(1), at=NOON - 8 * DAY)
    parameters = {"specifiedRetentionMillis": "0", "defaultRetentionMillis": str(30 * DAY * 1000)}
    history.add(named("VACUUM END", **parameters))
    assert await gap(open_log, folder, 0, 2) is not None


async def test_a_vacuum_before_the_data_took_nothing(history: History, folder: Folder, open_log: Open) -> None:
    history.add(configured(True), append(0))
    history.add(named("VACUUM START", defaultRetentionMillis=0), at=NOON - DAY)
    history.add(append(2))
    assert await gap(open_log, folder, 0, 2) is None


async def test_a_vacuum_that_tells_no_retention_tells_nothing(history: History, folder: Folder, open_log: Open) -> None:
    history.add(configured(True), append(0))
    history.add(append(1), at=NOON - 30 * DAY)
    history.add(named("VACUUM START", defaultRetentionMillis="soon"))
    assert await gap(open_log, folder, 0, 2) is None


async def test_a_table_that_delta_rs_wrote(tmp_path: Path, open_log: Open) -> None:
    deltalake = pytest.importorskip("deltalake")
    where, rows = str(tmp_path), pa.table({"id": [1, 2]})
    deltalake.write_deltalake(where, rows, configuration={"delta.enableChangeDataFeed": "true"})
    deltalake.write_deltalake(where, rows, mode="append")
    table = deltalake.DeltaTable(where)
    table.update(predicate="id = 1", updates={"id": "3"})
    table.create_checkpoint()
    log = open_log(tmp_path)[0]
    assert await log.gap(0, table.version()) is None
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    commits = [one async for one in log.commits(0, table.version())]
    vacuumed = next(one for one in commits if one.deletes_older_than is not None)
    assert vacuumed.deletes_older_than is not None
    assert vacuumed.deletes_older_than.total_seconds() == 0
    assert "change files may be gone" in str(await log.gap(0, table.version()))


async def test_the_setting_in_a_parquet_checkpoint_that_delta_rs_wrote(tmp_path: Path, open_log: Open) -> None:
    deltalake = pytest.importorskip("deltalake")
    where, rows = str(tmp_path), pa.table({"id": [1, 2]})
    deltalake.write_deltalake(where, rows, configuration={"delta.enableChangeDataFeed": "true"})
    deltalake.write_deltalake(where, rows, mode="append")
    table = deltalake.DeltaTable(where)
    table.create_checkpoint()
    deltalake.write_deltalake(where, rows, mode="append")
    deltalake.DeltaTable(where).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    found = await open_log(tmp_path)[0].gap(1, 3)
    assert found is not None
    assert "off at version 3" in found
