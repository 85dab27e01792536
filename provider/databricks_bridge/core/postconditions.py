"""What can prove, apart from the run itself, that a claim was processed: how far a checkpoint or a control table came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.positions import Range, TablePosition
from databricks_bridge.core.record import FIRST_EPOCH
from databricks_bridge.core.sources import DeltaTable, Source, check_table_name
from databricks_bridge.core.urls import redacted

_URL = re.compile(r"(s3|gs|abfss|file)://\S+")
_PART = re.compile(r"[A-Za-z0-9_-]+")
VOLUMES = "/Volumes/"


@dataclass(frozen=True)
class CheckpointReached:
    """The checkpoint of the consumer's Structured Streaming query has wholly processed `to`.

    `checkpoint` is its folder: `/Volumes/...`, read with the operator's connection (or `databricks_conn_id`), or the URL of an
    object store (s3, gs, abfss, file), read with the credentials of the environment. `alias` names the one source that
    the query reads; without it the checkpoint is asked for every table of the claim.

    A query that stopped inside a version has processed it when it has read its last file, which the table's log tells.
    Where that version has change files (UPDATE, DELETE, MERGE), the query is taken for one with `readChangeFeed`; say
    `change_feed=False` for a query of the table itself, with `ignoreChanges` or the like, over a table that records its changes.
    Raises InvalidArgument.
    """

    checkpoint: str
    alias: str | None = None
    databricks_conn_id: str | None = None
    change_feed: bool | None = None

    def __post_init__(self) -> None:
        if self.change_feed not in (None, True, False):
            raise InvalidArgument(f"change_feed of CheckpointReached is {self.change_feed!r}; give True, False or None")
        given = self.checkpoint
        object.__setattr__(self, "checkpoint", str(given).removeprefix("dbfs:").rstrip("/"))
        in_volume = self.checkpoint.startswith(VOLUMES) and len(self.checkpoint.split("/")) >= 6
        if not in_volume and (not _URL.fullmatch(self.checkpoint) or redacted(given) != str(given)):
            raise InvalidArgument(
                f"checkpoint is {redacted(given)!r}; give a folder in a volume (/Volumes/catalog/schema/volume/...) or the URL of "
                "one in an object store (s3, gs, abfss, file)"
            )

    def __str__(self) -> str:
        return f"the checkpoint {self.checkpoint}"


@dataclass(frozen=True)
class ControlTableReached:
    """A control table says that every table of the claim was processed up to `to`.

    `table` has the columns `job`, `source` and `last_version`; `source` is the alias, `job` the subscription's name unless
    given. It is read by SQL on the warehouse of this name, which that wakes, with the operator's connection (or
    `databricks_conn_id`). Raises InvalidArgument.
    """

    table: str
    warehouse: str
    job: str | None = None
    databricks_conn_id: str | None = None

    def __post_init__(self) -> None:
        check_table_name(self.table, "table of ControlTableReached")
        if not all(_PART.fullmatch(part.strip("`")) for part in self.table.split(".")):
            raise InvalidArgument(f"table of ControlTableReached is {self.table!r}; use letters, digits, _ and -")
        if not isinstance(self.warehouse, str) or not self.warehouse.strip():
            raise InvalidArgument(f"warehouse of ControlTableReached is {self.warehouse!r}; give the warehouse's name")

    @property
    def quoted(self) -> str:
        """The table's name as SQL takes it."""
        return ".".join(f"`{part.strip('`')}`" for part in self.table.split("."))

    def __str__(self) -> str:
        return f"the control table {self.table}"


Readable = CheckpointReached | ControlTableReached


def conditions_of(postcondition: object, sources: Iterable[Source]) -> tuple[object, ...]:
    """The conditions that all have to hold: none, one, or a sequence of them. Raises InvalidArgument."""
    if postcondition is None:
        return ()
    conditions = tuple(postcondition) if isinstance(postcondition, list | tuple) else (postcondition,)
    tables = {source.alias for source in sources if isinstance(source, DeltaTable)}
    for one in conditions:
        if not isinstance(one, Readable) and not callable(one):
            raise InvalidArgument(
                f"postcondition is {one!r}; give CheckpointReached(...), ControlTableReached(...) or a function of "
                "(ranges, run_id)"
            )
        if isinstance(one, CheckpointReached) and one.alias is not None and one.alias not in tables:
            raise InvalidArgument(
                f"{one} is for {one.alias!r}, which is no table of the subscription: {sorted(tables)}"
            )
        if isinstance(one, Readable) and not tables:
            raise InvalidArgument(f"{one} tells versions, and the subscription has no table; give a function instead")
    return conditions


def asked_of(condition: Readable, ranges: Sequence[Range]) -> dict[str, TablePosition]:
    """How far each table has to have come, by alias. A table with nothing new is not asked for."""
    wanted = condition.alias if isinstance(condition, CheckpointReached) else None
    return {
        one.alias: one.to
        for one in ranges
        if isinstance(one.to, TablePosition) and not one.empty and wanted in (None, one.alias)
    }


def untold_of(conditions: Iterable[object], ranges: Sequence[Range], epoch: str) -> str:
    """Why the conditions cannot tell by themselves, without a run, that these ranges were processed; empty where they can.

    They must tell of every range. And only in the first epoch: after a rewind, or for a table that was made anew, a checkpoint or
    a control table still has the higher number of before.
    """
    conditions = tuple(conditions)
    told: set[str] = set()
    if epoch != FIRST_EPOCH and conditions and all(isinstance(one, Readable) for one in conditions):
        return f"its postcondition may tell of the time before the epoch {epoch}"
    for one in conditions:
        if not isinstance(one, Readable):
            return ""  # a function is given all of them
        told |= asked_of(one, ranges).keys()
    untold = [str(one) for one in ranges if not one.empty and one.alias not in told]
    return f"its postcondition tells nothing of {', '.join(untold)}" if untold else ""


def missing_of(condition: Readable, asked: Mapping[str, TablePosition], reached: Mapping[str, int]) -> str:
    """What has not come far enough, as words; empty where all has. A table that is not mentioned has not begun."""
    behind = [
        f"{alias} at {reached[alias]}, not at {to.version}" if alias in reached else f"nothing of {alias}"
        for alias, to in asked.items()
        if reached.get(alias, -1) < to.version
    ]
    return f"{condition} has {', '.join(behind)}" if behind else ""
