"""What is in force for a table: its metadata and protocol, and where they can be read from other than a commit: a version
checksum, a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Self

from databricks_bridge.core.errors import BadAnswer, InvalidArgument, NotFound, Unavailable
from databricks_bridge.delta.files import Files, Listed
from databricks_bridge.delta.intervals import parse_interval
from databricks_bridge.delta.names import checksum_path, commit_path
from databricks_bridge.workspace.threads import in_thread_of

_PREFIXES = (b'{"metaData"', b'{"protocol"')
_CATALOG_MANAGED = frozenset({"catalogManaged", "catalogOwned-preview"})
_PARQUET_SECONDS = 300.0
_SUPPORTED = ("supported", "enabled")
_FEED = "delta.enableChangeDataFeed"
_IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
_DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
DELETED_FILE_RETENTION = timedelta(days=7)
"""Delta's default: `interval 1 week`."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The id of a table's metadata, and what its settings say.

    `change_data_feed`: its changes are recorded. `in_commit_timestamps`: a commit's own time counts, not its file's.
    `deleted_file_retention`: how long files out of use are kept, and how far back a batch may read. `names_catalog`: it names
    the table feature with which the catalog, not the log, knows the newest commit.
    """

    id: str
    change_data_feed: bool
    in_commit_timestamps: bool = False
    deleted_file_retention: timedelta = DELETED_FILE_RETENTION
    names_catalog: bool = False

    @classmethod
    def of(cls, action: Any) -> Self | None:
        """From a `metaData` action; None where it is none."""
        if not isinstance(action, dict) or not action.get("id"):
            return None
        settings = action.get("configuration") or {}
        # a map column comes out of Parquet as pairs
        settings = dict(settings) if isinstance(settings, list | dict) else {}
        retention = parse_interval(settings.get(_DELETED_FILE_RETENTION))
        return cls(
            str(action["id"]),
            _on(settings, _FEED),
            _on(settings, _IN_COMMIT_TIMESTAMPS),
            DELETED_FILE_RETENTION if retention is None else retention,
            names_catalog_managed(settings),
        )


@dataclass(frozen=True, slots=True)
class InForce:
    """What one place of the log says of a table. `catalog_managed` is what its protocol action says, None where it has none.

    `complete`: it says all that is in force at its version, so that nothing older counts.
    """

    metadata: Metadata | None = None
    catalog_managed: bool | None = None
    complete: bool = False

    def over(self, older: InForce) -> InForce:
        """This, and what is older where this says nothing."""
        managed = self.catalog_managed if self.catalog_managed is not None else older.catalog_managed
        return InForce(self.metadata or older.metadata, managed, self.complete or older.complete)

    @property
    def whole(self) -> bool:
        """Whether there is nothing more to look for."""
        return self.complete or (self.metadata is not None and self.catalog_managed is not None)

    def refuse_catalog_managed(self, where: str) -> None:
        """Raises InvalidArgument when the catalog, not the log, knows the newest commit."""
        if self.catalog_managed or (self.metadata is not None and self.metadata.names_catalog):
            raise _refused(where)


NOTHING = InForce()


def names_catalog_managed(settings: dict[str, Any]) -> bool:
    """Whether these settings, of a metaData action or of the catalog's entry, support the feature."""
    return any(str(settings.get(f"delta.feature.{name}")).lower() in _SUPPORTED for name in _CATALOG_MANAGED)


def is_catalog_managed(protocol: dict[str, Any]) -> bool:
    """Whether this protocol action says that the catalog, not the log, knows the newest commit."""
    return bool(_CATALOG_MANAGED & {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())})


def refuse_catalog_managed(protocol: dict[str, Any]) -> None:
    """Raises InvalidArgument when this protocol action says that the catalog, not the log, knows the newest commit."""
    if is_catalog_managed(protocol):
        raise _refused("the table")


def _refused(where: str) -> InvalidArgument:
    return InvalidArgument(
        f"{where} is catalog-managed (table feature catalogManaged): its newest commits are known to Unity "
        "Catalog alone, and its log in storage may lag behind; read its version from the catalog (via='catalog') or by SQL (via='sql')"
    )


def _on(settings: dict[str, Any], name: str) -> bool:
    return str(settings.get(name)).lower() == "true"


async def from_checksum(files: Files, version: int) -> InForce | None:
    """What `<version>.crc` says; None when it says nothing of the metadata, is broken or is gone."""
    try:
        checksum = json.loads(await files.whole(checksum_path(version)))
    except (NotFound, ValueError):
        return None
    if not isinstance(checksum, dict) or (found := Metadata.of(checksum.get("metadata"))) is None:
        return None
    protocol = checksum.get("protocol")
    managed = is_catalog_managed(protocol) if isinstance(protocol, dict) else None
    return InForce(found, managed, complete=managed is not None)


async def from_rest_of_commit(files: Files, version: int) -> InForce:
    """What a commit says whose beginning shows nothing: some writers put metaData behind the files."""
    return await _in_lines(files, commit_path(version))


async def from_checkpoint(files: Files, parts: Sequence[Listed]) -> InForce:
    """What a checkpoint of any kind says. Reads only the columns it needs. Raises BadAnswer for one that is not whole."""
    found = NOTHING
    for part in parts:
        if found.whole:
            break
        if part.path.endswith(".json"):
            found = found.over(await _in_lines(files, part.path))
        else:
            read = partial(_in_parquet, files, part)
            try:
                there = await in_thread_of(f"log of {files.where}", read, seconds=_PARQUET_SECONDS, at_once=1)
            except TimeoutError as error:
                raise Unavailable(f"{part.path} of {files.where} was not read in {_PARQUET_SECONDS:g} s") from error
            found = found.over(there)
    return InForce(found.metadata, found.catalog_managed, complete=found.metadata is not None)


async def _in_lines(files: Files, path: str) -> InForce:
    found = NOTHING
    async for line in files.lines(path):
        if not line.replace(b" ", b"").startswith(_PREFIXES):
            continue
        try:
            action = json.loads(line)
        except ValueError as error:
            raise BadAnswer(f"{path} of {files.where} is not whole: {error}") from error
        managed = is_catalog_managed(action["protocol"]) if isinstance(action.get("protocol"), dict) else None
        found = found.over(InForce(Metadata.of(action.get("metaData")), managed))
        if found.whole:
            break
    return found


def _in_parquet(files: Files, part: Listed) -> InForce:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise BadAnswer(
            f"{part.path} of {files.where} has to be read for the table's metadata id, and pyarrow is not installed; "
            "install apache-airflow-provider-databricks-bridge[local], or pyarrow"
        ) from error
    try:
        checkpoint = pq.ParquetFile(files.reader(part.path))
        # a part has only the columns of the actions that are in it
        there = [name for name in ("metaData", "protocol") if name in checkpoint.schema_arrow.names]
        wanted = [name for name in there if name == "protocol"]
        if "metaData" in there:
            wanted += ["metaData.id", "metaData.configuration"]
        rows = checkpoint.read(columns=wanted).to_pylist() if there else []
    except (pa.ArrowException, KeyError, OSError) as error:
        raise BadAnswer(f"{part.path} of {files.where} is not a checkpoint that can be read: {error}") from error
    found = next((one for row in rows if (one := Metadata.of(row.get("metaData")))), None)
    protocol = next((row["protocol"] for row in rows if isinstance(row.get("protocol"), dict) and _said(row)), None)
    return InForce(found, None if protocol is None else is_catalog_managed(protocol))


def _said(row: dict[str, Any]) -> bool:
    return any(value is not None for value in row["protocol"].values())
