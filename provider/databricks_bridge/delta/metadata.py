"""What is read of a table's metadata, and where it can be read from other than a commit: a version checksum, a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from databricks_bridge.core.errors import BadAnswer, InvalidArgument, NotFound, Unavailable
from databricks_bridge.delta.files import Files, Listed
from databricks_bridge.delta.names import checksum_path, commit_path
from databricks_bridge.workspace.threads import in_thread_of

_METADATA_PREFIX = b'{"metaData"'
_CATALOG_MANAGED = frozenset({"catalogManaged", "catalogOwned-preview"})
_PARQUET_SECONDS = 300.0
_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class Metadata:
    """The id of a table's metadata, and whether its changes are recorded (`delta.enableChangeDataFeed`)."""

    id: str
    change_data_feed: bool

    @classmethod
    def of(cls, action: Any) -> Self | None:
        """From a `metaData` action; None where it is none."""
        if not isinstance(action, dict) or not action.get("id"):
            return None
        settings = action.get("configuration") or {}
        # a map column comes out of Parquet as pairs
        settings = dict(settings) if isinstance(settings, list | dict) else {}
        return cls(str(action["id"]), str(settings.get(_FEED)).lower() == "true")


def refuse_catalog_managed(protocol: dict[str, Any]) -> None:
    """Raises InvalidArgument when this protocol action says that the catalog, not the log, knows the newest commit."""
    if _CATALOG_MANAGED & {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}:
        raise InvalidArgument(
            "the table is catalog-managed (table feature catalogManaged): its newest commits are known to Unity "
            "Catalog alone, and its log in storage may lag behind; read its version from the catalog (via='catalog') or by SQL (via='sql')"
        )


async def from_checksum(files: Files, version: int) -> Metadata | None:
    """What `<version>.crc` says; None when it says nothing of it, is broken or is gone."""
    try:
        checksum = json.loads(await files.whole(checksum_path(version)))
    except (NotFound, ValueError):
        return None
    if not isinstance(checksum, dict):
        return None
    if isinstance(checksum.get("protocol"), dict):
        refuse_catalog_managed(checksum["protocol"])
    return Metadata.of(checksum.get("metadata"))


async def from_rest_of_commit(files: Files, version: int) -> Metadata | None:
    """What a commit says whose beginning shows none: some writers put metaData behind the files."""
    async for line in files.lines(commit_path(version)):
        if line.replace(b" ", b"").startswith(_METADATA_PREFIX):
            return Metadata.of(json.loads(line)["metaData"])
    return None


async def from_checkpoint(files: Files, parts: Sequence[Listed]) -> Metadata | None:
    """What a checkpoint of any kind says. Reads only the columns it needs."""
    for part in parts:
        if part.path.endswith(".json"):
            async for line in files.lines(part.path):
                if line.replace(b" ", b"").startswith(_METADATA_PREFIX):
                    return Metadata.of(json.loads(line)["metaData"])
        else:
            read = partial(_in_parquet, files, part)
            try:
                found = await in_thread_of(f"log of {files.where}", read, seconds=_PARQUET_SECONDS, at_once=1)
            except TimeoutError as error:
                raise Unavailable(f"{part.path} of {files.where} was not read in {_PARQUET_SECONDS:g} s") from error
            if found:
                return found
    return None


def _in_parquet(files: Files, part: Listed) -> Metadata | None:
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
        column = checkpoint.read(columns=["metaData.id", "metaData.configuration"]).column("metaData")
    except (pa.ArrowException, KeyError, OSError) as error:
        raise BadAnswer(f"{part.path} of {files.where} is not a checkpoint that can be read: {error}") from error
    return next((found for row in column.to_pylist() if (found := Metadata.of(row))), None)
