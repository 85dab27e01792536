"""Reading a Structured Streaming checkpoint where it lies; what it means is in `core.checkpoint`."""

from __future__ import annotations

from databricks_bridge.core.checkpoint import (
    Reached,
    StreamOffset,
    TableFiles,
    last_done,
    offsets_of,
    reached,
)
from databricks_bridge.core.errors import LedgerError, NotFound
from databricks_bridge.ledgers.object_store import open_url
from databricks_bridge.ledgers.objects import StoreObjects
from databricks_bridge.workspace.client import Workspace

NOTHING = Reached(-1)


async def checkpoint_reached(
    url: str, metadata_id: str | None = None, files: TableFiles | None = None, change_feed: bool | None = None
) -> Reached:
    """How far the stream with this checkpoint has wholly processed a Delta table. Raises LedgerError.

    :param url: the checkpoint's folder in an object store.
    :param metadata_id: the table's own id (`metaData.id` of its log), where the stream reads several.
    :param files: who tells how many files a version has that the stream stands in.
    :param change_feed: whether the stream reads the change feed; None where that is not known.
    """
    found = await _stored_offsets(url, metadata_id)
    return NOTHING if found is None else await reached(found, files, change_feed)


async def checkpoint_reached_in_volume(
    workspace: Workspace,
    folder: str,
    metadata_id: str | None = None,
    files: TableFiles | None = None,
    change_feed: bool | None = None,
) -> Reached:
    """The same for a checkpoint in a volume of this workspace, `/Volumes/...`. Raises LedgerError, and what the client does."""
    found = await _volume_offsets(workspace, folder, metadata_id)
    return NOTHING if found is None else await reached(found, files, change_feed)


async def checkpoint_version(url: str, metadata_id: str | None = None) -> int:
    """The last version of a Delta table that the checkpoint alone proves to be wholly processed; -1 for none.

    `metadata_id` is the table's own id (`metaData.id` of its log), where the stream reads several. Raises LedgerError.
    """
    return (await checkpoint_reached(url, metadata_id)).version


async def checkpoint_version_in_volume(workspace: Workspace, folder: str, metadata_id: str | None = None) -> int:
    """The same for a checkpoint in a volume of this workspace, `/Volumes/...`. Raises LedgerError, and what the client does."""
    return (await checkpoint_reached_in_volume(workspace, folder, metadata_id)).version


async def _stored_offsets(url: str, metadata_id: str | None) -> tuple[StreamOffset, ...] | None:
    offsets, commits = (
        StoreObjects(lambda: open_url(url, make=False), part, f"{url}/{part}") for part in ("offsets", "commits")
    )
    names = [found.key async for found in offsets.scan()], [found.key async for found in commits.scan()]
    batch = last_done(*names)
    if batch is None:
        return None
    text = await offsets.get(str(batch))
    if text is None:
        raise LedgerError(f"the offsets of batch {batch} vanished from the checkpoint {url}; look again")
    return offsets_of(text.decode(), metadata_id)


async def _volume_offsets(
    workspace: Workspace, folder: str, metadata_id: str | None
) -> tuple[StreamOffset, ...] | None:
    try:
        names = await workspace.file_names(f"{folder}/offsets"), await workspace.file_names(f"{folder}/commits")
    except NotFound as error:
        raise LedgerError(f"cannot read the checkpoint {folder}: {error}") from error
    batch = last_done(*names)
    if batch is None:
        return None
    try:
        text = await workspace.read_file(f"{folder}/offsets/{batch}")
    except NotFound as error:
        raise LedgerError(f"the offsets of batch {batch} vanished from the checkpoint {folder}; look again") from error
    return offsets_of(text.decode(), metadata_id)
