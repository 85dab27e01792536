"""One look at a log: what is listed, what is read, and what follows from it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from databricks_bridge.core.errors import (
    BadAnswer,
    HistoryGap,
    NotAuthenticated,
    NotFound,
    NotPermitted,
)
from databricks_bridge.delta import metadata
from databricks_bridge.delta.commits import HEAD_BYTES, CommitHead, ends_cut, read_head
from databricks_bridge.delta.files import Files, Listed
from databricks_bridge.delta.metadata import NOTHING, InForce
from databricks_bridge.delta.names import LAST_CHECKPOINT, commit_path, offset
from databricks_bridge.delta.segment import Segment, collect, collect_at_most, collect_commits

log = logging.getLogger(__name__)

_SCAN_MAX = 1000
_READS_AT_ONCE = 16
WRITE_TAKES = timedelta(minutes=5)
"""A commit that is not whole is waited for in silence for so long."""


def _now() -> datetime:
    return datetime.now(UTC)


class Look:
    """One look at the log: what was listed and what was read, each file at most once.

    `unreadable` is the error of the last checkpoint that could not be read. `now` (aware) is asked where the store does not
    tell its own time.
    """

    def __init__(self, files: Files, now: Callable[[], datetime] = _now) -> None:
        self.files = files
        self._now = now
        self.unreadable: BadAnswer | None = None
        self._bad: set[int] = set()
        self.listed = Segment()
        self.fingerprints: dict[int, str] = {}
        self._heads: dict[int, CommitHead | None] = {}
        self._whole: set[int] = set()

    async def absent(self, version: int) -> bool:
        """Whether the log surely lacks commit `version`: one small read, and a commit that is there is kept as read.

        False also where the read does not tell: refused (S3 answers 403 for a missing key to those who may not list),
        a bucket that is gone, a commit of no bytes, which is being written. A listing tells, or says what is wrong.
        """
        try:
            content = await self.files.probe(commit_path(version), HEAD_BYTES)
        except (NotAuthenticated, NotFound, NotPermitted):
            return False
        if content and not (head := self._keep(version, content)).cut:
            self._heads[version] = head
        return content is None

    async def list(self, version: int) -> Segment:
        """Lists from `version` on, inclusive."""
        self.listed = await collect(self.files.list(offset(version)))
        return self.listed

    async def list_at_most(self, version: int, most: int) -> Segment | None:
        """As `list`, but None where more than `most` files come after: the end of the log is reached sooner otherwise."""
        found = await collect_at_most(self.files.list(offset(version)), most)
        if found is not None:
            self.listed = found
        return found

    async def settle(self, *, whole: int | None = None) -> str | None:
        """Take a newest commit that is not whole for one that is still being written; `whole` is one that is known to be.

        Returns the words for the first that has been so for long, naming its file and age; None where there is none.
        """
        listed = self.listed
        while (version := listed.latest) in listed.commits and version not in listed.checkpoints:
            assert version is not None
            if version == whole or not await self.is_cut(version):
                break
            listed.being_written[version] = listed.commits.pop(version)
            self._heads.pop(version, None)
        newest = -1 if listed.latest is None else listed.latest
        first = min((one for one in listed.being_written if one > newest), default=None)
        return None if first is None else self._late(first, listed.being_written[first])

    async def is_cut(self, version: int) -> bool:
        """Whether this commit, which was listed, is not whole: its beginning, and of a large one its end too."""
        head = await self.head(version)
        if head is None or head.cut:
            return head is not None
        size = self.listed.commits[version].size
        if version in self._whole or size <= HEAD_BYTES:
            return False
        try:
            tail = await self.files.part(commit_path(version), max(HEAD_BYTES // 2, size - HEAD_BYTES), size)
        except NotFound:
            return False
        return ends_cut(tail)

    def _late(self, version: int, file: Listed) -> str | None:
        age = (self.files.store_time() or self._now()) - file.modified
        if age <= WRITE_TAKES:
            return None
        return (
            f"{self.being_written(version, file)} and for {str(age).partition('.')[0]}: its writer may have died. It is not "
            "counted, nor is what comes after it. Readers of the table may stop at it too; see whether the writer still runs, "
            "and restore the file, or have the table's owner repair it"
        )

    def being_written(self, version: int, file: Listed | None = None) -> str:
        """The words for a commit that is not whole."""
        file = file or self.listed.commits.get(version) or self.listed.being_written.get(version)
        since = "" if file is None else f", {file.size} bytes, since {file.modified.isoformat()}"
        return f"commit {version} of {self.files.where} ({commit_path(version)}{since}) is being written, its file is not whole"

    async def from_checkpoint(self) -> Segment:
        """Lists from the hinted checkpoint on, or everything when the hint does not hold. Raises HistoryGap."""
        hint = None if self._bad else await self._hint()
        if hint is not None:
            segment = await self.list(hint)
            if segment.checkpoints and segment.missing(hint) is None:
                return segment
            log.warning("_last_checkpoint of %s names %d, which is not there; listing all", self.files.where, hint)
        self.listed = await collect(self.files.list(None))
        for version in self._bad:
            self.listed.checkpoints.pop(version, None)
        if gap := self.listed.missing(-1):
            if self.unreadable is not None:
                raise self.unreadable
            first, last = gap
            raise HistoryGap(
                f"the log of {self.files.where} lacks commits {first} to {last} and no complete checkpoint stands in "
                "for them; the table cannot be read until they are restored"
            )
        return self.listed

    async def _hint(self) -> int | None:
        try:
            text = await self.files.whole(LAST_CHECKPOINT)
        except (NotFound, NotPermitted):
            return None
        try:
            version = json.loads(text.decode("utf-8-sig"))["version"]
        except (ValueError, KeyError, TypeError):
            version = None
        if isinstance(version, int) and not isinstance(version, bool) and version >= 0:
            return version
        log.warning("_last_checkpoint of %s cannot be read; listing the log instead", self.files.where)
        return None

    async def head(self, version: int) -> CommitHead | None:
        """What the beginning of a commit says; None when the log does not have it any more."""
        if version not in self._heads:
            self._heads[version] = await self._read(version)
        return self._heads[version]

    async def _read(self, version: int) -> CommitHead | None:
        try:
            content = await self.files.head(commit_path(version), HEAD_BYTES)
        except NotFound:
            return None
        return self._keep(version, content)

    def _keep(self, version: int, content: bytes) -> CommitHead:
        listed = self.listed.commits.get(version)
        if len(content) < HEAD_BYTES or (listed is not None and listed.size == HEAD_BYTES):
            self._whole.add(version)
        # What is in force decides whether the table is catalog-managed, not a line that may be old.
        head = read_head(content, whole=version in self._whole, ratified=True)
        if not head.cut:
            self.fingerprints[version] = hashlib.sha256(content).hexdigest()
        return head

    async def in_force(self, version: int, *, down_to: int) -> InForce:
        """What is in force at `version`: the newest that was set in (down_to, version], as far as it was set there."""
        found, at, step = NOTHING, version, 1
        changes = down_to >= 0
        down_to = max(down_to, min([*self.listed.commits, *self.listed.checkpoints], default=0) - 1)
        while at > down_to and not found.whole:
            batch = range(at, max(at - step, down_to), -1)
            for one in await asyncio.gather(*(self._set_at(one, changes) for one in batch)):
                if not found.whole:
                    found = found.over(one)
            at, step = at - len(batch), min(step * 2, _READS_AT_ONCE)
        return found

    async def _set_at(self, version: int, changes: bool) -> InForce:
        """What is set at `version`, or with `changes` only where this version may have changed its id."""
        listed, head = self.listed, self._heads.get(version)
        if changes and head is not None and version in self._whole:
            return head.says
        found = NOTHING
        if version in listed.checksums:
            found = await metadata.from_checksum(self.files, version) or NOTHING
        if not found.whole and version in listed.commits and (head := await self.head(version)):
            found = found.over(head.says)
            unseen = version not in self._whole and not (version > 0 and head.keeps_metadata_id)
            if unseen and found.metadata is None:
                found = found.over(await self._rest_of(version))
        if not found.whole and version in listed.checkpoints and not (changes and version in listed.commits):
            found = found.over(await self._in_checkpoint(version))
        return found

    async def _rest_of(self, version: int) -> InForce:
        try:
            return await metadata.from_rest_of_commit(self.files, version)
        except BadAnswer:
            return NOTHING  # being written

    async def _in_checkpoint(self, version: int) -> InForce:
        """What a checkpoint says; nothing where it cannot be read, for it may be half written, and what is older says it too."""
        try:
            return await metadata.from_checkpoint(self.files, self.listed.checkpoints[version])
        except BadAnswer as error:
            log.warning("%s; what is older in the log is read instead", error)
            self.unreadable = error
            self._bad.add(version)
            return NOTHING

    async def committed_at(self, version: int, in_commit: bool) -> datetime | None:
        """When a commit was made: its own time where in-commit timestamps are on, else that of its file."""
        if in_commit and (head := await self.head(version)) is not None and head.in_commit_at is not None:
            return head.in_commit_at
        if version not in self.listed.commits:
            found = (await collect_commits(self.files.list(offset(version)), version, version)).commits
            return found[version].modified if version in found else None
        return self.listed.commits[version].modified

    async def newest_data(self, top: int, *, above: int) -> int | None:
        """The newest version in (above, top] that carries data, or of which that cannot be told any more."""
        at, step = top, 1
        while at > above:
            if top - at >= _SCAN_MAX:
                return at
            batch = range(at, max(at - step, above, top - _SCAN_MAX), -1)
            for version, head in zip(batch, await asyncio.gather(*map(self.head, batch)), strict=True):
                if head is None or head.carries_data:
                    return version
            at, step = at - len(batch), min(step * 2, _READS_AT_ONCE)
        return None
