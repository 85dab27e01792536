"""Where a table's metadata id can be read from, other than a commit: a version checksum, a checkpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from databricks_bridge.core.errors import BadAnswer, NotFound
from databricks_bridge.delta.commits import refuse_catalog_managed
from databricks_bridge.delta.files import Files, Listed
from databricks_bridge.delta.names import checksum_path, commit_path

_METADATA_PREFIX = b'{"metaData"'


async def from_checksum(files: Files, version: int) -> str | None:
    """The id in `<version>.crc`; None when the file says nothing of it, is broken or is gone."""
    try:
        checksum = json.loads(await files.whole(checksum_path(version)))
    except (NotFound, ValueError):
        return None
    if not isinstance(checksum, dict):
        return None
    if isinstance(checksum.get("protocol"), dict):
        refuse_catalog_managed(checksum["protocol"])
    return _id_of(checksum.get("metadata"))


async def from_rest_of_commit(files: Files, version: int) -> str | None:
    """The id in a commit whose beginning shows none: some writers put metaData behind the files."""
    async for line in files.lines(commit_path(version)):
        if line.replace(b" ", b"").startswith(_METADATA_PREFIX):
            return _id_of(json.loads(line)["metaData"])
    return None


async def from_checkpoint(files: Files, parts: Sequence[Listed]) -> str | None:
    """The id in a checkpoint of any kind. Reads only the column it needs."""
    for part in parts:
        if part.path.endswith(".json"):
            async for line in files.lines(part.path):
                if line.replace(b" ", b"").startswith(_METADATA_PREFIX):
                    return _id_of(json.loads(line)["metaData"])
        elif found := await asyncio.to_thread(_parquet_metadata_id, files, part):
            return found
    return None


def _parquet_metadata_id(files: Files, part: Listed) -> str | None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise BadAnswer(
            f"{part.path} of {files.where} has to be read for the table's metadata id, and pyarrow is not installed; "
            "install apache-airflow-provider-databricks-bridge[local], or pyarrow"
        ) from error
    try:
        column = pq.ParquetFile(files.reader(part.path)).read(columns=["metaData.id"]).column("metaData")
    except (pa.ArrowException, KeyError, OSError) as error:
        raise BadAnswer(f"{part.path} of {files.where} is not a checkpoint that can be read: {error}") from error
    return next((found for row in column.to_pylist() if (found := _id_of(row))), None)


def _id_of(metadata: Any) -> str | None:
    return str(metadata["id"]) if isinstance(metadata, dict) and metadata.get("id") else None
