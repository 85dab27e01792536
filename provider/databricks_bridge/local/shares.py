"""Shares between metastores: a catalog in the reader's metastore, published from the provider's tables.

Each shared table is a folder of its own whose log follows the provider's commit by commit, at once or, when held, only
when told to. Files are hard links, so publishing costs no copy and keeps commit times. What is published is what a
reader of a real share would see: after log cleanup or VACUUM at the provider, once the share has caught up, the
reader has lost the same history. Without history the folder's log begins at the published version, each time anew: a
checkpoint and that one commit. Publishing may be cut off at any point and be done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.triggers.commits import (
    CommitUnreadable,
    commit_name,
    commit_versions,
    read_commit,
    table_exists,
    table_id,
)

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
LAGS = ("none", "held")
_SOURCE_FILE = ".source_id"
_LEFTOVER = re.compile(r"^\.(publishing|removed)-")
# Version and kind of what may stand in a log beside the commits; of a compacted file the last version counts.
_VERSIONED = re.compile(r"^(?:\d{20}\.)?(\d{20})\.(checkpoint\..+|crc|compacted\.json)$")


@dataclass(frozen=True)
class Share:
    """A catalog of `metastore` (the reader's) that follows some schemas of a catalog of `source_metastore`.

    `lag` is "none", published at once, or "held", published only when told to. Without `history` a reader sees the newest
    published version and nothing of how it came about. The provider knows the share by the name of the catalog, so that
    several metastores may read one. Raises InvalidArgument.
    """

    metastore: str
    catalog: str
    source_metastore: str
    source_catalog: str
    schemas: tuple[str, ...]
    lag: str = "none"
    history: bool = True

    def __post_init__(self) -> None:
        if self.metastore == self.source_metastore:
            raise InvalidArgument(f"{self.metastore} cannot read a share of its own: name another source_metastore")
        if self.lag not in LAGS:
            raise InvalidArgument(f"lag is {self.lag!r}; use {' or '.join(LAGS)}")
        if not self.schemas:
            raise InvalidArgument("schemas must name at least one schema of the source catalog")


class Shares:
    """All shares of a deployment, kept in `home/shares.json`. Its methods may be called from any thread."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._file = layout.home / "shares.json"
        self._lock = threading.RLock()
        self._shares: dict[tuple[str, str], Share] = {}
        with contextlib.suppress(FileNotFoundError):
            for kept in json.loads(self._file.read_text())["shares"]:
                share = Share(**{**kept, "schemas": tuple(kept["schemas"])})
                self._shares[share.metastore, share.catalog] = share

    def find(self, metastore: str, catalog: str) -> Share | None:
        """The share behind a catalog of this metastore; None for a catalog of its own."""
        return self._shares.get((metastore, catalog))

    def of(self, metastore: str) -> list[Share]:
        """The shares that this metastore reads, by catalog."""
        return sorted(
            (share for share in self._shares.values() if share.metastore == metastore), key=lambda s: s.catalog
        )

    def given_by(self, metastore: str) -> dict[str, list[Share]]:
        """The shares that this metastore provides, by name, each as all who read it."""
        given: dict[str, list[Share]] = {}
        for share in sorted(self._shares.values(), key=lambda s: (s.catalog, s.metastore)):
            if share.source_metastore == metastore:
                given.setdefault(share.catalog, []).append(share)
        return given

    def put(self, share: Share) -> None:
        """Create or change a share, and publish it unless it is held.

        Raises InvalidArgument when the catalog is there and is no share, or the source metastore is not there.
        """
        with self._lock:
            folder = self._layout.metastore_root(share.metastore) / share.catalog
            if folder.exists() and self.find(share.metastore, share.catalog) is None:
                raise InvalidArgument(
                    f"catalog {share.catalog} of {share.metastore} is not a share; choose another name"
                )
            if not self._layout.metastore_root(share.source_metastore).is_dir():
                raise InvalidArgument(f"there is no metastore {share.source_metastore} in this deployment")
            changed = {**self._shares, (share.metastore, share.catalog): share}
            self._keep(changed)
            for schema in share.schemas:
                (folder / schema).mkdir(parents=True, exist_ok=True)
            if share.lag == "none":
                self.publish(share)

    def publish(self, share: Share, max_commits: int | None = None) -> dict[str, int]:
        """Publish what the share lacks, of each table at most `max_commits`; the version that each is at now."""
        with self._lock:
            if self.find(share.metastore, share.catalog) is None:
                return {}  # removed meanwhile
            target = self._layout.metastore_root(share.metastore) / share.catalog
            source = self._layout.metastore_root(share.source_metastore) / share.source_catalog
            for folder in _folders(target):
                if folder.name not in share.schemas:
                    _remove(folder)
            published: dict[str, int] = {}
            for schema in share.schemas:
                tables = _publish_schema(source / schema, target / schema, max_commits, history=share.history)
                for table, version in tables:
                    published[f"{schema}.{table}"] = version
            return published

    def remove(self, share: Share) -> None:
        """Take the share from its reader, and the catalog with it."""
        with self._lock:
            self._keep({at: one for at, one in self._shares.items() if one != share})
            with contextlib.suppress(FileNotFoundError):
                _remove(self._layout.metastore_root(share.metastore) / share.catalog)

    async def publish_for(self, metastore: str) -> None:
        """Publish every share into this metastore that is not held."""
        for share in self.of(metastore):
            if share.lag == "none":
                await asyncio.to_thread(self.publish, share)

    async def run_forever(self) -> None:
        """Publish all shares that are not held, about once a second."""
        while True:
            for metastore in {share.metastore for share in self._shares.values()}:
                try:
                    await self.publish_for(metastore)
                except Exception:
                    log.exception("the shares into %s could not be published; trying again", metastore)
            await asyncio.sleep(TICK_SECONDS)

    def _keep(self, shares: dict[tuple[str, str], Share]) -> None:
        draft = self._file.with_name(f".{self._file.name}.{uuid.uuid4()}")
        draft.write_text(json.dumps({"shares": [asdict(share) for share in shares.values()]}, indent=2))
        os.replace(draft, self._file)
        self._shares = shares


def shown(share: Share) -> dict[str, Any]:
    """A share as `/local/shares` shows it."""
    return {**asdict(share), "schemas": list(share.schemas)}


def _publish_schema(source: Path, target: Path, max_commits: int | None, *, history: bool) -> Iterator[tuple[str, int]]:
    target.mkdir(parents=True, exist_ok=True)
    for leftover in target.iterdir():
        if _LEFTOVER.match(leftover.name):
            shutil.rmtree(leftover)
    tables = {table.name for table in _folders(source) if table_exists(table)}
    for table in _folders(target):
        if table.name not in tables:
            _remove(table)
    for name in sorted(tables):
        # Of a table that is dropped meanwhile, the next round takes the rest.
        with contextlib.suppress(FileNotFoundError):
            publish_one = publish_table if history else publish_snapshot
            version = publish_one(source / name, target / name, max_commits)
            if version is not None:
                yield name, version


def publish_table(source: Path, target: Path, max_commits: int | None = None) -> int | None:
    """Bring one table up to the provider's newest version, or by `max_commits`; the version it is at, None for none.

    A provider's table that was dropped and made again, or whose log no longer reaches the last published version,
    begins anew: readers see the old table until the new one is whole.
    """
    identity, last = table_id(source), _newest(target)
    available = _finished(source)
    if identity is None or not available:
        return None
    follows = last is not None and _source_of(target) == identity
    if last is not None and follows and (last >= available[-1] or last + 1 in available):
        wanted = [version for version in available if version > last][:max_commits]
        return (
            _bring(source, target, wanted, available[-1]) if wanted else _refresh(source, target, last, available[-1])
        )
    fresh = target.with_name(f".publishing-{uuid.uuid4()}")
    (fresh / "_delta_log").mkdir(parents=True)
    (fresh / _SOURCE_FILE).write_text(identity)
    base = _first_readable(source, available)
    rest = [version for version in available if version > base]
    more = rest if max_commits is None else rest[: max_commits - 1]
    version = _bring(source, fresh, [v for v in available if v <= base] + more, available[-1])
    if target.exists():
        _remove(target)
    fresh.rename(target)
    return version


def publish_snapshot(source: Path, target: Path, max_commits: int | None = None) -> int | None:
    """Bring one table up to the provider's newest version, or by `max_commits`, and forget what was before it.

    The checkpoint goes in first, whole: with it the new version is there, and only then does the old one go. A table that
    was made again, or was shared with history, begins anew, and so does one that is shared with history again.
    """
    identity, last, available = table_id(source), _newest(target), _finished(source)
    if identity is None or not available:
        return None
    kept = f"{identity} without history"
    follows = last is not None and _source_of(target) == kept and last <= available[-1]
    ahead = [version for version in available if not (follows and last is not None and version <= last)][:max_commits]
    if not ahead and commit_versions(target) == [last]:
        return last
    base = _first_readable(source, available)
    upto = max(base, ahead[-1] if ahead else available[-1])
    scratch = target.with_name(f".publishing-{uuid.uuid4()}")
    version = publish_table(source, scratch, len([one for one in available if base < one <= upto]) + 1)
    if version is None:
        return None
    shutil.rmtree(scratch / "_change_data", ignore_errors=True)
    _begin_at(scratch, version)
    (scratch / _SOURCE_FILE).write_text(kept)
    if follows:
        _move_in(scratch, target)
        shutil.rmtree(scratch)
        return version
    if target.exists():
        _remove(target)
    scratch.rename(target)
    return version


def _move_in(scratch: Path, target: Path) -> None:
    """Data, then the checkpoint, then the rest of the log; and only then away with what was there."""
    kept = {file.relative_to(scratch) for file in _data_files(scratch)}
    for data in kept:
        _link(scratch / data, target / data)
    log_names = _log_names(scratch)
    for name in sorted(log_names, key=lambda name: (".checkpoint." not in name, name)):
        draft = target / "_delta_log" / f".{uuid.uuid4()}.tmp"
        _link(scratch / "_delta_log" / name, draft)
        os.replace(draft, target / "_delta_log" / name)
    for name in _log_names(target) - log_names:
        (target / "_delta_log" / name).unlink(missing_ok=True)
    for file in list(_data_files(target)):
        if file.relative_to(target) not in kept:
            file.unlink(missing_ok=True)


def _begin_at(table: Path, version: int) -> None:
    """Leave of the log a checkpoint at its newest version and that commit."""
    from deltalake import DeltaTable

    DeltaTable(str(table)).create_checkpoint()
    for name in _log_names(table):
        if name not in ("_last_checkpoint", commit_name(version), f"{version:020d}.checkpoint.parquet"):
            (table / "_delta_log" / name).unlink()


def _bring(source: Path, target: Path, wanted: list[int], newest: int) -> int:
    """Data first, then commits in order, then the rest of the log; each file whole or not at all."""
    for file in _data_files(source):
        _link(file, target / file.relative_to(source))
    for version in wanted:
        _link(source / "_delta_log" / commit_name(version), target / "_delta_log" / commit_name(version))
    if wanted[-1] == newest:
        kept = {file.relative_to(source) for file in _data_files(source)}
        for file in _data_files(target):
            if file.relative_to(target) not in kept:
                file.unlink(missing_ok=True)
    return _refresh(source, target, wanted[-1], newest)


def _refresh(source: Path, target: Path, upto: int, newest: int) -> int:
    """Checkpoints and checksums of the published versions, the hint last; and nothing that the provider has cleaned."""
    names = _log_names(source)
    for name in names:
        if (match := _VERSIONED.match(name)) and int(match[1]) <= upto:
            _link(source / "_delta_log" / name, target / "_delta_log" / name)
    for sidecar in _log_names(source, "_sidecars"):
        _link(source / "_delta_log" / "_sidecars" / sidecar, target / "_delta_log" / "_sidecars" / sidecar)
    _refresh_hint(source, target, upto)
    if upto == newest:
        for name in _log_names(target):
            if name not in names and name != "_last_checkpoint":
                (target / "_delta_log" / name).unlink(missing_ok=True)
    return upto


def _refresh_hint(source: Path, target: Path, upto: int) -> None:
    hint, known = source / "_delta_log" / "_last_checkpoint", target / "_delta_log" / "_last_checkpoint"
    with contextlib.suppress(FileNotFoundError, ValueError):
        text = hint.read_text()
        if json.loads(text)["version"] <= upto and not (known.exists() and known.read_text() == text):
            draft = known.with_name(f".{uuid.uuid4()}.tmp")
            draft.write_text(text)
            os.replace(draft, known)


def _finished(table: Path) -> list[int]:
    """Versions of the log, without one at its end that is being written."""
    versions = commit_versions(table)
    with contextlib.suppress(FileNotFoundError, IndexError):
        try:
            read_commit(table, versions[-1])
        except CommitUnreadable:
            versions.pop()
    return versions


def _first_readable(table: Path, available: list[int]) -> int:
    """The first version whose state the log can still tell: 0, or that of the first checkpoint that is followed on."""
    if available[0] == 0:
        return 0
    checkpoints = {
        int(match[1])
        for name in _log_names(table)
        if (match := _VERSIONED.match(name)) and match[2].startswith("checkpoint")
    }
    return min((version for version in checkpoints if version >= available[0] - 1), default=available[-1])


def _newest(table: Path) -> int | None:
    return max(commit_versions(table), default=None)


def _source_of(target: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return (target / _SOURCE_FILE).read_text()
    return None


def _data_files(table: Path) -> Iterator[Path]:
    """All files but those of the log and hidden ones; `_change_data` is data."""
    for folder, folders, files in os.walk(table):
        folders[:] = [name for name in folders if name != "_delta_log" and not name.startswith(".")]
        yield from (Path(folder, name) for name in files if not name.startswith("."))


def _log_names(table: Path, folder: str = ".") -> set[str]:
    """Names in the log folder, or in one below it, without hidden ones."""
    with contextlib.suppress(FileNotFoundError):
        return {
            entry.name
            for entry in os.scandir(table / "_delta_log" / folder)
            if entry.is_file() and not entry.name.startswith(".")
        }
    return set()


def _link(source: Path, target: Path) -> None:
    """Put the file in place, whole, unless it is there. One that is gone from the source (VACUUM) is left out."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except (FileExistsError, FileNotFoundError):
        return
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        draft = target.with_name(f".{uuid.uuid4()}.tmp")
        shutil.copy2(source, draft)
        os.replace(draft, target)


def _folders(folder: Path) -> list[Path]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    return []


def _remove(folder: Path) -> None:
    """Out of sight first, then file by file."""
    hidden = folder.with_name(f".removed-{uuid.uuid4()}")
    folder.rename(hidden)
    shutil.rmtree(hidden)
