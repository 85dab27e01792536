"""What DESCRIBE says of a table: its name in three parts and that it is managed.

Delta knows each table of a workspace under a name of the session catalog and by its folder (see `DirectoryCatalog`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from databricks_bridge.local.engine.sql_text import Statement

_KNOWN_AS = r"(?:`?spark_catalog`?\.)?`?([\w-]+)__([\w-]+)__[0-9a-f]+`?\.`?([\w-]+)`?"


def described(frame: Any, statement: Statement) -> Any:
    """The result of a statement, with the table's own name and kind where it is a DESCRIBE."""
    if statement.starts("DESCRIBE|DESC", "DETAIL"):
        return detail(frame)
    if statement.starts("DESCRIBE|DESC", "HISTORY"):
        return history(frame)
    if statement.starts("DESCRIBE|DESC", "TABLE?", "EXTENDED|FORMATTED") and "data_type" in frame.columns:
        return _extended(frame)
    return frame


def detail(frame: Any) -> Any:
    """The frame of DESCRIBE DETAIL: a table of the workspace is named by the last three folders of its location."""
    from pyspark.sql import functions as F

    parts = F.slice(F.split("location", "/"), -3, 3)
    named = F.col("name").rlike(f"^{_KNOWN_AS}$")
    return frame.withColumn("name", F.when(named, F.array_join(parts, ".")).otherwise(F.col("name")))


def history(frame: Any) -> Any:
    """The frame of DESCRIBE HISTORY: who made a table of the workspace made a managed one."""
    from pyspark.sql import functions as F

    managed = F.transform_values(
        "operationParameters", lambda name, value: F.when(name == "isManaged", F.lit("true")).otherwise(value)
    )
    return frame.withColumn("operationParameters", managed)


def _extended(frame: Any) -> Any:
    from pyspark.sql import functions as F

    kind = (F.col("col_name") == "Type") & (F.col("data_type") == "EXTERNAL")
    name = F.regexp_replace("data_type", _KNOWN_AS, "$1.$2.$3")
    return frame.withColumn("data_type", F.when(kind, F.lit("MANAGED")).otherwise(name))


def adapt(delta_table: Any, catalog: Any) -> None:
    """The same for `DeltaTable.detail` and `.history`, and for `spark.catalog`."""
    delta_table.forName = classmethod(_remembering(delta_table.forName.__func__))
    delta_table.detail = _detail_of(delta_table.detail)
    delta_table.history = _then(delta_table.history, history)
    catalog.getTable = _then(catalog.getTable, _managed)
    catalog.listTables = _list_tables


def _remembering(for_name: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(for_name)
    def remembering(cls: Any, sparkSession: Any, tableOrViewName: str) -> Any:
        table = for_name(cls, sparkSession, tableOrViewName)
        table.bridge_name = tableOrViewName
        return table

    return remembering


def _detail_of(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def of(self: Any) -> Any:
        """Delta looks for a table by the name of the session catalog, in the current catalog, where it is not."""
        name = getattr(self, "bridge_name", None)
        return detail(own(self)) if name is None else self._spark.sql(f"DESCRIBE DETAIL {name}")

    return of


def _then(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        return change(function(*args, **kwargs))

    return changed


def _list_tables(self: Any, dbName: str | None = None, pattern: str | None = None) -> list[Any]:
    """`spark.catalog.listTables`: Spark's own does not decode the tables of a catalog that is not the session's."""
    from pyspark.sql.catalog import Table

    database = dbName or f"`{self.currentCatalog()}`.`{self.currentDatabase()}`"
    like = "" if pattern is None else " LIKE '" + pattern.replace("'", "\\'") + "'"
    found = []
    for row in self._sparkSession.sql(f"SHOW TABLES IN {database}{like}").collect():
        if row.isTemporary:
            found.append(Table(row.tableName, None, [], None, "TEMPORARY", isTemporary=True))
        else:
            found.append(self.getTable(f"{database}.`{row.tableName}`"))
    return found


def _managed(table: Any) -> Any:
    return table._replace(tableType="MANAGED") if table.tableType == "EXTERNAL" else table
