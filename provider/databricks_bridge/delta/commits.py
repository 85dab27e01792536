"""What one commit file says: whether it carries data, which operation wrote it, which metadata it sets.

Actions first, the operation second; what cannot be told counts as data, because a run too many costs little and
a range too few is lost. (Delta protocol, "Actions"; the operation names are those of Delta-Spark and delta-rs.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from databricks_bridge.delta.metadata import InForce, Metadata, is_catalog_managed, refuse_catalog_managed

HEAD_BYTES = 64 * 1024
"""How much of a commit is read to classify it and to fingerprint it."""

# Operations that never change rows. Everything that is not listed here may.
MAINTENANCE = frozenset(
    {
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "CLUSTER BY",
        "COMPUTE STATS",
        "CREATE TABLE",
        "DOMAIN METADATA CLEANUP",
        "DROP COLUMNS",
        "DROP CONSTRAINT",
        "DROP FEATURE",
        "Deletion Vector Tombstones",
        "Empty Commit",
        "FSCK",
        "OPTIMIZE",
        "OPTIMIZE CHECKPOINT",
        "REMOVE COLUMN MAPPING",
        "RENAME COLUMN",
        "REORG",
        "REORG TABLE UPGRADE UNIFORM",
        "REPLACE COLUMNS",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPDATE SCHEMA",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)
# Operations that may write a metaData action, but with the id that the table has. Not here: what creates, replaces,
# restores or clones, and what is not known.
_KEEPS_METADATA_ID = (MAINTENANCE - {"CREATE TABLE"}) | {
    "DELETE",
    "MERGE",
    "STREAMING UPDATE",
    "TRUNCATE",
    "UPDATE",
    "WRITE",
}
_FILE_ACTIONS = ("add", "remove")
# Actions of the protocol that change no rows by themselves. `cdc` always comes with an add or a remove.
_OTHER_ACTIONS = frozenset(
    {"commitInfo", "metaData", "protocol", "txn", "cdc", "domainMetadata", "checkpointMetadata", "sidecar"}
)
_VACUUMS = ("VACUUM START", "VACUUM END")


@dataclass(frozen=True, kw_only=True)
class CommitHead:
    """What the beginning of a commit says. `metadata` is None when no metaData action was seen in it, `catalog_managed` when no
    protocol action was; `deletes_older_than` is the retention of a VACUUM. `in_commit_at` is the commit's own time, which counts
    where in-commit timestamps are on. `cut`: it is not (the beginning of) a whole commit, so it is still being written.
    """

    carries_data: bool
    operation: str | None
    metadata: Metadata | None
    deletes_older_than: timedelta | None = None
    catalog_managed: bool | None = None
    in_commit_at: datetime | None = None
    cut: bool = False

    @property
    def says(self) -> InForce:
        """What it sets."""
        return InForce(self.metadata, self.catalog_managed)

    @property
    def metadata_id(self) -> str | None:
        return self.metadata.id if self.metadata else None

    @property
    def keeps_metadata_id(self) -> bool:
        """Whether the operation is known to leave the table's metadata id as it was (but in a first commit)."""
        return self.operation in _KEEPS_METADATA_ID


def carries_data(commit: bytes, *, whole: bool = True) -> bool:
    """Whether the commit changes rows. Give `whole=False` when `commit` is only its beginning."""
    return read_head(commit, whole=whole).carries_data


def read_head(commit: bytes, *, whole: bool, ratified: bool = False) -> CommitHead:
    """Reads the commit, or its beginning.

    Raises InvalidArgument where it makes the table catalog-managed, unless the catalog was asked and has `ratified` this commit,
    or the caller knows what is in force now.
    """
    operation: str | None = None
    metadata: Metadata | None = None
    retention: timedelta | None = None
    managed: bool | None = None
    in_commit_at: datetime | None = None
    data = False
    certain = whole and bool(commit.strip())
    cut = b"\0" in commit or (whole and not commit.strip())
    for action in _actions(commit, whole=whole):
        if action is None:
            certain, cut = False, True
            continue
        for name, value in action.items():
            if not isinstance(value, dict):
                certain = False
            elif name in _FILE_ACTIONS:
                data = data or value.get("dataChange") is not False
            elif name == "commitInfo":
                operation = str(value["operation"]) if value.get("operation") else None
                retention = _retention(value) if operation in _VACUUMS else None
                in_commit_at = _moment(value.get("inCommitTimestamp"))
            elif name == "metaData":
                metadata = Metadata.of(value)
            elif name == "protocol":
                managed = is_catalog_managed(value)
                if not ratified:
                    refuse_catalog_managed(value)
            elif name not in _OTHER_ACTIONS:
                certain = False
    if not certain and operation not in MAINTENANCE:
        data = True
    return CommitHead(
        carries_data=data,
        operation=operation,
        metadata=metadata,
        deletes_older_than=retention,
        catalog_managed=managed,
        in_commit_at=in_commit_at,
        cut=cut,
    )


def ends_cut(tail: bytes) -> bool:
    """Whether this end of a commit file was cut: its last line is no action, or bytes are missing in it."""
    text = tail.rstrip(b"\r\n")
    before, line_end, last = text.rpartition(b"\n")
    if b"\0" in text or not last.strip():
        return True
    if not line_end and not before:
        return not last.endswith(b"}")  # the line begins before this
    try:
        return not isinstance(json.loads(last), dict)
    except ValueError:
        return True


def _moment(millis: object) -> datetime | None:
    try:
        return None if millis is None else datetime.fromtimestamp(int(str(millis)) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _retention(commit_info: dict[str, Any]) -> timedelta | None:
    """How long files out of use are kept: what was asked for, else the table's own (`deletedFileRetentionDuration`)."""
    given = commit_info.get("operationParameters")
    if not isinstance(given, dict):
        return None
    for name in ("specifiedRetentionMillis", "defaultRetentionMillis"):
        try:
            return timedelta(milliseconds=int(given[name]))
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return None


def _actions(commit: bytes, *, whole: bool) -> Iterator[dict[str, Any] | None]:
    """Each line's action; None for a line that is none. The last line of a mere beginning is cut, and left out."""
    lines = commit.split(b"\n")
    if not whole:
        lines.pop()
    for line in lines:
        if not line.strip():
            continue
        try:
            parsed = json.loads(line)
        except ValueError:
            parsed = None
        yield parsed if isinstance(parsed, dict) else None
