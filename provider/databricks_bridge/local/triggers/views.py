"""A view is watched by the tables it reads; they count against the trigger's limit (Databricks docs, table update triggers)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.triggers.commits import table_exists, view_file
from databricks_bridge.local.triggers.outcome import CannotEvaluate

MOST_VIEWS = 10
"""Views below one watched view."""
_QUIET = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_NAME = r"(?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|\w+)){0,2}"
_READS = re.compile(rf"\b(?:FROM|JOIN)\s+({_NAME}(?:\s*,\s*{_NAME})*)", re.IGNORECASE)


def behind(layout: Layout, metastore: str, names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tables behind `names` and the views among and behind them, each once, in order.

    Raises CannotEvaluate for a view that cannot be followed.
    """
    found: dict[str, None] = {}
    views: dict[str, None] = {}
    for name in names:
        for table in _tables_behind(layout, metastore, name, [], views):
            found[table] = None
    return tuple(found), tuple(views)


def _tables_behind(layout: Layout, metastore: str, name: str, above: list[str], views: dict[str, None]) -> list[str]:
    file = view_file(layout.table_path(metastore, name))
    if not file.exists():
        return [name]
    views[name] = None
    if name in above or len(above) > MOST_VIEWS:
        raise CannotEvaluate(f"the view {name} depends on more than {MOST_VIEWS} views, or on itself")
    try:
        view = json.loads(file.read_text(encoding="utf-8"))
        query, catalog, namespace = str(view["query"]), str(view["catalog"]), ".".join(view["namespace"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotEvaluate(f"the view {name} cannot be read: {type(error).__name__}: {error}") from None
    tables = []
    for read in _names_read(query):
        parts = [part.strip("` \n\t").lower() for part in read.split(".")]
        whole = ".".join([*[catalog, namespace][: 3 - len(parts)], *parts])
        if _is_there(layout, metastore, whole):
            tables += _tables_behind(layout, metastore, whole, [*above, name], views)
    if not tables:
        raise CannotEvaluate(f"the view {name} reads no table of this metastore; only such views can be watched")
    return tables


def _names_read(query: str) -> list[str]:
    """What stands after FROM and JOIN; names of common table expressions too, which are no tables."""
    code = _QUIET.sub(" ", query)
    return [name.strip() for match in _READS.finditer(code) for name in match[1].split(",")]


def _is_there(layout: Layout, metastore: str, name: str) -> bool:
    try:
        table = layout.table_path(metastore, name)
    except InvalidArgument:
        return False
    return table_exists(table) or view_file(table).exists()
