"""Reading a Structured Streaming checkpoint where it lies; what it means is in `core.checkpoint`."""

from __future__ import annotations

from databricks_bridge.core.checkpoint import last_done, processed_version
from databricks_bridge.core.errors import LedgerError, NotFound
from databricks_bridge.core.positions import BEFORE_FIRST
from databricks_bridge.ledgers.object_store import open_url
from databricks_bridge.ledgers.objects import StoreObjects
from databricks_bridge.workspace.client import Workspace


async def checkpoint_version(url: str, metadata_id: str | None = None) -> int:
    """The last version of a Delta table that the stream with this checkpoint has wholly processed; -1 for none.

    `metadata_id` is the table's own id (`metaData.id` of its log), where the stream reads several. Raises LedgerError.
    """
    offsets, commits = (
        StoreObjects(lambda: open_url(url, make=False), part, f"{url}/{part}") for part in ("offsets", "commits")
    )
    names = [found.key async for found in offsets.scan()], [found.key async for found in commits.scan()]
    batch = last_done(*names)
    if batch is None:
        return BEFORE_FIRST
    text = await offsets.get(str(batch))
    if text is None:
        raise LedgerError(f"the offsets of batch {batch} vanished from the checkpoint {url}; look again")
    return processed_version(text.decode(), metadata_id)


async def checkpoint_version_in_volume(workspace: Workspace, folder: str, metadata_id: str | None = None) -> int:
    """The same for a checkpoint in a volume of this workspace, `/Volumes/...`. Raises LedgerError, and what the client does."""
    try:
        names = await workspace.file_names(f"{folder}/offsets"), await workspace.file_names(f"{folder}/commits")
    except NotFound as error:
        raise LedgerError(f"cannot read the checkpoint {folder}: {error}") from error
    batch = last_done(*names)
    if batch is None:
        return BEFORE_FIRST
    try:
        text = await workspace.read_file(f"{folder}/offsets/{batch}")
    except NotFound as error:
        raise LedgerError(f"the offsets of batch {batch} vanished from the checkpoint {folder}; look again") from error
    return processed_version(text.decode(), metadata_id)
