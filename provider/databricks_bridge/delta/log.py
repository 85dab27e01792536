"""A table's newest version, read from its `_delta_log`.

The steady poll is one small read of the next commit: absent means nothing new. Object stores charge a listing about
twelve times a read, so the log is listed only at the first look, each hour, after a pause, when the read found
something or was refused, and for a `known` that is further than what was seen. A version is reported only when a
reader could build it: from a complete checkpoint, or from version 0, without a gap. The hint in `_last_checkpoint`
may save a long first listing and is believed in nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from databricks_bridge.core.checkpoint import FileCounts
from databricks_bridge.core.errors import HistoryGap, Unavailable
from databricks_bridge.delta import counting
from databricks_bridge.delta.files import Files, Listed
from databricks_bridge.delta.history import gap_of, too_old
from databricks_bridge.delta.look import Look
from databricks_bridge.delta.metadata import InForce, Metadata, from_checksum
from databricks_bridge.delta.model import CommitSummary, LatestVersion, Readable
from databricks_bridge.delta.names import commit_path, offset
from databricks_bridge.delta.segment import Segment, collect, collect_commits, collect_to_build
from databricks_bridge.delta.turn import Turn

if TYPE_CHECKING:
    from obstore.store import ObjectStore

log = logging.getLogger(__name__)

_READS_AT_ONCE = 16
LIST_EVERY = timedelta(hours=1)
"""The log is listed at least so often, however steady the polls: a cleaned or re-created log shows in no read."""
PAUSE = timedelta(minutes=5)
"""No look for so long, and the next one lists."""
_MARKS = 8
_LISTED_MAX = 2000
"""So many files after the version that is known, and the end of the log is looked for from its last checkpoint instead."""
_REACH = 100
"""How far before a version its checkpoint is looked for first; writers make one every 10 commits, by default."""


_NEVER = datetime.min.replace(tzinfo=UTC)
_NO_MARKS: Mapping[int, str | None] = MappingProxyType({})
"""One for all tables."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """What the looks so far have found. `tag` is the one of the file that proves `latest.version`.

    Commits from `scanned_from` to the newest are classified, and `data_version` is the newest of them with data, which
    was committed at `data_at`. `in_force` is the table's metadata and protocol. `marks` are fingerprints of commits that callers may ask about again.
    """

    latest: LatestVersion
    tag: str
    data_version: int | None
    scanned_from: int
    in_force: InForce
    data_at: datetime | None = None
    marks: Mapping[int, str | None] = field(default_factory=lambda: _NO_MARKS)


class DeltaLog:
    """The log of one table; a VersionSource.

    `open_store` gives the store, rooted at the table's folder, for each look: a closure can renew its credentials.
    `where` names the table in messages; `table_id` is passed on in the answers. `now` (aware) is injected for tests.
    """

    __slots__ = (
        "_listed_at",
        "_looked_at",
        "_now",
        "_open_store",
        "_seen",
        "_table_id",
        "_warned_at",
        "_where",
        "over",
    )

    def __init__(
        self,
        open_store: Callable[[], Awaitable[ObjectStore]],
        where: str,
        *,
        table_id: str | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._open_store, self._where, self._table_id, self._now = open_store, where, table_id, now
        self._seen: _Seen | None = None
        self._listed_at = self._looked_at = self._warned_at = _NEVER
        self.over: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"DeltaLog({self._where!r})"

    async def _look(self) -> Look:
        return Look(Files(await self._open_store(), self._where), self._now)

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """See `VersionSource.latest`."""
        async with Turn(self):
            look = await self._look()
            now, seen = self._now(), self._seen
            if seen is None or not self._steady(seen, known, now) or not await look.absent(seen.latest.version + 1):
                seen = self._seen = await self._list(look, known)
                self._listed_at = now
            self._looked_at = now
            if seen is None:
                return None
            above = -1 if known is None else known
            if seen.data_version is None and seen.scanned_from > above + 1:
                data = await look.newest_data(seen.scanned_from - 1, above=above)
                seen = replace(
                    seen,
                    data_version=data,
                    data_at=None if data is None else await self._data_at(look, seen, data),
                    scanned_from=above + 1 if data is None else data,
                )
            if 0 <= above < seen.latest.version and above not in seen.marks:
                await look.head(above)
                seen = _marked(seen, above, look.fingerprints.get(above))
            news = seen.data_version if seen.data_version is not None and seen.data_version > above else None
            mark = seen.latest.fingerprint if above == seen.latest.version else seen.marks.get(above)
            answer = replace(
                seen.latest,
                data_version=news,
                data_committed_at=None if news is None else seen.data_at,
                known_fingerprint=mark,
            )
            if answer != seen.latest:
                # what each answer has of its own is kept too: the next one is mostly the same, and then one object
                seen = replace(seen, latest=answer)
            self._seen = seen
            return seen.latest

    async def _data_at(self, look: Look, seen: _Seen, version: int) -> datetime | None:
        """When the newest data was committed, which is not when the newest commit was."""
        if version == seen.latest.version:
            return seen.latest.committed_at
        return await look.committed_at(version, _in_commit(seen.in_force))

    def _steady(self, seen: _Seen, known: int | None, now: datetime) -> bool:
        """Whether reading the next commit is enough. A clock that went back tells nothing, so it is not."""
        if known is not None and known > seen.latest.version:
            return False
        zero = timedelta(0)
        return zero <= now - self._looked_at < PAUSE and zero <= now - self._listed_at < LIST_EVERY

    async def _list(self, look: Look, known: int | None) -> _Seen | None:
        segment = await self._segment(look, known)
        version, seen = segment.latest, self._seen
        if known is not None and segment.being_written and (version is None or version < known):
            raise Unavailable(f"{look.being_written(max(segment.being_written))}; look again")
        if version is None:
            return None
        proof = _proof(segment, version)
        if seen is None or seen.latest.version != version or proof is None:
            return await self._study(look, segment, version, seen)
        if _in_commit(seen.in_force):
            return replace(seen, tag=proof.tag)
        data_at = proof.modified if seen.data_version == version else seen.data_at
        return replace(seen, latest=replace(seen.latest, committed_at=proof.modified), data_at=data_at, tag=proof.tag)

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """See `VersionSource.commits`."""
        if to_inclusive <= from_exclusive:
            return
        look = await self._look()
        await self._list_range(look, from_exclusive, to_inclusive)
        there, in_commit = look.listed.commits, None
        wanted = range(from_exclusive + 1, to_inclusive + 1)
        for start in range(0, len(wanted), _READS_AT_ONCE):
            batch = wanted[start : start + _READS_AT_ONCE]
            for version, head in zip(batch, await asyncio.gather(*map(look.head, batch)), strict=True):
                if head is None:
                    raise HistoryGap(f"commit {version} of {self._where} was removed from the log just now; look again")
                if head.cut or (version == to_inclusive and await look.is_cut(version)):
                    raise Unavailable(f"{look.being_written(version)}; look again")
                if head.metadata is not None:
                    in_commit = head.metadata.in_commit_timestamps
                if head.in_commit_at is not None and in_commit is None:
                    in_force = await self._in_force(version)
                    in_commit = in_force is not None and in_force.in_commit_timestamps
                yield CommitSummary(
                    version=version,
                    operation=head.operation,
                    carries_data=head.carries_data,
                    committed_at=(head.in_commit_at if in_commit else None) or there[version].modified,
                    change_data_feed=head.metadata.change_data_feed if head.metadata else None,
                    deletes_older_than=head.deletes_older_than,
                )

    async def _list_range(self, look: Look, from_exclusive: int, to_inclusive: int) -> None:
        """List the commits of a range, no further than that. Raises Unavailable, HistoryGap.

        What a listing from an offset leaves out is believed to be gone only when a read says so too: there are stores that leave
        out names which begin with the offset.
        """
        first = from_exclusive + 1
        look.listed = await collect_commits(look.files.list(offset(first)), first, to_inclusive)
        if (lacking := self._lacking(look.listed, first, to_inclusive)) is None:
            return
        if not await look.absent(lacking):
            look.listed = await collect(look.files.list(None))
            if (lacking := self._lacking(look.listed, first, to_inclusive)) is None:
                return
        newest = look.listed.latest
        if newest is None or newest < to_inclusive:
            raise Unavailable(f"commit {to_inclusive} of {self._where} is not in the log, at least not yet; look again")
        raise HistoryGap(
            f"commit {lacking} of {self._where} is not in the log, and ({from_exclusive}, {to_inclusive}] was "
            "asked for; log retention may have removed it: rebuild from the table, or adopt the newest version"
        )

    def _lacking(self, listed: Segment, first: int, last: int) -> int | None:
        """The first of these commits that was not listed. Raises Unavailable for one that is being written."""
        for version in range(first, last + 1):
            if version in listed.being_written:
                raise Unavailable(f"commit {version} of {self._where} is being written; look again")
            if version not in listed.commits:
                return version
        return None

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        """See `VersionSource.gap`."""
        gap = await gap_of(self.commits(from_exclusive, to_inclusive), lambda: self._feed_at(from_exclusive))
        if gap is None and not stream and (readable := await self.readable_until(from_exclusive)) is not None:
            gap = too_old(readable, self._now())
        start = from_exclusive + 1
        if gap is None and not await self._can_build(start) and await self._feed_at(to_inclusive):
            return (
                f"the change feed is read from the table as of version {start}, which cannot be built any more: no "
                "complete checkpoint at or before it is in the log"
            )
        return gap

    async def readable_until(self, from_exclusive: int) -> Readable | None:
        """See `Ages.readable_until`: as long as the table keeps deleted files, by its newest settings."""
        if self._seen is None:
            await self.latest()
        seen, start = self._seen, from_exclusive + 1
        settings = None if seen is None else seen.in_force.metadata
        if seen is None or settings is None or not settings.change_data_feed or start >= seen.latest.version:
            return None
        look = await self._look()
        since = await look.committed_at(start, settings.in_commit_timestamps)
        if since is None:
            return None
        try:
            return Readable(version=start, since=since, until=since + settings.deleted_file_retention)
        except OverflowError:
            return None

    async def commit_files(self, version: int) -> FileCounts | None:
        """See `core.checkpoint.TableFiles`."""
        return await counting.commit_files(Files(await self._open_store(), self._where), commit_path(version))

    async def snapshot_files(self, version: int) -> int | None:
        """See `core.checkpoint.TableFiles`."""
        return await counting.snapshot_files(Files(await self._open_store(), self._where), version)

    async def _can_build(self, version: int) -> bool:
        """Whether a reader can build the table as of `version`, listing back no further than to the checkpoint it needs."""
        files, reach = Files(await self._open_store(), self._where), _REACH
        while True:
            from_start = reach > version
            listed = files.list(None if from_start else offset(version - reach))
            segment = await collect_to_build(listed, version, from_start=from_start)
            if segment.builds(version, from_start=from_start):
                return True
            if from_start:
                return False
            # where the checkpoint is there, only the whole listing may say that a commit after it is gone
            reach = reach * 8 if segment.base(version) is None else version + 1

    async def _feed_at(self, version: int) -> bool | None:
        """Whether changes were recorded at `version`; None where the log does not reach back to what says so."""
        found = await self._in_force(version)
        return found.change_data_feed if found else None

    async def _in_force(self, version: int) -> Metadata | None:
        """The metadata in force at `version`; None where the log does not reach back to it."""
        look = await self._look()
        checksum = await from_checksum(look.files, version) if version >= 0 else None
        if checksum is not None:
            return checksum.metadata
        look.listed = await collect(look.files.list(None))
        return (await look.in_force(version, down_to=-1)).metadata

    async def _segment(self, look: Look, known: int | None) -> Segment:
        """The end of the log, from the version last seen if that is still the same file, else from a checkpoint."""
        seen = self._seen
        base = seen.latest.version if seen is not None else known
        segment: Segment | None
        if base is not None:
            segment = await (look.list(base) if seen is not None else look.list_at_most(base, _LISTED_MAX))
        else:
            segment = None
        if base is not None and segment is not None:
            proof = _proof(segment, base)
            if seen is None:
                good = proof is not None or bool(segment.checkpoints)
            else:
                good = proof is not None and proof.tag == seen.tag
            if good and segment.missing(base) is None:
                await self._settle(look, whole=base if proof is not None and seen is not None else None)
                return segment
        self._seen = None
        await look.from_checkpoint()
        await self._settle(look)
        return look.listed

    async def _settle(self, look: Look, whole: int | None = None) -> None:
        late, now = await look.settle(whole=whole), self._now()
        if late is not None and abs(now - self._warned_at) >= PAUSE:
            self._warned_at = now
            log.warning("%s", late)

    async def _study(self, look: Look, segment: Segment, version: int, seen: _Seen | None) -> _Seen:
        """Reads what is new: the newest commit, and the metadata id as far back as it may have changed."""
        before = -1 if seen is None else seen.latest.version
        in_force = await look.in_force(version, down_to=before)
        if seen is not None:
            in_force = in_force.over(seen.in_force)
        if in_force.metadata is None:
            # the listing began above the last metaData
            await look.from_checkpoint()
            await self._settle(look)
            segment = look.listed
            in_force = await look.in_force(version, down_to=-1)
        if in_force.metadata is None and look.unreadable is not None:
            raise look.unreadable
        in_force.refuse_catalog_managed(self._where)
        await look.head(version)
        proof = _proof(segment, version)
        if proof is None:
            raise Unavailable(f"version {version} of {self._where} went away during the look; look again")
        in_commit = _in_commit(in_force)
        latest = LatestVersion(
            version=version,
            table_id=self._table_id,
            metadata_id=in_force.metadata.id if in_force.metadata else None,
            fingerprint=look.fingerprints.get(version),
            committed_at=(await look.committed_at(version, True) if in_commit else None) or proof.modified,
        )
        if seen is None:
            return _Seen(latest=latest, tag=proof.tag, data_version=None, scanned_from=version + 1, in_force=in_force)
        seen = _marked(seen, before, seen.latest.fingerprint)
        seen = replace(seen, latest=latest, tag=proof.tag, in_force=in_force)
        data = await look.newest_data(version, above=before)
        if data is None:
            return seen
        return replace(seen, data_version=data, data_at=await self._data_at(look, seen, data), scanned_from=data)


def _in_commit(in_force: InForce) -> bool:
    return in_force.metadata is not None and in_force.metadata.in_commit_timestamps


def _marked(seen: _Seen, version: int, fingerprint: str | None) -> _Seen:
    marks = {**seen.marks, version: fingerprint}
    return replace(seen, marks=dict(list(marks.items())[-_MARKS:]))


def _proof(segment: Segment, version: int) -> Listed | None:
    """The file that proves a version: its commit, else the first part of its checkpoint."""
    parts = segment.checkpoints.get(version)
    return segment.commits.get(version) or (parts[0] if parts else None)
