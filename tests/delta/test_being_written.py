"""Files that are still being written, or were cut: they are waited for, named when that takes long, and never believed."""

from __future__ import annotations

import logging
import os

import pytest

from databricks_bridge.core.errors import BadAnswer, Unavailable
from databricks_bridge.delta.commits import HEAD_BYTES

from .conftest import METADATA_ID, Clock, Folder, Open, append, commit, metadata

WHOLE = commit({"commitInfo": {"operation": "WRITE", "timestamp": 1}}, append(1), append(2)).encode()
LARGE = commit({"commitInfo": {"operation": "WRITE"}}, *[append(n) for n in range(5000)]).encode()

CUT = {
    "no bytes": b"",
    "a lone newline": b"\n",
    "NUL bytes": b"\0" * 200,
    "NUL bytes at the end": WHOLE[:60] + b"\0" * (len(WHOLE) - 60),
    "cut in the first line": WHOLE[:20],
    "cut in the last line": WHOLE[:-5],
    "cut in a middle line": WHOLE[: WHOLE.index(b"\n") + 8],
    "a large one, cut in its last line": LARGE[:-5],
    "a large one, NUL bytes at the end": LARGE[:-300] + b"\0" * 300,
}


def name(version: int) -> str:
    return f"{version:020d}.json"


@pytest.mark.parametrize("what", CUT)
@pytest.mark.parametrize("steady", [True, False], ids=["steady", "first look"])
async def test_T12_a_commit_that_is_not_whole_is_waited_for(
    what: str, steady: bool, folder: Folder, open_log: Open, clock: Clock
) -> None:
    folder.commits(0, 2)
    log, _ = open_log(folder.root)
    if steady:
        await log.latest(2)
    folder.write(name(3), CUT[what])
    for _ in range(2):
        found = await log.latest(2)
        assert found is not None
        assert (found.version, found.data_version) == (2, None)
        clock.pass_(seconds=30)
    with pytest.raises(Unavailable, match=r"commit 3 of main\.s\.t .*is being written"):
        assert [one async for one in log.commits(2, 3)]
    folder.write(name(3), LARGE if what.startswith("a large") else WHOLE)
    found = await log.latest(2)
    assert found is not None
    assert (found.version, found.data_version) == (3, 3)
    again = await open_log(folder.root)[0].latest(3)
    assert again is not None
    assert again.fingerprint == found.fingerprint, "what was cut was never remembered"


async def test_a_whole_commit_without_a_last_newline_counts(folder: Folder, open_log: Open) -> None:
    """As delta-rs writes it."""
    folder.commits(0, 2)
    folder.write(name(3), WHOLE.rstrip(b"\n"))
    folder.write(name(4), LARGE.rstrip(b"\n"))
    found = await open_log(folder.root)[0].latest(2)
    assert found is not None
    assert (found.version, found.data_version) == (4, 4)
    assert len(LARGE) > 2 * HEAD_BYTES


@pytest.mark.parametrize("what", ["no bytes", "cut in the last line", "NUL bytes"])
async def test_one_that_stays_so_is_named_with_its_age(
    what: str, folder: Folder, open_log: Open, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    folder.commits(0, 2)
    path = folder.write(name(3), CUT[what])
    log, _ = open_log(folder.root)
    written = clock().timestamp()
    os.utime(path, (written, written))
    caplog.set_level(logging.WARNING)
    await log.latest(2)
    assert caplog.messages == []
    clock.pass_(minutes=12)
    for _ in range(3):
        found = await log.latest(2)
        assert found is not None
        assert found.version == 2
        clock.pass_(seconds=30)
    [said] = caplog.messages
    assert (
        f"commit 3 of main.s.t (_delta_log/{name(3)}, {len(CUT[what])} bytes, since 2026-11-29T12:00:00+00:00)" in said
    )
    assert "for 0:12:00" in said


async def test_the_watermark_s_own_commit_cut_is_no_other_table(folder: Folder, open_log: Open, clock: Clock) -> None:
    """It was whole when it was processed, and is copied anew now, say by a tool that restores a bucket."""
    folder.commits(0, 3)
    log, _ = open_log(folder.root)
    await log.latest(3)
    folder.write(name(3), b'{"add"')
    clock.pass_(hours=2)
    for one in (log, open_log(folder.root)[0]):
        with pytest.raises(Unavailable, match=r"commit 3 of main\.s\.t .* is being written"):
            await one.latest(3)


async def test_a_cut_checkpoint_is_not_believed(folder: Folder, open_log: Open) -> None:
    folder.commits(0, 4)
    folder.write(f"{3:020d}.checkpoint.{METADATA_ID}.json", commit(metadata("other"))[:-9])
    folder.hint(3)
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert (found.version, found.metadata_id) == (4, METADATA_ID)


@pytest.mark.parametrize("content", [b"PAR1\0\0", b"PAR1" + b"\0" * 500])
async def test_a_cut_parquet_checkpoint_is_not_believed(content: bytes, folder: Folder, open_log: Open) -> None:
    folder.commits(0, 4)
    path = folder.write(f"{3:020d}.checkpoint.parquet", content)
    folder.hint(3)
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert (found.version, found.metadata_id) == (4, METADATA_ID)
    folder.remove(0, 3)
    with pytest.raises(BadAnswer, match=path.name):
        await open_log(folder.root)[0].latest()


@pytest.mark.parametrize("hint", [b"", b"\0" * 40, b'{"version": 3, "si', b'{"version": true}', b"[]", b'"3"'])
async def test_a_cut_hint_costs_a_listing(hint: bytes, folder: Folder, open_log: Open) -> None:
    folder.commits(0, 4)
    folder.checkpoint(3)
    folder.write("_last_checkpoint", hint)
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert found.version == 4


@pytest.mark.parametrize("content", [b"", b"\0" * 30, b'{"metadata": {"id'])
async def test_a_cut_checksum_is_not_believed(content: bytes, folder: Folder, open_log: Open) -> None:
    folder.commits(0, 4)
    folder.write(f"{4:020d}.crc", content)
    found = await open_log(folder.root)[0].latest()
    assert found is not None
    assert found.metadata_id == METADATA_ID
