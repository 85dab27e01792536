"""The newest commits of a table, from its Delta log: bounded, so that a long log costs no more than a short one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.triggers.commits import commit_name, commit_time, commit_versions
from databricks_bridge.local.triggers.outcome import to_ms

COMMITS = 50
MOST_BYTES = 256 * 1024
"""How much of one commit is read in search of what it says of itself, which writers put first."""
_COUNTS = (
    ("numOutputRows", "written"),
    ("num_added_rows", "written"),
    ("numDeletedRows", "deleted"),
    ("num_deleted_rows", "deleted"),
    ("numUpdatedRows", "updated"),
    ("num_updated_rows", "updated"),
)
"""Metrics of Spark and of delta-rs, which has words of its own."""


@dataclass(frozen=True)
class Entry:
    """One version. `at` is epoch milliseconds, `rows` empty where the commit does not say, `problem` why it cannot be read."""

    version: int
    at: int
    operation: str = ""
    mode: str = ""
    rows: str = ""
    engine: str = ""
    problem: str = ""


def newest_version(table: Path) -> int | None:
    """The newest version of which there is a commit."""
    return max(commit_versions(table), default=None)


def history(table: Path, *, before: int | None = None, count: int = COMMITS) -> tuple[list[Entry], bool]:
    """At most `count` versions, newest first, all of them below `before`; and whether there are older ones."""
    versions = [version for version in commit_versions(table) if before is None or version < before]
    return [_entry(table, version) for version in reversed(versions[-count:])], len(versions) > count


def _entry(table: Path, version: int) -> Entry:
    try:
        at = to_ms(commit_time(table, version))
        info = _commit_info(table / "_delta_log" / commit_name(version))
    except FileNotFoundError:
        return Entry(version, 0, problem="it is gone")
    except (OSError, ValueError, RecursionError) as error:
        return Entry(version, 0, problem=f"it cannot be read ({type(error).__name__})")
    if info is None:
        return Entry(version, at, problem="it says nothing of itself")
    parameters = info.get("operationParameters")
    mode = parameters.get("mode", "") if isinstance(parameters, Mapping) else ""
    engine = next(iter(str(info.get("engineInfo", "")).split()), "")
    return Entry(version, at, str(info.get("operation", "")), str(mode), _rows(info), engine)


def _commit_info(file: Path) -> Mapping[str, Any] | None:
    """The commitInfo action. Raises ValueError for what is not JSON."""
    left = MOST_BYTES
    with file.open("rb") as lines:
        while left > 0 and (line := lines.readline(left)):
            left -= len(line)
            if b'"commitInfo"' not in line:
                continue
            action = json.loads(line)
            info = action.get("commitInfo") if isinstance(action, dict) else None
            if isinstance(info, dict):
                return info
    return None


def _rows(info: Mapping[str, Any]) -> str:
    metrics = info.get("operationMetrics")
    if not isinstance(metrics, Mapping):
        return ""
    found = {word: str(metrics[name]) for name, word in _COUNTS if str(metrics.get(name, "0")) != "0"}
    if not found and any(name in metrics for name, _ in _COUNTS):
        return "0"
    return ", ".join(f"{count} {word}" for word, count in found.items())
