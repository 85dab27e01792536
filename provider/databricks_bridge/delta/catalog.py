"""The newest version of a catalog-managed table, which Unity Catalog alone knows.

Wire format: Unity Catalog's Delta API (`delta/v1`: `GET .../config`, `GET .../tables/{table}`, kebab-case JSON).
`latest-table-version` counts data-only commits; `last-commit-version` and the table property
`delta.lastUpdateVersion` move with metadata only, and are not read. A commit that the catalog names may still be
staged; a published one is always ratified; any other file of the log proves nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from databricks_bridge.core.checkpoint import FileCounts
from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    HistoryGap,
    InvalidArgument,
    NotFound,
    Unavailable,
)
from databricks_bridge.delta import counting
from databricks_bridge.delta.commits import HEAD_BYTES, CommitHead, read_head
from databricks_bridge.delta.files import Files
from databricks_bridge.delta.history import gap_of
from databricks_bridge.delta.identifiers import split
from databricks_bridge.delta.metadata import from_checksum
from databricks_bridge.delta.model import CommitSummary, LatestVersion
from databricks_bridge.delta.names import LOG, Commit, Staged, commit_path, parse
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

_API = "/api/2.1/unity-catalog/delta/v1"
_PROTOCOL = "1.0"
_SCAN_MAX = 1000
_READS_AT_ONCE = 16
_UNREAD = CommitHead(carries_data=True, operation=None, metadata=None)
_serves: WeakKeyDictionary[Workspace, dict[str, bool]] = WeakKeyDictionary()


async def negotiate(workspace: Workspace, catalog: str) -> None:
    """Asks once for each workspace and catalog whether the Delta API is served. Raises InvalidArgument if not."""
    answers = _serves.setdefault(workspace, {})
    if catalog not in answers:
        answers[catalog] = await _ask(workspace, catalog)
    if not answers[catalog]:
        raise InvalidArgument(
            f"{workspace.host} does not serve Unity Catalog's Delta API {_PROTOCOL} ({_API}/config) for catalog {catalog}, "
            "and only it tells the newest version of a catalog-managed table without compute; read it by SQL instead: "
            "via='sql' with warehouse=, which wakes a SQL warehouse"
        )


async def _ask(workspace: Workspace, catalog: str) -> bool:
    try:
        answer = await workspace.get(f"{_API}/config", {"catalog": catalog, "protocol-versions": _PROTOCOL})
    except NotFound as error:
        if error.status == 404 and "CATALOG" in str(error.error_code).upper():
            raise
        return False
    except BadAnswer as error:
        if error.status != 404:
            raise
        return False
    return str(answer.get("protocol-version", "")).partition(".")[0] == _PROTOCOL.partition(".")[0]


class CatalogManagedTable:
    """A table with catalog-managed commits; a VersionSource.

    `open_files` gives its log in storage, to tell data from maintenance and a replaced table from a changed one; None, or any
    refusal, and every commit counts as data and no metadata id is known. The catalog itself tells the table id alone.
    """

    def __init__(
        self,
        workspace: Workspace,
        full_name: str,
        *,
        open_files: Callable[[], Awaitable[Files]] | None = None,
        store: str = "",
    ) -> None:
        self.store = store
        self._workspace, self._name, self._open_files = workspace, full_name, open_files
        self._parts = split(full_name)
        self._heads: dict[int, CommitHead] = {}
        self._table_id: str | None = None
        self._seen: tuple[int, str | None] | None = None
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"CatalogManagedTable({self._name!r}, {self._workspace!r})"

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """See `VersionSource.latest`. Raises InvalidArgument too, where the workspace does not serve the API."""
        async with self._turn:
            version, table_id, commits = await self._load()
            if version < 0:
                return None
            if table_id != self._table_id:
                self._table_id, self._heads, self._seen = table_id, {}, None
            above = -1 if known is None else known
            data = await self._newest_data(version, above, commits)
            if self._seen is None or self._seen[0] != version:
                self._seen = version, await self._metadata_id(version, commits)
            self._heads = {at: head for at, head in self._heads.items() if at > above}
            named, data_named = ({} if one is None else commits.get(one, {}) for one in (version, data))
            head = None if data is None else self._heads.get(data)
            return LatestVersion(
                version=version,
                table_id=table_id,
                metadata_id=self._seen[1],
                committed_at=_time(named.get("timestamp")),
                data_version=data,
                data_committed_at=_time(data_named.get("timestamp")) or (head.in_commit_at if head else None),
            )

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """See `VersionSource.commits`; where the log cannot be read, each is told as data of no known operation."""
        if to_inclusive <= from_exclusive:
            return
        version, _, commits = await self._load()
        if version < to_inclusive:
            raise Unavailable(f"commit {to_inclusive} of {self._name} is not ratified, at least not yet; look again")
        files = await self._files()
        for at in range(from_exclusive + 1, to_inclusive + 1):
            head = _UNREAD if files is None else await _read(files, at, commits)
            if head is None:
                raise HistoryGap(
                    f"commit {at} of {self._name} is not in the log, and ({from_exclusive}, {to_inclusive}] was asked for; "
                    "log retention may have removed it: rebuild from the table, or adopt the newest version"
                )
            yield CommitSummary(
                version=at,
                operation=head.operation,
                carries_data=head.carries_data,
                change_data_feed=head.metadata.change_data_feed if head.metadata else None,
            )

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        """See `VersionSource.gap`. What was set before the range is not told."""
        return await gap_of(self.commits(from_exclusive, to_inclusive))

    async def commit_files(self, version: int) -> FileCounts | None:
        """See `core.checkpoint.TableFiles`."""
        _, _, commits = await self._load()
        files = await self._files()
        if files is None:
            return None
        for path in _paths(commits, version):
            if (found := await counting.commit_files(files, path)) is not None:
                return found
        return None

    async def snapshot_files(self, version: int) -> int | None:
        """See `core.checkpoint.TableFiles`."""
        files = await self._files()
        return None if files is None else await counting.snapshot_files(files, version)

    async def _load(self) -> tuple[int, str | None, dict[int, dict[str, Any]]]:
        """The newest ratified version, the table's id, and by version the commits that the catalog itself names."""
        catalog, schema, table = self._parts
        await negotiate(self._workspace, catalog)
        path = f"{_API}/catalogs/{_url(catalog)}/schemas/{_url(schema)}/tables/{_url(table)}"
        answer = await self._workspace.get(path)
        version = answer.get("latest-table-version")
        if not isinstance(version, int) or isinstance(version, bool):
            raise BadAnswer(
                f"Unity Catalog's Delta API gives no latest-table-version for {self._name} ({version!r}); it does so for "
                "catalog-managed tables: read this one from its log (via='log') or by SQL (via='sql')"
            )
        metadata = answer.get("metadata") or {}
        named = {int(one["version"]): one for one in answer.get("commits") or [] if int(one["version"]) <= version}
        return version, str(metadata["table-uuid"]) if metadata.get("table-uuid") else None, named

    async def _newest_data(self, top: int, above: int, commits: dict[int, dict[str, Any]]) -> int | None:
        files: Files | None = None
        at, step = top, 1
        while at > above and top - at < _SCAN_MAX:
            batch = range(at, max(at - step, above), -1)
            if missing := [one for one in batch if one not in self._heads]:
                files = files or await self._files()
                if files is None:
                    return at
                try:
                    found = await asyncio.gather(*(_read(files, one, commits) for one in missing))
                except BridgeError as error:
                    log.warning("commits of %s cannot be read, so they count as data: %s", self._name, error)
                    return at
                self._heads.update({one: head or _UNREAD for one, head in zip(missing, found, strict=True)})
            for one in batch:
                if self._heads[one].carries_data:
                    return one
            at, step = at - len(batch), min(step * 2, _READS_AT_ONCE)
        return at if at > above else None

    async def _metadata_id(self, version: int, commits: dict[int, dict[str, Any]]) -> str | None:
        """The id of the metadata at `version`: from its checksum file, else from the commits since the last poll."""
        files = await self._files()
        if files is None:
            return None
        try:
            checksum = await from_checksum(files, version)
            if checksum is not None and checksum.metadata is not None:
                return checksum.metadata.id
            last, known = self._seen or (-1, None)
            if version - last > _SCAN_MAX:
                return None
            for at in range(version, last, -1):
                if at not in self._heads:
                    self._heads[at] = await _read(files, at, commits) or _UNREAD
                if metadata := self._heads[at].metadata:
                    return metadata.id
                if self._heads[at] is _UNREAD:
                    return None  # what it changed is not known
        except BridgeError as error:
            log.warning(
                "the metadata id of %s cannot be read, so a replaced table cannot be seen: %s", self._name, error
            )
            return None
        return known

    async def _files(self) -> Files | None:
        if self._open_files is None:
            return None
        try:
            return await self._open_files()
        except BridgeError as error:
            log.warning("the log of %s cannot be opened, so its commits count as data: %s", self._name, error)
            return None


def _time(millis: Any) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(int(millis) / 1000, UTC)


async def _read(files: Files, version: int, commits: dict[int, dict[str, Any]]) -> CommitHead | None:
    """The beginning of a ratified commit: the staged file that the catalog names, else the published one."""
    for path in _paths(commits, version):
        content = await files.probe(path, HEAD_BYTES)
        if content:
            return read_head(content, whole=len(content) < HEAD_BYTES, ratified=True)
    return None


def _paths(commits: dict[int, dict[str, Any]], version: int) -> tuple[str, ...]:
    """Where a ratified commit may be, the staged file first."""
    name = str(commits.get(version, {}).get("file-name") or "")
    return (*_staged(name, version), commit_path(version))


def _staged(name: str, version: int) -> tuple[str, ...]:
    """Where a commit's file is by the name in the catalog's answer; nothing for a name that fits no such file."""
    if isinstance(parse(name), Commit):
        return ()
    inside = f"_staged_commits/{name.rpartition('/')[2]}"
    return (f"{LOG}/{inside}",) if parse(inside) == Staged(version) else ()


def _url(part: str) -> str:
    return quote(part, safe="")
