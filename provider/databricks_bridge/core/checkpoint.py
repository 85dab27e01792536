"""How far a Structured Streaming checkpoint has processed a Delta table.

Layout: `offsets/N` is written before batch N, `commits/N` after it; an offsets file has a line `v1`, a line of metadata,
and one line for each source, JSON or `-` (Spark's OffsetSeqLog; Delta's DeltaSourceOffset).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.positions import BEFORE_FIRST

_HEADER_LINES = 2


def last_done(offsets: Iterable[str], commits: Iterable[str]) -> int | None:
    """The newest batch that was planned and committed, from the names in both folders; None while there is none."""
    return max(_batches(offsets) & _batches(commits), default=None)


def processed_version(offsets: str, metadata_id: str | None) -> int:
    """The last version that is wholly processed when the batch of this offsets file is done.

    Worked example: `reservoirVersion` 7 at index -1 is "before anything of 7", so 6. In the middle of 7, or of the first
    snapshot, what is begun does not count. `metadata_id` picks the table among several. Raises LedgerError.
    """
    found = [offset for offset in _delta_offsets(offsets) if metadata_id in (None, offset["reservoirId"])]
    if len({offset["reservoirId"] for offset in found}) != 1:
        ids = ", ".join(sorted({str(offset["reservoirId"]) for offset in _delta_offsets(offsets)})) or "no Delta table"
        raise LedgerError(
            f"the checkpoint reads {ids}; it has to be one table, with the id {metadata_id or '(not known)'}"
        )
    return min(_whole(offset) for offset in found)


def _whole(offset: dict[str, Any]) -> int:
    if offset.get("isStartingVersion") or offset.get("isInitialSnapshot"):
        return BEFORE_FIRST
    return int(offset["reservoirVersion"]) - 1


def _delta_offsets(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines()[_HEADER_LINES:]:
        try:
            value = json.loads(line) if line.strip() not in ("", "-") else None
        except ValueError as error:
            raise LedgerError(f"the checkpoint's offsets are not whole ({error})") from error
        if isinstance(value, dict) and "reservoirId" in value and "reservoirVersion" in value:
            found.append(value)
    return found


def _batches(names: Iterable[str]) -> set[int]:
    return {int(name) for name in names if name.isdecimal()}
