"""Why a person changes a record."""

from __future__ import annotations

from dataclasses import dataclass

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.texts import LONGEST_PART, bounded


@dataclass(frozen=True)
class Reason:
    """Who does it, and why; both stand in the history. Raises InvalidArgument when one is empty."""

    by: str
    why: str

    def __post_init__(self) -> None:
        if not self.by.strip() or not self.why.strip():
            raise InvalidArgument("who did it and why belong into the history; give both, --by and --why")

    def __str__(self) -> str:
        return bounded(f"by {self.by}: {self.why}", LONGEST_PART)
