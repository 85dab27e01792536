"""From a view to the tables under it, and what Databricks' own triggers would say to their number.

Unity Catalog lists a view's direct dependencies (`view_dependencies` of tables-get). Where it does not, the view's
definition is parsed by sqlglot, which is imported only then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.delta.identifiers import plain
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

VIEWS = frozenset({"METRIC_VIEW", "VIEW"})
TABLES_MAX = 10
"""Tables under one table-update trigger (Databricks documents 10; newer pages say 25 with file events). We only warn."""
VIEWS_MAX = 10
"""Dependent views under one table-update trigger."""
_LOOKUPS_MAX = 200


@dataclass(frozen=True)
class ViewTables:
    """What is under a view, all levels down, each once, in the order found. `entries` are the tables' catalog entries."""

    tables: tuple[str, ...]
    views: tuple[str, ...]
    entries: dict[str, dict[str, Any]]


def is_view(entry: dict[str, Any]) -> bool:
    """Whether a catalog entry has no versions of its own but those of the tables that it reads."""
    return str(entry.get("table_type")) in VIEWS


async def tables_of(workspace: Workspace, full_name: str, entry: dict[str, Any]) -> ViewTables:
    """The tables under the view `full_name`, whose catalog entry is `entry`.

    Raises InvalidArgument where they cannot be told, and what the catalog says to a dependency: NotPermitted, NotFound.
    """
    tables: dict[str, dict[str, Any]] = {}
    views: list[str] = []
    seen = {plain(full_name)}
    waiting = list(_dependencies(full_name, entry))
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if len(seen) > _LOOKUPS_MAX:
            raise InvalidArgument(
                f"the view {full_name} has over {_LOOKUPS_MAX} tables and views under it; name its tables"
            )
        below = await workspace.get_table(name)
        if is_view(below):
            views.append(name)
            waiting += _dependencies(name, below)
        else:
            tables[name] = below
    if not tables:
        raise InvalidArgument(f"the view {full_name} reads no table, so it has no versions; name a table instead")
    for what, found, most in (("tables", len(tables), TABLES_MAX), ("views", len(views), VIEWS_MAX)):
        if found > most:
            log.warning(
                "the view %s has %d %s under it; a Databricks table-update trigger on it takes %d, so such a job may be "
                "refused there (this look is not)",
                full_name,
                found,
                what,
                most,
            )
    return ViewTables(tuple(tables), tuple(views), tables)


def _dependencies(name: str, entry: dict[str, Any]) -> Iterable[str]:
    found = (entry.get("view_dependencies") or {}).get("dependencies") or []
    names = [
        str(item["table"]["table_full_name"]) for item in found if (item.get("table") or {}).get("table_full_name")
    ]
    if names:
        return names
    definition = entry.get("view_definition")
    if not definition:
        raise InvalidArgument(
            f"Unity Catalog lists neither the dependencies nor the definition of the view {name}; name the tables that it reads"
        )
    return parsed_tables(name, str(definition), str(entry.get("catalog_name")), str(entry.get("schema_name")))


def parsed_tables(view: str, definition: str, catalog: str, schema: str) -> list[str]:
    """The full names of the tables that a view's SQL reads; what is not qualified is of `catalog` and `schema`."""
    try:
        sqlglot = import_module("sqlglot")
        scopes = import_module("sqlglot.optimizer.scope")
    except ImportError:
        raise InvalidArgument(
            f"Unity Catalog does not list what the view {view} reads, and sqlglot, which would read its definition, is not "
            "installed; install it with the extra [views], or name the tables"
        ) from None
    try:
        statement = sqlglot.parse_one(definition, dialect="databricks")
        sources = [source for scope in scopes.traverse_scope(statement) for source in scope.sources.values()]
    except sqlglot.errors.SqlglotError as error:
        raise InvalidArgument(
            f"the definition of the view {view} cannot be parsed ({str(error).splitlines()[0]}); name the tables that it reads"
        ) from None
    names: dict[str, None] = {}
    for table in (source for source in sources if isinstance(source, sqlglot.exp.Table) and source.name):
        if "/" in table.name:
            raise InvalidArgument(
                f"the view {view} reads the path {table.name}, not a table of the catalog; name a table"
            )
        parts = (table.catalog or catalog, table.db or schema, table.name)
        names[".".join(parts)] = None
    return list(names)


def advice(view: str, found: ViewTables) -> str:
    """What to write instead of a view over several tables."""
    listed = ", ".join(found.tables)
    return f"the view {view} reads {len(found.tables)} tables and has no version of its own; name them as sources: {listed}"
