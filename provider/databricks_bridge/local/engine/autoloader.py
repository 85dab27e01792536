"""`format("cloudFiles")` over Spark's file source, with inferred schemas kept in the schema location.

JSON whose schema is inferred is read as lines of text and parsed here, because Spark's JSON source does not tell when a
record has a field that the schema lacks. As on Databricks, such a record fails the stream once with
UnknownFieldException; the schema that is kept has the new column by then, so the next start works.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.autoloader_options import (
    FIXED_SCHEMA,
    Evolution,
    LoaderOptions,
    parse_options,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

KEPT_VERSION = "v1"
_SOURCE_ONLY = frozenset(["maxfilespertrigger", "recursivefilelookup", "pathglobfilter"])


class EmptyInput(InvalidArgument):
    """There is no file yet to infer a schema from (Databricks: CF_EMPTY_DIR_FOR_SCHEMA_INFERENCE)."""


def load(spark: SparkSession, options: dict[str, str], schema: StructType | None, path: str) -> DataFrame:
    """The stream of `spark.readStream.format("cloudFiles")...load(path)`; paths are local by now.

    Raises EmptyInput when the schema must be inferred and there is no file.
    """
    wanted = parse_options(options, has_schema=schema is not None)
    if schema is None and wanted.format not in FIXED_SCHEMA:
        schema = _kept_or_inferred(spark, wanted, path)
    if wanted.format == "json" and wanted.rescued is not None:
        assert schema is not None
        return _parsed_json(spark, wanted, schema, path)
    reader = spark.readStream.format(wanted.format).options(**wanted.source)
    if wanted.format == "csv" and wanted.source.get("header", "false").lower() == "true":
        # Spark reads CSV by position; this makes another header an error instead of shifted columns.
        reader = reader.option("enforceSchema", "false")
    if wanted.format == "csv" and wanted.infer_column_types:
        reader = reader.option("mode", "FAILFAST")
    return (reader.schema(schema) if schema is not None else reader).load(path)


def _kept_or_inferred(spark: SparkSession, wanted: LoaderOptions, path: str) -> StructType:
    """The schema to read with. New columns found in the files are kept for the next start, and used from then on."""
    kept_in = SchemaLocation(Path(str(wanted.schema_location)))
    kept = kept_in.latest()
    if kept is not None and wanted.evolution is not Evolution.ADD_NEW_COLUMNS:
        return kept
    found = _with_hints(_inferred(spark, wanted, path), wanted.schema_hints)
    if kept is None and not found.fields:
        raise EmptyInput(
            f"Cannot infer a schema: there are no files in {path}. Start the stream when there are some, or give the "
            "schema with .schema(...). (Databricks: CF_EMPTY_DIR_FOR_SCHEMA_INFERENCE)"
        )
    if kept is None:
        kept_in.keep(found)
        return found
    if set(found.names) - set(kept.names):
        kept_in.keep(_merged([kept, found]))
    return kept


def _inferred(spark: SparkSession, wanted: LoaderOptions, path: str) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    options = {name: value for name, value in wanted.source.items() if name != "maxfilespertrigger"}
    reader = spark.read.format(wanted.format).options(**options)
    files = spark.read.format("binaryFile").options(**_listing(wanted)).load(path).inputFiles()
    if not files:
        return StructType([])
    if wanted.format != "csv":
        found = reader.load(path).schema
    else:
        # Spark takes the header of one file for all, so each header is read by itself.
        reader = reader.option("inferSchema", str(wanted.infer_column_types).lower())
        found = _merged(reader.load(name).schema for name in files)
    if wanted.infer_column_types or wanted.format not in ("json", "csv"):
        return found
    return StructType([StructField(name, StringType()) for name in found.names])


def _listing(wanted: LoaderOptions) -> dict[str, str]:
    return {name: value for name, value in wanted.source.items() if name in ("recursivefilelookup", "pathglobfilter")}


def _merged(schemas: Iterable[StructType]) -> StructType:
    from pyspark.sql.types import StructType

    fields: dict[str, Any] = {}
    for schema in schemas:
        for field in schema.fields:
            fields.setdefault(field.name, field)
    return StructType(list(fields.values()))


def _with_hints(schema: StructType, hints: str | None) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if hints is None:
        return schema
    try:
        hinted = StructType.fromDDL(hints)
    except PySparkException as error:
        raise InvalidArgument(
            f"cloudFiles.schemaHints {hints!r} is not a list of top-level columns: {error}"
        ) from error
    types = {field.name: field for field in hinted.fields}
    known = [types.pop(field.name, field) for field in schema.fields]
    return StructType([*known, *types.values()])


def _parsed_json(spark: SparkSession, wanted: LoaderOptions, schema: StructType, path: str) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import MapType, StringType, StructType

    fields = StructType([field for field in schema.fields if field.name != wanted.rescued])
    known = F.array(*[F.lit(name) for name in fields.names])
    source = {name: value for name, value in wanted.source.items() if name in _SOURCE_ONLY}
    parsing = {name: value for name, value in wanted.source.items() if name not in _SOURCE_ONLY}
    lines = spark.readStream.format("text").options(**source).load(path).where(F.trim("value") != "")
    if wanted.evolution in (Evolution.ADD_NEW_COLUMNS, Evolution.FAIL_ON_NEW_COLUMNS):
        unknown = F.array_except(F.json_object_keys("value"), known)
        message = F.concat(
            F.lit("[UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH] UnknownFieldException: "),
            F.lit("Encountered unknown fields during parsing: "),
            F.array_join(unknown, ", "),
            F.lit(" in "),
            F.col("_metadata.file_path"),
            F.lit(". Start the stream again to read with the new schema."),
        )
        lines = lines.where(F.when(F.size(unknown) > 0, F.raise_error(message).cast("boolean")).otherwise(F.lit(True)))
    parsed = lines.select(
        F.from_json("value", fields, parsing).alias("_parsed"),
        F.from_json("value", MapType(StringType(), StringType()), parsing).alias("_raw"),
    )
    columns = [F.col("_parsed").getField(name).alias(name) for name in fields.names]
    return parsed.select(*columns, _rescued(fields.names, known).alias(str(wanted.rescued)))


def _rescued(names: list[str], known: Any) -> Any:
    """What the columns could not hold, as JSON with the file's path, or null: unknown fields and wrong types."""
    from pyspark.sql import functions as F

    unread = F.array(*[F.when(F.col("_parsed").getField(name).isNull(), F.lit(name)) for name in names])
    lost = F.map_filter(
        F.col("_raw"),
        lambda name, value: value.isNotNull() & (~F.array_contains(known, name) | F.array_contains(unread, name)),
    )
    path = F.create_map(F.lit("_file_path"), F.col("_metadata.file_path"))
    return F.when(F.size(lost) > 0, F.to_json(F.map_concat(lost, path)))


class SchemaLocation:
    """The inferred schemas of one stream: `<location>/_schemas/<n>`, the highest number counts."""

    def __init__(self, location: Path) -> None:
        self._folder = location / "_schemas"

    def latest(self) -> StructType | None:
        """The schema kept last, or None."""
        from pyspark.sql.types import StructType

        numbers = self._numbers()
        if not numbers:
            return None
        file = self._folder / str(numbers[-1])
        version, _, body = file.read_text(encoding="utf-8").partition("\n")
        if version != KEPT_VERSION:
            raise InvalidArgument(f"{file} is a schema of version {version!r}, which this reader does not know.")
        return StructType.fromJson(json.loads(body))

    def keep(self, schema: StructType) -> None:
        """Make `schema` the latest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = [-1, *self._numbers()][-1] + 1
        whole = self._folder / f".{number}.writing"
        whole.write_text(f"{KEPT_VERSION}\n{schema.json()}\n", encoding="utf-8")
        whole.rename(self._folder / str(number))

    def _numbers(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(
            int(file.name) for file in self._folder.iterdir() if file.name.isascii() and file.name.isdecimal()
        )
