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
from collections.abc import Callable
from typing import Any, NoReturn

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine import sql_descriptions
from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.paths import VolumePaths
from databricks_bridge.local.engine.sql_door import sql_of, table_of

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
    builtins.open = io.open = _translating(io.open, volumes.translated)
    for name in _OS_FUNCTIONS:
        setattr(os, name, _translating(getattr(os, name), volumes.translated))


def adapt_spark(volumes: VolumePaths, new_session: Callable[[Any], Any]) -> None:
    """Make readers, writers, `spark.sql` and DeltaTable understand volume paths, and serve `cloudFiles`.

    `new_session` answers `spark.newSession()` with a session that is cleaned up with the notebook.
    """
    from delta.tables import DeltaTable
    from pyspark import SparkContext
    from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    DataFrameReader.format = _refusing_batches(DataFrameReader.format)
    # First, so that what it collects is translated before it gets there.
    _serve_auto_loader(DataStreamReader)
    for owner, names in (
        (DataFrameReader, _READS),
        (DataFrameWriter, _WRITES),
        (DataStreamReader, _READS),
        (DataStreamWriter, ("start", "toTable", "option", "options")),
    ):
        for name in names:
            setattr(owner, name, _translating(getattr(owner, name), volumes.translated_for_spark))
    for name in ("textFile", "wholeTextFiles", "binaryFiles"):
        setattr(SparkContext, name, _translating(getattr(SparkContext, name), volumes.translated_for_spark))
    for name in ("forPath", "isDeltaTable"):
        function = getattr(DeltaTable, name).__func__
        setattr(DeltaTable, name, classmethod(_translating(function, volumes.translated_for_spark)))
    SparkSession.sql = sql_of(SparkSession.sql, volumes)
    SparkSession.table, DataFrameReader.table = table_of(SparkSession.table), table_of(DataFrameReader.table)
    sql_descriptions.adapt(DeltaTable, Catalog)
    SparkSession.newSession = new_session
    SparkSession.stop = SparkContext.stop = _refuse_stop


def _translating(function: Callable[..., Any], translate: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def translated(*args: Any, **kwargs: Any) -> Any:
        local = {name: translate(value) for name, value in kwargs.items()}
        return function(*[translate(value) for value in args], **local)

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


def _refusing_batches(spark_format: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(spark_format)
    def format_(self: Any, source: str) -> Any:
        if source.lower() == "cloudfiles":
            raise InvalidArgument('format("cloudFiles") is a stream: use spark.readStream, not spark.read.')
        return spark_format(self, source)

    return format_


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_schema(given: Any) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(given) if isinstance(given, str) else given


def _refuse_stop(self: Any) -> NoReturn:
    raise NotServedHere("stop() is not served: the Spark of the local workspace is shared by all its runs.")
