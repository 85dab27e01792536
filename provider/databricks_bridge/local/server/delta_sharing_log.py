"""A version of a Delta table as its log tells it: protocol, metadata and files, each action as it was written.

A sharing server passes actions on, which a reader of rows such as deltalake does not show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.triggers.commits import commit_name, commit_versions

Action = dict[str, Any]
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.(?:\d{10}\.(\d{10})\.|[0-9A-Za-z-]+\.)?(?:parquet|json)$")
"""Version and, of one in several parts, their number: classic, multi-part and V2 (Delta protocol, "Checkpoints")."""
_KINDS = ("protocol", "metaData", "add", "remove", "sidecar")
_MAPS = frozenset({"partitionValues", "configuration", "options", "tags"})
_NO_EFFECT = frozenset({"v2Checkpoint", "vacuumProtocolCheck", "catalogManaged"})
"""Reader features that say how the log is kept, and nothing of how a file is read (Delta protocol, "Table Features")."""


class CannotBeBuilt(Exception):
    """The log no longer tells this version."""


@dataclass(frozen=True)
class Snapshot:
    """One version. `files` are its `add` actions by path."""

    version: int
    protocol: Action
    metadata: Action
    files: tuple[Action, ...]

    @property
    def configuration(self) -> dict[str, str]:
        return self.metadata.get("configuration") or {}

    @property
    def features(self) -> set[str]:
        """What a reader of the files must understand beyond Parquet."""
        mapped = self.configuration.get("delta.columnMapping.mode", "none") != "none"
        named = set(self.protocol.get("readerFeatures") or ()) - _NO_EFFECT - {"columnMapping"}
        return named | ({"columnMapping"} if mapped else set())


def snapshot(table: Path, version: int) -> Snapshot:
    """The table at this version. Raises CannotBeBuilt, also where a file of the log goes while it is read."""
    try:
        return _replayed(table, version)
    except FileNotFoundError:
        raise CannotBeBuilt(f"version {version} is no longer in the log") from None


def _replayed(table: Path, version: int) -> Snapshot:
    log = table / "_delta_log"
    base, parts = _newest_checkpoint(log, version)
    commits = [commit for commit in commit_versions(table) if base < commit <= version]
    if commits != list(range(base + 1, version + 1)):
        raise CannotBeBuilt(f"version {version} is no longer in the log")
    last: dict[str, Action] = {}
    files: dict[tuple[str, str], Action] = {}
    sources = [_of_checkpoint(log, part) for part in parts] + [_lines(log / commit_name(commit)) for commit in commits]
    for kind, action in (found for source in sources for found in source):
        if kind == "add":
            files[_key(action)] = action
        elif kind == "remove":
            files.pop(_key(action), None)
        else:
            last[kind] = action
    if not last.keys() >= {"protocol", "metaData"}:
        raise CannotBeBuilt(f"version {version} has no protocol or no metadata in the log")
    ordered = tuple(files[key] for key in sorted(files))
    return Snapshot(version, last["protocol"], last["metaData"], ordered)


def _newest_checkpoint(log: Path, version: int) -> tuple[int, list[str]]:
    """The newest whole checkpoint up to this version, -1 for none, and its files."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in sorted(entry.name for entry in log.iterdir()):
        if (match := _CHECKPOINT.match(name)) and int(match[1]) <= version:
            if match[2] is None:
                whole[int(match[1])] = [name]
            else:
                parts.setdefault((int(match[1]), int(match[2])), []).append(name)
    whole |= {at: names for (at, count), names in parts.items() if len(names) == count}
    base = max(whole, default=-1)
    return base, whole.get(base, [])


def _of_checkpoint(log: Path, name: str) -> Iterator[tuple[str, Action]]:
    found = _lines(log / name) if name.endswith(".json") else _rows(log / name)
    for kind, action in found:
        if kind == "sidecar":
            yield from _rows(log / "_sidecars" / action["path"])
        else:
            yield kind, action


def _lines(file: Path) -> Iterator[tuple[str, Action]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                action = dict(json.loads(line))
            except (ValueError, TypeError):
                raise CannotBeBuilt(f"{file.name} of the log is cut short, or no log") from None
            yield from ((kind, action[kind]) for kind in _KINDS if kind in action)


def _rows(file: Path) -> Iterator[tuple[str, Action]]:
    """The actions of a Parquet file, without what is there twice: maps are pairs there, and absent fields null."""
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    columns = [kind for kind in _KINDS if kind in parquet.schema_arrow.names]
    for batch in parquet.iter_batches(columns=columns):
        for row in batch.to_pylist():
            yield from ((kind, _plain(action)) for kind, action in row.items() if action is not None)


def _plain(action: Action) -> Action:
    found: Action = {}
    for name, value in action.items():
        if value is None or name.endswith("_parsed"):
            continue
        if name in _MAPS:
            found[name] = dict(value)
        else:
            found[name] = _plain(value) if isinstance(value, dict) else value
    return found


def _key(action: Action) -> tuple[str, str]:
    """What makes a file one: its path and its deletion vector (Delta protocol, "Action Reconciliation")."""
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"
