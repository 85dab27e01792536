"""One look at a log: what is listed, what is read, and what follows from it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging

from databricks_bridge.core.errors import HistoryGap, NotAuthenticated, NotFound, NotPermitted
from databricks_bridge.delta import metadata
from databricks_bridge.delta.commits import HEAD_BYTES, CommitHead, read_head
from databricks_bridge.delta.files import Files
from databricks_bridge.delta.metadata import Metadata
from databricks_bridge.delta.names import LAST_CHECKPOINT, commit_path, offset
from databricks_bridge.delta.segment import Segment, collect

log = logging.getLogger(__name__)

_SCAN_MAX = 1000
_READS_AT_ONCE = 16


class Look:
    """One look at the log: what was listed and what was read, each file at most once."""

    def __init__(self, files: Files) -> None:
        self.files = files
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
        if content:
            self._heads[version] = self._keep(version, content)
        return content is None

    async def list(self, version: int) -> Segment:
        """Lists from `version` on, inclusive."""
        self.listed = await collect(self.files.list(offset(version)))
        return self.listed

    async def from_checkpoint(self) -> Segment:
        """Lists from the hinted checkpoint on, or everything when the hint does not hold. Raises HistoryGap."""
        hint = await self._hint()
        if hint is not None:
            segment = await self.list(hint)
            if segment.checkpoints and segment.missing(hint) is None:
                return segment
            log.warning("_last_checkpoint of %s names %d, which is not there; listing all", self.files.where, hint)
        self.listed = await collect(self.files.list(None))
        if gap := self.listed.missing(-1):
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
        if isinstance(version, int) and version >= 0:
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
        self.fingerprints[version] = hashlib.sha256(content).hexdigest()
        return read_head(content, whole=version in self._whole)

    async def metadata(self, version: int, *, down_to: int) -> Metadata | None:
        """What is in force at `version`: the newest that was set in (down_to, version]; None when none was set there."""
        at, step = version, 1
        changes = down_to >= 0
        down_to = max(down_to, min([*self.listed.commits, *self.listed.checkpoints], default=0) - 1)
        while at > down_to:
            batch = range(at, max(at - step, down_to), -1)
            for found in await asyncio.gather(*(self._metadata_at(one, changes) for one in batch)):
                if found is not None:
                    return found
            at, step = at - len(batch), min(step * 2, _READS_AT_ONCE)
        return None

    async def _metadata_at(self, version: int, changes: bool) -> Metadata | None:
        """What is set at `version`, or with `changes` only where this version may have changed its id."""
        listed, head = self.listed, self._heads.get(version)
        if changes and head is not None and version in self._whole:
            return head.metadata
        if version in listed.checksums and (found := await metadata.from_checksum(self.files, version)):
            return found
        if version in listed.commits and (head := await self.head(version)):
            if head.metadata:
                return head.metadata
            unseen = version not in self._whole and not (version > 0 and head.keeps_metadata_id)
            if unseen and (found := await metadata.from_rest_of_commit(self.files, version)):
                return found
        if version in listed.checkpoints and not (changes and version in listed.commits):
            return await metadata.from_checkpoint(self.files, listed.checkpoints[version])
        return None

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
