"""`format("cloudFiles")` over Spark's file source, with inferred schemas kept in the schema location.

As on Databricks, a record with a field that the schema lacks fails the stream once with UnknownFieldException; the schema
that is kept has the new column by then, so the next start works. What a column cannot hold goes to the rescued data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from databricks_bridge.local.engine.autoloader_csv import parsed_csv
from databricks_bridge.local.engine.autoloader_json import parsed_json
from databricks_bridge.local.engine.autoloader_options import FIXED_SCHEMA, LoaderOptions, parse_options
from databricks_bridge.local.engine.autoloader_partitions import MARK, with_partitions
from databricks_bridge.local.engine.autoloader_schema import files_of, kept_or_inferred, partition_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType


def load(spark: SparkSession, options: dict[str, str], schema: StructType | None, path: str) -> DataFrame:
    """The stream of `spark.readStream.format("cloudFiles")...load(path)`; paths are local by now.

    Raises EmptyInput when the schema must be inferred and there is no file.
    """
    from pyspark.sql.types import StructType

    wanted = parse_options(options, has_schema=schema is not None)
    if wanted.format in FIXED_SCHEMA:
        return spark.readStream.format(wanted.format).options(**wanted.source).load(path)
    given = schema is not None
    whole = schema if schema is not None else kept_or_inferred(spark, wanted, path)
    folders = _given_folders(spark, wanted, whole, path) if given else _kept_folders(whole)
    names = {field.name for field in folders}
    columns = StructType([field for field in whole.fields if field.name not in names])
    return with_partitions(_read(spark, wanted, columns, path), folders)


def _read(spark: SparkSession, wanted: LoaderOptions, columns: StructType, path: str) -> DataFrame:
    if wanted.format == "json" and wanted.rescued is not None:
        return parsed_json(spark, wanted, columns, path)
    if wanted.format == "csv" and wanted.rescued is not None:
        return parsed_csv(spark, wanted, columns, path)
    reader = spark.readStream.format(wanted.format).options(**wanted.source)
    if wanted.format == "csv" and wanted.source.get("header", "false").lower() == "true":
        # Spark reads CSV by position; this makes another header an error instead of shifted columns.
        reader = reader.option("enforceSchema", "false")
    return reader.schema(columns).load(path)


def _kept_folders(schema: StructType) -> list[StructField]:
    return [field for field in schema.fields if field.metadata.get(MARK)]


def _given_folders(spark: SparkSession, wanted: LoaderOptions, schema: StructType, path: str) -> list[StructField]:
    """Those columns of a schema that was given which the folders have."""
    found = {field.name for field in partition_fields(wanted, files_of(spark, wanted, path), path, infer=False)}
    return [field for field in schema.fields if field.name in found]
