"""How far back a batch may read: Delta refuses what is older than `delta.deletedFileRetentionDuration`, without any VACUUM."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest

from databricks_bridge.delta.intervals import parse_interval
from databricks_bridge.delta.model import Readable

from .conftest import METADATA_ID, Clock, Folder, Open, append, commit
from .test_history import DAY, History

RETENTION = "delta.deletedFileRetentionDuration"


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("interval 30 days", timedelta(days=30)),
        ("interval 1 week", timedelta(weeks=1)),
        ("INTERVAL '2' WEEKS", timedelta(weeks=2)),
        ("168 hours", timedelta(hours=168)),
        ("7 days", timedelta(days=7)),
        ("interval 1 day 12 hours", timedelta(days=1, hours=12)),
        ("interval 0 hours", timedelta(0)),
        ("interval 90 minutes 30 seconds", timedelta(minutes=90, seconds=30)),
        (" Interval  1.5  seconds ", timedelta(seconds=1.5)),
        ("interval 1 month", None),
        ("interval", None),
        ("soon", None),
        ("", None),
        ("interval -1 day", None),
        (None, None),
        (7, None),
    ],
)
def test_intervals_as_delta_writes_them(text: object, length: timedelta | None) -> None:
    assert parse_interval(text) == length


def settings(feed: bool = True, **more: str) -> dict[str, Any]:
    given = {"delta.enableChangeDataFeed": str(feed).lower(), **more}
    return {"metaData": {"id": METADATA_ID, "configuration": given}}


def old(history: History, clock: Clock, age_seconds: float, newest: int = 4, **more: Any) -> None:
    """Version 0 has the settings; 1 is so old, and the rest are from now."""
    now = clock().timestamp()
    history.add(settings(**more), append(0), at=now - age_seconds - DAY)
    history.add(append(1), at=now - age_seconds)
    for version in range(2, newest + 1):
        history.add(append(version), at=now)


@pytest.fixture
def history(folder: Folder) -> History:
    return History(folder)


@pytest.mark.parametrize(
    ("age", "more", "gone"),
    [
        (8 * DAY, {}, True),
        (7 * DAY + 1, {}, True),
        (7 * DAY - 60, {}, True),
        (7 * DAY - 3600, {}, False),
        (8 * DAY, {RETENTION: "interval 30 days"}, False),
        (31 * DAY, {RETENTION: "interval 30 days"}, True),
        (8 * DAY, {RETENTION: "240 hours"}, False),
        (2 * DAY, {RETENTION: "interval 1 day"}, True),
        (8 * DAY, {RETENTION: "no interval"}, True),
        (60, {RETENTION: "interval 0 hours"}, True),
        (8 * DAY, {"feed": False}, False),
    ],
    ids=[
        "older than the default",
        "a second older",
        "older before a run can read it",
        "an hour left",
        "kept for longer",
        "older than what is kept for longer",
        "kept for longer, in hours",
        "kept for shorter",
        "not readable, so the default",
        "kept for no time",
        "no change feed",
    ],
)
async def test_T63_a_range_that_starts_too_far_back(
    age: float, more: dict[str, Any], gone: bool, history: History, folder: Folder, open_log: Open, clock: Clock
) -> None:
    old(history, clock, age, **more)
    log = open_log(folder.root)[0]
    found = await log.gap(0, 4)
    assert (found is not None) is gone
    if found is not None:
        assert found.startswith("version 1 was committed at 2026-")
        assert 'say reads="stream"' in found
    assert await log.gap(0, 4, stream=True) is None


async def test_the_newest_version_can_always_be_read(
    history: History, folder: Folder, open_log: Open, clock: Clock
) -> None:
    old(history, clock, 90 * DAY, newest=1)
    assert await open_log(folder.root)[0].gap(0, 1) is None


async def test_the_newest_settings_count(history: History, folder: Folder, open_log: Open, clock: Clock) -> None:
    old(history, clock, 20 * DAY)
    log = open_log(folder.root)[0]
    assert await log.gap(0, 4) is not None
    history.add(settings(**{RETENTION: "interval 60 days"}), at=clock().timestamp())
    await log.latest(4)
    clock.pass_(minutes=10)
    await log.latest(4)
    assert await log.gap(0, 5) is None


async def test_the_commit_s_own_time_counts_where_it_does(
    history: History, folder: Folder, open_log: Open, clock: Clock
) -> None:
    """A table whose files were copied today is as old as its commits say."""
    now = clock().timestamp()
    ten_days_ago = int((now - 10 * DAY) * 1000)
    history.add(settings(**{"delta.enableInCommitTimestamps": "true"}), append(0), at=now)
    for version in range(1, 4):
        info = {"commitInfo": {"operation": "WRITE", "inCommitTimestamp": ten_days_ago + version}}
        path = folder.write(f"{version:020d}.json", commit(info, append(version)))
        os.utime(path, (now, now))
    log = open_log(folder.root)[0]
    assert "version 1 was committed at" in str(await log.gap(0, 3))
    readable = await log.readable_until(0)
    assert readable is not None
    assert (readable.until - readable.since) == timedelta(days=7)


def test_how_much_of_the_time_has_passed(clock: Clock) -> None:
    now = clock()
    readable = Readable(version=1, since=now, until=now + timedelta(days=10))
    shares = [readable.share(now + timedelta(days=days)) for days in (-1, 0, 5, 8, 10, 30)]
    assert shares == [0, 0, 0.5, 0.8, 1, 1]
