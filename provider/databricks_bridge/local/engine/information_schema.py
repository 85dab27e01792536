"""The information schema, computed for each statement that names it: from the API of the workspace, as of that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.sql_text import Statement
from databricks_bridge.local.engine.workspace_api import WorkspaceApi, current
from databricks_bridge.local.refusals import Area, words

NAME = "information_schema"
_SYSTEM = "system"
Row = tuple[Any, ...]
_TABLES: dict[str, str] = {
    "catalogs": "catalog_name STRING, catalog_owner STRING, comment STRING",
    "schemata": "catalog_name STRING, schema_name STRING, schema_owner STRING, comment STRING",
    "tables": "table_catalog STRING, table_schema STRING, table_name STRING, table_type STRING, "
    "is_insertable_into STRING, table_owner STRING, comment STRING, data_source_format STRING",
    "views": "table_catalog STRING, table_schema STRING, table_name STRING, view_definition STRING",
    "columns": "table_catalog STRING, table_schema STRING, table_name STRING, column_name STRING, "
    "ordinal_position INT, is_nullable STRING, full_data_type STRING, data_type STRING, comment STRING",
    "volumes": "volume_catalog STRING, volume_schema STRING, volume_name STRING, volume_type STRING, "
    "volume_owner STRING, comment STRING, storage_location STRING",
}


def resolved(statement: Statement, session: Any, current_catalog: Callable[[], str]) -> tuple[str, list[str]]:
    """The statement with temporary views in the place of tables of an information schema, and the names of the views.

    :param statement: what is asked
    :param session: the session that gets the views; the caller drops them
    :param current_catalog: asked where the statement names none
    """
    pieces: list[tuple[int, int, str]] = []
    made: dict[tuple[str, str], str] = {}
    for _, parts in statement.names():
        texts = [part.text.lower() for part in parts]
        if NAME not in texts[:2] or texts.index(NAME) + 1 >= len(texts):
            continue
        at = texts.index(NAME)
        catalog, table = (texts[0] if at else current_catalog()), texts[at + 1]
        if table not in _TABLES:
            no = words(Area.SQL, "other information schemas")
            raise NotServedHere(f"{catalog}.{NAME}.{table}: {no}")
        if (catalog, table) not in made:
            view = made[catalog, table] = f"__{NAME}_{len(made)}_{table}"
            session.createDataFrame(list(_rows(current(), catalog, table)), _TABLES[table]).createOrReplaceTempView(
                view
            )
        pieces.append((parts[0].begin, parts[at + 1].end, made[catalog, table]))
    return statement.replaced(pieces), list(made.values())


def _rows(api: WorkspaceApi, catalog: str, table: str) -> Iterator[Row]:
    """Of one catalog; the information schema of `system` is that of all."""
    catalogs = api.listed("catalogs", "catalogs")
    shown = [one for one in catalogs if catalog in (_SYSTEM, one["name"])]
    if not shown:
        api.call("GET", f"catalogs/{catalog}")  # raises what the API says of a catalog that is not there
    for one in shown:
        if table == "catalogs":
            yield one["name"], one.get("owner"), one.get("comment")
        else:
            yield from _of_catalog(api, one["name"], table)


def _of_catalog(api: WorkspaceApi, catalog: str, table: str) -> Iterator[Row]:
    for schema in api.listed("schemas", "schemas", catalog_name=catalog):
        name = schema["name"]
        if table == "schemata":
            yield catalog, name, schema.get("owner"), schema.get("comment")
        elif table == "volumes":
            for one in api.listed("volumes", "volumes", catalog_name=catalog, schema_name=name):
                fields = ("name", "volume_type", "owner", "comment", "storage_location")
                yield (catalog, name, *(one.get(field) for field in fields))
        else:
            for one in api.listed("tables", "tables", catalog_name=catalog, schema_name=name):
                yield from _of_table(one, table)


def _of_table(one: dict[str, Any], table: str) -> Iterator[Row]:
    where = (one["catalog_name"], one["schema_name"], one["name"])
    is_view = one.get("table_type") == "VIEW"
    if table == "tables":
        kind, insertable = one.get("table_type"), "NO" if is_view else "YES"
        yield (*where, kind, insertable, one.get("owner"), one.get("comment"), one.get("data_source_format"))
    elif table == "views" and is_view:
        yield (*where, one.get("view_definition"))
    elif table == "columns":
        for column in one.get("columns", []):
            nullable = "YES" if column.get("nullable", True) else "NO"
            kinds = (column.get("type_text"), column.get("type_name"))
            yield (*where, column["name"], column.get("position"), nullable, *kinds, column.get("comment"))
