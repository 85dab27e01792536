"""What `spark.sql` does beside Spark: statements that Databricks has and Spark lacks are served, or refused by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine import information_schema
from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.paths import VolumePaths
from databricks_bridge.local.engine.sql_commands import COMMANDS, Answer, NotUnderstood, Reader
from databricks_bridge.local.engine.sql_descriptions import described
from databricks_bridge.local.engine.sql_refusals import refuse
from databricks_bridge.local.engine.sql_text import Statement
from databricks_bridge.local.engine.workspace_api import ApiRefused

_CATALOG = "spark.sql.catalog."
_DEFAULT_SCHEMA = "default"


def sql_of(spark_sql: Callable[..., Any], volumes: VolumePaths) -> Callable[..., Any]:
    """`SparkSession.sql` with all of that. `spark_sql` is Spark's own."""

    @functools.wraps(spark_sql)
    def sql(self: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:
        statement = Statement.of(sqlQuery)
        refuse(statement)
        answer = _answered(self, statement, volumes)
        if answer is not None:
            return _frame(self, answer)
        text = _as_spark_has_it(statement)
        text, views = information_schema.resolved(Statement.of(text), self, self.catalog.currentCatalog)
        try:
            frame = spark_sql(self, volumes.translated_sql(text), *args, **kwargs)
        finally:
            for view in views:
                self.catalog.dropTempView(view)
        if statement.starts("USE", "CATALOG") and self.catalog.databaseExists(_DEFAULT_SCHEMA):
            # Spark keeps the schema where the catalog stays the same; on Databricks it is the default one.
            self.catalog.setCurrentDatabase(_DEFAULT_SCHEMA)
        return described(frame, statement)

    return sql


def table_of(spark_table: Callable[..., Any]) -> Callable[..., Any]:
    """`SparkSession.table` and `DataFrameReader.table`, which find the information schema too."""

    @functools.wraps(spark_table)
    def table(self: Any, tableName: str) -> Any:
        if f"{information_schema.NAME}." in tableName.lower():
            return getattr(self, "_spark", self).sql(f"SELECT * FROM {tableName}")
        return spark_table(self, tableName)

    return table


def _answered(session: Any, statement: Statement, volumes: VolumePaths) -> Answer | None:
    from pyspark.errors import AnalysisException

    if statement.starts("CREATE", "VOLUME") and not any(token.is_word("COMMENT") for token in statement.tokens):
        return _create_volume(session, statement, volumes)
    for beginning, command in COMMANDS:
        at = statement.after(*beginning)
        if at is None:
            continue

        def defaults() -> tuple[str, str]:
            return session.catalog.currentCatalog(), session.catalog.currentDatabase()

        try:
            answer = command(Reader(statement, at, defaults))
        except ApiRefused as error:
            raise AnalysisException(message=str(error)) from None
        except NotUnderstood as error:
            what = " ".join(word.partition("|")[0] for word in beginning)
            raise NotServedHere(f"{what} is served by the local workspace, but not like this: {error}.") from None
        if beginning == ("CREATE", "CATALOG"):
            _know_catalog(session, _made(statement))
        return answer
    return None


def _create_volume(session: Any, statement: Statement, volumes: VolumePaths) -> Answer:
    """A folder: nothing of it is kept anywhere else."""
    from pyspark.errors import AnalysisException

    at = statement.after("CREATE", "VOLUME", "IF?", "NOT?", "EXISTS?") or 0
    given = [part.text.lower() for part in statement.name_at(at)]
    if not 1 <= len(given) <= 3:
        raise InvalidArgument(f"{statement.text}: give the name as catalog.schema.volume")
    here = [session.catalog.currentCatalog(), session.catalog.currentDatabase()] if len(given) < 3 else []
    parts = [*here[: 3 - len(given)], *given]
    if not session.catalog.databaseExists(f"`{parts[0]}`.`{parts[1]}`"):
        raise AnalysisException(message=f"[SCHEMA_NOT_FOUND] The schema {parts[0]}.{parts[1]} does not exist.")
    folder = volumes.root.joinpath(*parts)
    if folder.is_dir() and not statement.starts("CREATE", "VOLUME", "IF", "NOT", "EXISTS"):
        raise AnalysisException(message=f"[VOLUME_ALREADY_EXISTS] Volume {'.'.join(parts)} already exists.")
    folder.mkdir(parents=True, exist_ok=True)
    return Answer((), [])


def _made(statement: Statement) -> str:
    at = statement.after("CREATE", "CATALOG", "IF?", "NOT?", "EXISTS?")
    return statement.tokens[at or 0].text.lower()


def _know_catalog(session: Any, name: str) -> None:
    """A session knows the catalogs that there were when it began, and the ones that it makes."""
    main = session.conf.get("spark.sql.defaultCatalog")
    kind, root = session.conf.get(_CATALOG + main), session.conf.get(f"{_CATALOG}{main}.root")
    session.conf.set(f"{_CATALOG}{name}.root", root.rpartition("/")[0] + "/" + name)
    session.conf.set(_CATALOG + name, kind)


def _frame(session: Any, answer: Answer) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField(name, StringType()) for name in answer.columns])
    return session.createDataFrame([tuple(None if x is None else str(x) for x in row) for row in answer.rows], schema)


def _as_spark_has_it(statement: Statement) -> str:
    """USE CATALOG is Spark's SET CATALOG, and USE SCHEMA with a catalog its USE."""
    tokens = statement.tokens
    if statement.starts("USE", "CATALOG") and len(tokens) > 2:
        return statement.replaced([(tokens[0].begin, tokens[1].end, "SET CATALOG")])
    if statement.starts("USE", "SCHEMA|DATABASE|NAMESPACE") and len(statement.name_at(2)) > 1:
        return statement.replaced([(tokens[0].begin, tokens[1].end, "USE")])
    return statement.text
