"""What is known of a table's newest version, and who can be asked for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True, slots=True)
class LatestVersion:
    """The newest version of a Delta table, and the identity of the table that has it.

    `table_id` is Unity Catalog's id, None where no catalog was asked. `metadata_id` is the id in the newest
    `metaData` action: CREATE OR REPLACE changes it. `fingerprint` is the sha256 hex of the first 64 KiB of the
    commit file, None when only a checkpoint proves the version. `committed_at` is its in-commit timestamp
    where the table has these, else the store's own last-modified time of that file. `data_version` is the newest version above the `known` of the question whose commit
    carries data; None when no commit above it does, so that OPTIMIZE and VACUUM start nothing. `data_committed_at` is the
    time of that commit, which may be long before `committed_at`; None where it is not known. `known_fingerprint`
    is the fingerprint that commit `known` has in the log now: another one than it had says that another log stands
    in its place; None where it was not asked for, is cleaned away, or cannot be read by this kind of source.
    """

    version: int
    table_id: str | None = None
    metadata_id: str | None = None
    fingerprint: str | None = None
    committed_at: datetime | None = None
    data_version: int | None = None
    data_committed_at: datetime | None = None
    known_fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class CommitSummary:
    """One commit, as far as its first 64 KiB tell. `operation` is None where the writer left commitInfo out.

    `change_data_feed` is what the commit's metaData sets it to, None where it has none. `deletes_older_than` is the retention
    of a VACUUM: files that were out of use for longer are gone.
    """

    version: int
    operation: str | None
    carries_data: bool
    committed_at: datetime | None = None
    change_data_feed: bool | None = None
    deletes_older_than: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class Readable:
    """Changes from `version` on, which was committed at `since`, can be read by a batch until `until`."""

    version: int
    since: datetime
    until: datetime

    def share(self, now: datetime) -> float:
        """How much of that time has passed, from 0 to 1."""
        length = (self.until - self.since).total_seconds()
        return 1.0 if length <= 0 else min(1.0, max(0.0, (now - self.since).total_seconds() / length))


@runtime_checkable
class VersionSource(Protocol):
    """Something that knows the versions of one table."""

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """The newest version; None when the table has no commit yet.

        `known` is the last version the caller knows, exclusive for `data_version` and the place to list from.
        Raises NotFound, NotPermitted, NotAuthenticated, Unavailable, HistoryGap.
        """
        ...

    def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """The commits in (from_exclusive, to_inclusive], oldest first: `commits(3, 5)` yields 4 and 5.

        Raises HistoryGap when one of them is no longer in the log.
        """
        ...

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        """Why the changes in (from_exclusive, to_inclusive] cannot be read any more; None where nothing says so.

        With `stream` they are read by a stream, which Delta lets read what is too old for a batch.
        """
        ...


@runtime_checkable
class Ages(Protocol):
    """A source of versions that tells how long what is new can still be read."""

    async def readable_until(self, from_exclusive: int) -> Readable | None:
        """Until when a batch may read changes from the commit after `from_exclusive` on; None where nothing ends it."""
        ...
