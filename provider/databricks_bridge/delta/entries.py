"""Entries of Unity Catalog for many tables at a time: where several of one schema are asked for, the schema is listed once.

A triggerer that begins to watch ten thousand tables would need as many calls, and the catalog publishes no rate. What a
listing does not show (dependencies of views, tables hidden from it) is asked for by name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from databricks_bridge.core.errors import WorkspaceError
from databricks_bridge.delta.identifiers import split
from databricks_bridge.delta.views import VIEWS

if TYPE_CHECKING:
    from databricks_bridge.workspace.client import Workspace

FRESH_SECONDS = 60.0
"""A listing answers for so long."""
SINGLE_CALLS = 8
"""So many tables of a schema are asked for by name within `FRESH_SECONDS` before the schema is listed."""
_LIST = "/api/2.1/unity-catalog/tables"
_KEPT = (
    "table_type",
    "data_source_format",
    "storage_location",
    "table_id",
    "row_filter",
    "catalog_name",
    "schema_name",
)


@dataclass
class _Schema:
    asked: list[float] = field(default_factory=list)
    waiting: int = 0
    listed_at: float = float("-inf")
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Entries:
    """The catalog of one workspace. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._schemas: dict[tuple[str, str], _Schema] = {}

    async def entry(self, workspace: Workspace, full_name: str) -> dict[str, Any]:
        """The table's entry, at most a minute old. Raises what `Workspace.get_table` raises."""
        catalog, schema_name, table = split(full_name)
        schema = self._schemas.setdefault((catalog, schema_name), _Schema())
        now = self._clock()
        schema.asked = [at for at in schema.asked if now - at < FRESH_SECONDS] + [now]
        if len(schema.asked) > SINGLE_CALLS:
            schema.waiting += 1
            try:
                async with schema.turn:
                    if self._clock() - schema.listed_at >= FRESH_SECONDS:
                        await self._list(workspace, catalog, schema_name, schema)
            finally:
                schema.waiting -= 1
        self._drop_old()
        return schema.entries.pop(table, None) or await workspace.get_table(f"{catalog}.{schema_name}.{table}")

    async def _list(self, workspace: Workspace, catalog: str, schema_name: str, schema: _Schema) -> None:
        """Lists page after page, as long as there are more who wait than pages read: a schema may have any size."""
        schema.listed_at, schema.entries = self._clock(), {}
        query: dict[str, Any] = {"catalog_name": catalog, "schema_name": schema_name, "max_results": 0}
        pages = 0
        while pages < len(schema.asked):
            try:
                page = await workspace.get(_LIST, query)
            except WorkspaceError:
                return  # the answer by name says what is wrong
            pages += 1
            for entry in page.get("tables") or []:
                if entry.get("name") and str(entry.get("table_type")) not in VIEWS:
                    schema.entries[str(entry["name"])] = _kept(entry)
            if not (token := page.get("next_page_token")):
                return
            query["page_token"] = token

    def _drop_old(self) -> None:
        now = self._clock()
        for key in [
            key
            for key, schema in self._schemas.items()
            if not schema.waiting and now - max(schema.listed_at, schema.asked[-1]) >= FRESH_SECONDS
        ]:
            del self._schemas[key]


def _kept(entry: dict[str, Any]) -> dict[str, Any]:
    """What is read of an entry; columns may be thousands."""
    kept = {name: entry[name] for name in _KEPT if entry.get(name) is not None}
    kept["properties"] = {
        name: value
        for name, value in (entry.get("properties") or {}).items()
        if name.startswith("delta.feature.catalog")
    }
    kept["columns"] = [{"mask": column["mask"]} for column in entry.get("columns") or [] if column.get("mask")][:1]
    return kept


_entries: WeakKeyDictionary[Workspace, Entries] = WeakKeyDictionary()


async def entry_of(workspace: Workspace, full_name: str) -> dict[str, Any]:
    """The entry of a table, by the shared catalog of this client."""
    return await _entries.setdefault(workspace, Entries()).entry(workspace, full_name)
