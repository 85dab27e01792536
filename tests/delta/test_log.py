"""Logs written by hand: the odd ones, by the number of the reported case, and what a look costs."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from databricks_bridge.core.errors import HistoryGap, InvalidArgument, Unavailable
from databricks_bridge.delta.commits import HEAD_BYTES
from databricks_bridge.delta.model import VersionSource

from .conftest import METADATA_ID, OPTIMIZED, Clock, Folder, Open, append, commit, metadata

WARNS = "databricks_bridge.delta"


async def version_of(open_log: Open, folder: Folder) -> int | None:
    found = await open_log(folder.root)[0].latest()
    return None if found is None else found.version


@pytest.mark.parametrize(("removed", "checkpoint"), [((0, 20), 20), ((0, 25), 25)])
async def test_B01_a_log_whose_oldest_file_is_a_checkpoint(
    folder: Folder, open_log: Open, removed: tuple[int, int], checkpoint: int
) -> None:
    folder.commits(0, 25)
    folder.checkpoint(checkpoint)
    folder.remove(*removed)
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert (found.version, found.metadata_id, found.data_version) == (25, METADATA_ID, 25)
    assert (found.fingerprint is None) == (checkpoint == 25)
    assert found.committed_at is not None


async def test_B02_the_hint_names_an_older_checkpoint(folder: Folder, open_log: Open) -> None:
    folder.commits(1230, 1245)
    folder.checkpoint(1230)
    folder.checkpoint(1240)
    folder.hint(1230)
    assert await version_of(open_log, folder) == 1245


@pytest.mark.parametrize("hint", [1240, 2000])
async def test_B02_the_hint_names_what_is_not_there(
    folder: Folder, open_log: Open, hint: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder.commits(1231, 1245)
    folder.checkpoint(1230)
    folder.hint(hint)
    with caplog.at_level(logging.WARNING, WARNS):
        assert await version_of(open_log, folder) == 1245
    assert [str(hint) in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("content", [b"", b'{"version":', b'{"version": "x"}', b"[]", b"\xff"])
async def test_B03_the_hint_is_broken(
    folder: Folder, open_log: Open, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder.commits(251, 251)
    folder.checkpoint(251)
    folder.write("_last_checkpoint", content)
    folder.write("_trino_meta/x", "x")
    with caplog.at_level(logging.WARNING, WARNS):
        assert await version_of(open_log, folder) == 251
    assert len(caplog.records) == 1


async def test_B03_the_hint_has_a_byte_order_mark(folder: Folder, open_log: Open) -> None:
    folder.commits(251, 251)
    folder.checkpoint(251)
    folder.write("_last_checkpoint", b"\xef\xbb\xbf" + b'{"version": 251}')
    assert await version_of(open_log, folder) == 251


async def test_B04_an_empty_log_has_no_version(folder: Folder, open_log: Open) -> None:
    assert await version_of(open_log, folder) is None
    folder.log.rmdir()
    assert await version_of(open_log, folder) is None


async def test_B05_an_incomplete_checkpoint_is_ignored(folder: Folder, open_log: Open) -> None:
    folder.checkpoint(3)
    folder.commits(4, 7)
    folder.write(f"{5:020d}.checkpoint.{1:010d}.{2:010d}.parquet", "x")
    assert await version_of(open_log, folder) == 7
    folder.remove(4, 5)
    with pytest.raises(HistoryGap, match="4 to 5"):
        await version_of(open_log, folder)


async def test_B05_the_parts_of_two_checkpoints_do_not_make_one(folder: Folder, open_log: Open) -> None:
    folder.checkpoint(3)
    folder.commits(4, 5)
    folder.write(f"{7:020d}.checkpoint.{1:010d}.{2:010d}.parquet", "x")
    folder.write(f"{7:020d}.checkpoint.{2:010d}.{3:010d}.parquet", "x")
    assert await version_of(open_log, folder) == 5
    folder.write(f"{7:020d}.checkpoint.{2:010d}.{2:010d}.parquet", "")
    assert await version_of(open_log, folder) == 5


async def test_B06_a_checkpoint_with_a_unique_name(folder: Folder, open_log: Open) -> None:
    folder.checkpoint(10)
    folder.write("_sidecars/3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet", "x")
    folder.commits(11, 11)
    assert await version_of(open_log, folder) == 11
    folder.remove(11, 11)
    assert await version_of(open_log, folder) == 10


async def test_B09_what_others_leave_in_the_log_is_ignored(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    for name in (
        "_copy_into_log/0.zip",
        "_trino_meta/x",
        "__tmp_path_dir/x",
        "_changelog/x",
        ".DS_Store",
        "desktop.ini",
        f"{5:020d}.json/x",
        f"_staged_commits/{9:020d}.0a1b2c3d-0000-0000-0000-000000000000.json",
        f"{0:020d}.{8:020d}.compacted.json",
        f".{4:020d}.json.crc",
        f"{6:020d}.json.tmp",
    ):
        folder.write(name, "x")
    (folder.log / f"{7:020d}.json").mkdir()
    folder.write(f"{8:020d}.json", "")
    assert await version_of(open_log, folder) == 3


async def test_B15_a_copy_changes_times_and_nothing_else(folder: Folder, open_log: Open, clock: Clock) -> None:
    folder.commits(0, 29)
    log, _ = open_log(folder.root)
    before = await log.latest()
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    for file in folder.log.iterdir():
        os.utime(file, (moment.timestamp(), moment.timestamp()))
    clock.pass_(hours=1)
    after = await log.latest(29)
    assert before is not None
    assert after is not None
    assert (after.version, after.fingerprint, after.metadata_id) == (29, before.fingerprint, METADATA_ID)
    assert after.committed_at == moment
    assert after.data_version is None


async def test_B16_a_long_log_costs_one_small_read_a_poll(folder: Folder, open_log: Open) -> None:
    for version in range(5001):
        folder.write(f"{version:020d}.json", commit(append(version)))
    for version in range(100, 5001, 100):
        folder.checkpoint(version)
    folder.hint(4900)
    log, asked = open_log(folder.root)
    found = await log.latest()
    assert found is not None
    assert (found.version, found.metadata_id) == (5000, METADATA_ID)
    first = asked.take()
    assert "list from 4900" in first
    assert "list" not in first
    assert len(first) == 4  # the hint, the listing, the commit, the checkpoint
    for _ in range(3):
        assert await log.latest(5000) is not None
        assert asked.take() == ["range 5001.json"]


async def test_B18_a_folder_of_any_name(tmp_path: Path, open_log: Open) -> None:
    for name in ("a b", "100%", "x%20y", "a+b#c?d", "é😀"):
        folder = Folder(tmp_path / name)
        folder.commits(0, 1)
        assert await version_of(open_log, folder) == 1


async def test_a_new_commit_is_read_once(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    log, asked = open_log(folder.root)
    await log.latest(2)
    asked.take()
    folder.commits(4, 4)
    found = await log.latest(3)
    assert found is not None
    assert asked.take() == ["list from 0003", "range 4.json"]
    content = (folder.log / f"{4:020d}.json").read_bytes()
    assert found.fingerprint == hashlib.sha256(content).hexdigest()
    assert found.data_version == 4


async def test_maintenance_is_a_new_version_without_data(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    for version in (4, 5):
        folder.write(f"{version:020d}.json", commit(*OPTIMIZED))
    log, asked = open_log(folder.root)
    for known, data in ((3, None), (2, 3), (None, 3), (5, None), (0, 3)):
        found = await log.latest(known)
        assert found is not None
        assert (found.version, found.data_version) == (5, data), known
    asked.take()
    for version in (6, 7):
        folder.write(f"{version:020d}.json", commit(*OPTIMIZED))
        found = await log.latest(3)
        assert found is not None
        assert (found.version, found.data_version) == (version, None)
        assert asked.take() == [f"list from 000{version - 1}", f"range {version}.json"]
    folder.commits(8, 8)
    folder.write(f"{9:020d}.json", commit(*OPTIMIZED))
    for known, data in ((3, 8), (8, None), (7, 8)):
        found = await log.latest(known)
        assert found is not None
        assert (found.version, found.data_version) == (9, data)


async def test_commits_gone_behind_a_checkpoint_count_as_data(folder: Folder, open_log: Open) -> None:
    folder.checkpoint(10)
    folder.write(f"{11:020d}.json", commit(*OPTIMIZED))
    found = await open_log(folder.root)[0].latest(4)
    assert found is not None
    assert (found.version, found.data_version) == (11, 10)


async def test_a_commit_of_no_bytes_is_being_written(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 3)
    log, _ = open_log(folder.root)
    assert await log.latest() is not None
    folder.write(f"{4:020d}.json", "")
    found = await log.latest(3)
    assert found is not None
    assert found.version == 3
    folder.commits(4, 4)
    found = await log.latest(3)
    assert found is not None
    assert found.version == 4


@pytest.mark.parametrize("versions", [2, 9])
@pytest.mark.parametrize("warm", [True, False])
async def test_a_table_created_again_has_another_metadata_id(
    folder: Folder, open_log: Open, clock: Clock, versions: int, warm: bool
) -> None:
    folder.commits(0, 5)
    log, _ = open_log(folder.root)
    if warm:
        assert await log.latest(5) is not None
    shutil.rmtree(folder.root)
    again = Folder(folder.root)
    again.commits(0, versions)
    again.write(f"{0:020d}.json", commit(metadata("other"), append(0)))
    if versions < 5:
        clock.pass_(hours=1)
    found = await log.latest(5)
    assert found is not None
    assert (found.version, found.metadata_id) == (versions, "other")


async def test_a_replaced_table_has_another_metadata_id(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 5)
    log, _ = open_log(folder.root)
    await log.latest(5)
    folder.write(f"{6:020d}.json", commit(append(6), metadata("other")))
    folder.commits(7, 8)
    found = await log.latest(5)
    assert found is not None
    assert (found.version, found.metadata_id, found.data_version) == (8, "other", 8)


async def test_the_metadata_id_comes_from_the_checksum_where_there_is_one(folder: Folder, open_log: Open) -> None:
    folder.commits(1, 30)
    folder.checkpoint(0, "not read")
    folder.write(f"{30:020d}.crc", json.dumps({"metadata": {"id": "from crc"}, "protocol": {"minReaderVersion": 1}}))
    log, asked = open_log(folder.root)
    found = await log.latest(29)
    assert found is not None
    assert found.metadata_id == "from crc"
    assert asked.take() == ["get 30.crc", "list from 0029", "range 29.json", "range 30.json"]


async def test_metadata_behind_many_files_is_found(folder: Folder, open_log: Open) -> None:
    many = [append(n) for n in range(2000)]
    folder.write(f"{0:020d}.json", commit(*many, metadata("deep")))
    assert (folder.log / f"{0:020d}.json").stat().st_size > HEAD_BYTES
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert found.metadata_id == "deep"
    content = (folder.log / f"{0:020d}.json").read_bytes()[:HEAD_BYTES]
    assert found.fingerprint == hashlib.sha256(content).hexdigest()


async def test_a_catalog_managed_log_is_refused(folder: Folder, open_log: Open) -> None:
    protocol = {"protocol": {"minReaderVersion": 3, "readerFeatures": ["catalogManaged"]}}
    folder.write(f"{0:020d}.json", commit(protocol, metadata()))
    with pytest.raises(InvalidArgument, match="catalog-managed"):
        await version_of(open_log, folder)


async def test_commits_of_a_range(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 40)
    folder.write(f"{20:020d}.json", commit(*OPTIMIZED))
    log, asked = open_log(folder.root)
    assert isinstance(log, VersionSource)
    found = [(c.version, c.operation, c.carries_data) async for c in log.commits(2, 38)]
    assert found == [(v, "OPTIMIZE" if v == 20 else None, v != 20) for v in range(3, 39)]
    assert asked.take().count("list from 0003") == 1
    assert [c async for c in log.commits(5, 5)] == []


async def test_commits_that_are_gone_or_not_yet_there(folder: Folder, open_log: Open) -> None:
    folder.checkpoint(10)
    folder.commits(11, 14)
    log, _ = open_log(folder.root)
    with pytest.raises(HistoryGap, match=r"commit 9 .*\(8, 12\]"):
        [c async for c in log.commits(8, 12)]
    with pytest.raises(Unavailable, match="commit 20"):
        [c async for c in log.commits(11, 20)]
    folder.write(f"{15:020d}.json", "")
    folder.commits(16, 16)
    with pytest.raises(Unavailable, match="being written"):
        [c async for c in log.commits(11, 16)]


@pytest.mark.parametrize("every", [10, 100])
@pytest.mark.parametrize("commits", [1, 9, 10, 11, 101])
async def test_B04_a_young_table_of_either_writer(folder: Folder, open_log: Open, commits: int, every: int) -> None:
    folder.commits(0, commits - 1)
    for version in range(every, commits, every):
        folder.checkpoint(version)
        folder.hint(version)
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert (found.version, found.metadata_id) == (commits - 1, METADATA_ID)


async def test_B05_two_checkpoints_of_one_version_give_one_answer(folder: Folder, open_log: Open) -> None:
    folder.checkpoint(3)
    folder.checkpoint(3)
    folder.write(f"{3:020d}.checkpoint.{1:010d}.{1:010d}.parquet", "never read: the other kind comes first")
    answers = [await open_log(folder.root)[0].latest() for _ in range(5)]
    assert answers[0] is not None
    assert (answers[0].version, answers[0].metadata_id) == (3, METADATA_ID)
    assert answers == answers[:1] * 5


async def test_B09_foreign_entries_are_not_worth_a_warning(
    folder: Folder, open_log: Open, caplog: pytest.LogCaptureFixture
) -> None:
    folder.commits(0, 3)
    folder.write("_copy_into_log/0.zip", "x")
    folder.write("desktop.ini", "x")
    with caplog.at_level(logging.INFO, WARNS):
        assert await version_of(open_log, folder) == 3
    assert caplog.records == []


async def test_B15_times_that_go_back_change_no_version(folder: Folder, open_log: Open, clock: Clock) -> None:
    folder.commits(0, 20)
    log, _ = open_log(folder.root)
    assert await log.latest(19) is not None
    folder.commits(21, 21)
    os.utime(folder.log / f"{21:020d}.json", (0, 0))
    found = await log.latest(20)
    assert found is not None
    assert (found.version, found.data_version, found.committed_at) == (21, 21, datetime.fromtimestamp(0, UTC))
    cold = await open_log(folder.root)[0].latest(20)
    assert cold == found, "and each version comes once, whoever looks"
