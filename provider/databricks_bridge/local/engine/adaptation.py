"""What a notebook's process changes in PySpark and Python so that `/Volumes/...` and `cloudFiles` mean what they mean on
Databricks. It is done to the classes, because PySpark makes sessions of its own in foreachBatch; the process runs one
notebook and ends.

Limits: paths inside SQL strings are translated only where a file is named as a table (json.`/Volumes/...`), and code that
opens files without Python (C++ readers, child processes) sees no volumes.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import re
from collections.abc import Callable
from typing import Any, NoReturn

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.paths import VolumePaths

_CREATE_VOLUME = re.compile(r"^\s*CREATE\s+VOLUME\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.`]+)", re.IGNORECASE)
_UNKNOWN_SQL = re.compile(r"^\s*(COPY\s+INTO)\b|\b(read_files|ai_query|cloud_files)\s*\(", re.IGNORECASE)
_READS = ("load", "json", "csv", "parquet", "orc", "text", "option", "options")
_WRITES = ("save", "json", "csv", "parquet", "orc", "text", "option", "options")
_OS_FUNCTIONS = [
    "access",
    "chmod",
    "listdir",
    "lstat",
    "mkdir",
    "open",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "scandir",
    "stat",
    "truncate",
    "unlink",
    "utime",
]


def adapt_python(volumes: VolumePaths) -> None:
    """Make open(), pathlib and the functions of `os` that take a path understand volume paths."""
    builtins.open = io.open = _translating(io.open, volumes)
    for name in _OS_FUNCTIONS:
        setattr(os, name, _translating(getattr(os, name), volumes))


def adapt_spark(volumes: VolumePaths, new_session: Callable[[Any], Any]) -> None:
    """Make readers, writers, `spark.sql` and DeltaTable understand volume paths, and serve `cloudFiles`.

    `new_session` answers `spark.newSession()` with a session that is cleaned up with the notebook.
    """
    from delta.tables import DeltaTable
    from pyspark import SparkContext
    from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    # First, so that what it collects is translated before it gets there.
    _serve_auto_loader(DataStreamReader)
    for owner, names in (
        (DataFrameReader, _READS),
        (DataFrameWriter, _WRITES),
        (DataStreamReader, _READS),
        (DataStreamWriter, ("start", "toTable", "option", "options")),
    ):
        for name in names:
            setattr(owner, name, _translating(getattr(owner, name), volumes))
    for name in ("forPath", "isDeltaTable"):
        setattr(DeltaTable, name, classmethod(_translating(getattr(DeltaTable, name).__func__, volumes)))
    SparkSession.sql = _sql(SparkSession.sql, volumes)
    SparkSession.newSession = new_session
    SparkSession.stop = SparkContext.stop = _refuse_stop


def _translating(function: Callable[..., Any], volumes: VolumePaths) -> Callable[..., Any]:
    @functools.wraps(function)
    def translated(*args: Any, **kwargs: Any) -> Any:
        local = {name: volumes.translated(value) for name, value in kwargs.items()}
        return function(*[volumes.translated(value) for value in args], **local)

    return translated


def _serve_auto_loader(reader_class: Any) -> None:
    """A reader whose format is cloudFiles collects its options and schema, and hands them over at `load`."""
    from databricks_bridge.local.engine import autoloader

    spark_load, spark_format, spark_schema = reader_class.load, reader_class.format, reader_class.schema
    spark_option, spark_options = reader_class.option, reader_class.options

    def format_(self: Any, source: str) -> Any:
        self.auto_loader = source.lower() == "cloudfiles"
        return spark_format(self, source)

    def schema(self: Any, given: Any) -> Any:
        self.given_schema = given
        return spark_schema(self, given)

    def option(self: Any, key: str, value: Any) -> Any:
        self.__dict__.setdefault("given_options", {})[key] = _as_text(value)
        return spark_option(self, key, value)

    def options(self: Any, **given: Any) -> Any:
        for key, value in given.items():
            self.__dict__.setdefault("given_options", {})[key] = _as_text(value)
        return spark_options(self, **given)

    def load(self: Any, path: str | None = None, format: str | None = None, schema: Any = None, **given: Any) -> Any:
        if format is not None:
            self.format(format)
        if not getattr(self, "auto_loader", False):
            return spark_load(self, path, format, schema, **given)
        self.options(**given)
        collected = dict(getattr(self, "given_options", {}))
        source = path or collected.get("path")
        if source is None:
            raise InvalidArgument('format("cloudFiles") needs a path: .load("/Volumes/...")')
        wanted = schema if schema is not None else getattr(self, "given_schema", None)
        return autoloader.load(self._spark, collected, _as_schema(wanted), source)

    for name, replacement in (("format", format_), ("schema", schema), ("option", option), ("options", options)):
        setattr(reader_class, name, functools.wraps(getattr(reader_class, name))(replacement))
    reader_class.load = functools.wraps(spark_load)(load)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_schema(given: Any) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(given) if isinstance(given, str) else given


def _sql(spark_sql: Callable[..., Any], volumes: VolumePaths) -> Callable[..., Any]:
    @functools.wraps(spark_sql)
    def sql(self: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:
        unknown = _UNKNOWN_SQL.search(sqlQuery)
        if unknown:
            raise NotServedHere(
                f"{(unknown[1] or unknown[2]).upper()} is not served by the local workspace; "
                'read files with spark.read or spark.readStream.format("cloudFiles").'
            )
        volume = _CREATE_VOLUME.match(sqlQuery)
        if volume:
            return _create_volume(self, spark_sql, volumes, volume[1].replace("`", ""))
        return spark_sql(self, volumes.translated_sql(sqlQuery), *args, **kwargs)

    return sql


def _create_volume(spark: Any, spark_sql: Callable[..., Any], volumes: VolumePaths, name: str) -> Any:
    parts = name.lower().split(".")
    if len(parts) != 3:
        raise InvalidArgument(f"CREATE VOLUME {name}: give the name as catalog.schema.volume")
    described = spark_sql(spark, f"DESCRIBE SCHEMA `{parts[0]}`.`{parts[1]}`")
    volumes.root.joinpath(*parts).mkdir(parents=True, exist_ok=True)
    return described.limit(0)


def _refuse_stop(self: Any) -> NoReturn:
    raise NotServedHere("stop() is not served: the Spark of the local workspace is shared by all its runs.")
