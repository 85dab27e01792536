"""How many files a commit or a snapshot has, as a stream counts them."""

from __future__ import annotations

import json
from typing import Any, Protocol, runtime_checkable

from databricks_bridge.core.checkpoint import FileCounts
from databricks_bridge.core.errors import NotFound, Unavailable
from databricks_bridge.delta.files import Files
from databricks_bridge.delta.names import checksum_path


@runtime_checkable
class CountsFiles(Protocol):
    """A source of versions that can count files too: a `core.checkpoint.TableFiles`."""

    async def commit_files(self, version: int) -> FileCounts | None: ...

    async def snapshot_files(self, version: int) -> int | None: ...


async def commit_files(files: Files, path: str) -> FileCounts | None:
    """What the commit in this file has; None when the log does not have it any more. Raises Unavailable when it is not whole."""
    adds = removes = changes = 0
    try:
        async for line in files.lines(path):
            for name, value in _action(line, path, files.where).items():
                if name == "cdc":
                    changes += 1
                elif name in ("add", "remove") and isinstance(value, dict) and value.get("dataChange") is not False:
                    adds, removes = adds + (name == "add"), removes + (name == "remove")
    except NotFound:
        return None
    return FileCounts(adds=adds, removes=removes, changes=changes)


async def snapshot_files(files: Files, version: int) -> int | None:
    """What the version checksum says, which most writers make; None where there is none."""
    try:
        checksum = json.loads(await files.whole(checksum_path(version)))
    except (NotFound, ValueError):
        return None
    count = checksum.get("numFiles") if isinstance(checksum, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def _action(line: bytes, path: str, where: str) -> dict[str, Any]:
    if not line.strip():
        return {}
    try:
        action = json.loads(line)
    except ValueError as error:
        raise Unavailable(f"{path} of {where} is not whole, perhaps still being written; look again") from error
    return action if isinstance(action, dict) else {}
