"""Whether the changes in a range of versions can still be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from databricks_bridge.core.errors import HistoryGap
from databricks_bridge.delta.model import CommitSummary, Readable

READING_TAKES = timedelta(minutes=15)
"""A run that is started now reads so much later, and clocks differ."""
_SHARE_OF_RETENTION = 10


def too_old(readable: Readable, now: datetime) -> str | None:
    """Why a batch that starts now can no longer read changes from here on; None where it can.

    Delta refuses it (DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION, from Delta 4 and Databricks Runtime
    18 on), whether a VACUUM ran or not.
    """
    kept = readable.until - readable.since
    if now < readable.until - min(READING_TAKES, kept / _SHARE_OF_RETENTION):
        return None
    return (
        f"version {readable.version} was committed at {readable.since.isoformat()}, and a batch may read changes only for "
        f"delta.deletedFileRetentionDuration of the table, {kept}, after that: until {readable.until.isoformat()}. A stream is "
        'not stopped by this: say reads="stream" for this source if the consumer reads it by a stream with a checkpoint'
    )


async def _not_told() -> None:
    return None


async def gap_of(
    commits: AsyncIterator[CommitSummary], feed_before: Callable[[], Awaitable[bool | None]] = _not_told
) -> str | None:
    """Why the changes in `commits` cannot be read, None where nothing says so.

    A commit is not in the log any more; or the table records its changes, but did not at each of these versions
    (DELTA_MISSING_CHANGE_DATA); or a VACUUM has deleted files that were out of use before the newest of them, change files
    too. A table that records no changes at all is read by its files, and whatever is missing there the reader will say.
    `feed_before` tells whether changes were recorded before the first of these commits, None where it cannot; it is asked only
    where that matters.
    """
    try:
        found = [one async for one in commits]
    except HistoryGap as gap:
        return str(gap)
    if not found:
        return None
    lost = _vacuumed(found)
    if lost is None and all(one.change_data_feed is None for one in found):
        return None
    states = await _states(found, feed_before)
    if not any(states):
        return None
    if not all(states):
        off = found[states.index(False)].version
        return f"delta.enableChangeDataFeed was off at version {off}, so no changes were recorded there"
    return lost


async def _states(commits: Sequence[CommitSummary], feed_before: Callable[[], Awaitable[bool | None]]) -> list[bool]:
    """Whether changes were recorded, version by version. What nobody can tell is as what was set first in the range."""
    settings = [one.change_data_feed for one in commits]
    if settings[0] is None:
        before = await feed_before()
        settings[0] = before if before is not None else next((one for one in settings if one is not None), False)
    states: list[bool] = []
    for one in settings:
        states.append(states[-1] if one is None else one)
    return states


def _vacuumed(commits: Sequence[CommitSummary]) -> str | None:
    data = [(one.committed_at, one.version) for one in commits if one.carries_data and one.committed_at is not None]
    for one in commits:
        if one.deletes_older_than is None or one.committed_at is None or not data:
            continue
        until: datetime = one.committed_at - one.deletes_older_than
        oldest, version = min(data)
        if oldest < until:
            return (
                f"the VACUUM of version {one.version} deleted files that were out of use before {until.isoformat()}, and "
                f"version {version} is older: its change files may be gone"
            )
    return None
