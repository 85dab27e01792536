"""When data was committed, where commits without data came after it; and the sensor that waits for data since then."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.feeds.versions import Wanted, moved

from .conftest import OPTIMIZED, Clock, Folder, Open, append, commit, metadata

TABLE = DeltaTable("main.s.t")
MAINTENANCE: dict[str, list[dict[str, Any]]] = {
    "OPTIMIZE": OPTIMIZED,
    "VACUUM": [{"commitInfo": {"operation": "VACUUM END"}}],
    "properties": [{"commitInfo": {"operation": "SET TBLPROPERTIES"}}, metadata()],
    "a DELETE that matched nothing": [{"commitInfo": {"operation": "DELETE"}}],
}


def write(folder: Folder, version: int, at: datetime, *actions: dict[str, Any]) -> None:
    path = folder.write(f"{version:020d}.json", commit(*actions))
    os.utime(path, (at.timestamp(), at.timestamp()))


@pytest.mark.parametrize("what", MAINTENANCE)
@pytest.mark.parametrize("steady", [True, False], ids=["steady", "first look"])
async def test_T05_maintenance_after_since_is_no_new_data(
    what: str, steady: bool, folder: Folder, open_log: Open, clock: Clock
) -> None:
    since = clock()
    write(folder, 0, since - timedelta(hours=2), metadata(), append(0))
    write(folder, 1, since - timedelta(hours=1), append(1))
    log, _ = open_log(folder.root)
    wanted = Wanted(None, since)
    if steady:
        assert await moved(log, TABLE, wanted) is None
    for version in (2, 3):
        write(folder, version, since + timedelta(minutes=version), *MAINTENANCE[what])
        assert await moved(log, TABLE, wanted) is None
    write(folder, 4, since + timedelta(minutes=4), append(4))
    write(folder, 5, since + timedelta(minutes=50), *MAINTENANCE[what])
    found = await moved(log, TABLE, wanted)
    assert found is not None
    assert (found["version"], found["data_version"]) == (5, 4)
    assert found["committed_at"] == (since + timedelta(minutes=4)).isoformat()


@pytest.mark.parametrize("known", [None, 0, 1])
async def test_each_who_asks_is_told_the_time_of_the_data(
    known: int | None, folder: Folder, open_log: Open, clock: Clock
) -> None:
    day = datetime(2026, 11, 1, tzinfo=UTC)
    for version in range(3):
        write(folder, version, day + timedelta(days=version), *([metadata()] if not version else []), append(version))
    for version in range(3, 30):
        write(folder, version, day + timedelta(days=version), *OPTIMIZED)
    log, _ = open_log(folder.root)
    await log.latest(29)
    for one in (log, open_log(folder.root)[0]):
        found = await one.latest(known)
        assert found is not None
        assert (found.version, found.data_version) == (29, 2)
        assert found.data_committed_at == day + timedelta(days=2)
        assert found.committed_at == day + timedelta(days=29)
    nothing = await log.latest(2)
    assert nothing is not None
    assert (nothing.data_version, nothing.data_committed_at) == (None, None)
