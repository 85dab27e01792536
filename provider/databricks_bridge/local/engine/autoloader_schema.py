"""The schema of an Auto Loader stream: inferred from the files, kept in the schema location, and how it grows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.autoloader_options import Evolution, LoaderOptions
from databricks_bridge.local.engine.autoloader_partitions import folder_values, named_values, typed_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

KEPT_VERSION = "v1"
_ONLY_STREAMS = frozenset(["maxfilespertrigger", "maxfileage"])


class EmptyInput(InvalidArgument):
    """There is no file yet to infer a schema from (Databricks: CF_EMPTY_DIR_FOR_SCHEMA_INFERENCE)."""


def files_of(spark: SparkSession, wanted: LoaderOptions, path: str) -> list[str]:
    """The files that are there, as URIs."""
    listing = {
        name: value for name, value in wanted.source.items() if name in ("recursivefilelookup", "pathglobfilter")
    }
    return list(spark.read.format("binaryFile").options(**listing).load(path).inputFiles())


def partition_fields(wanted: LoaderOptions, files: Sequence[str], path: str, infer: bool) -> list[StructField]:
    """The columns that the folders name, or those that `cloudFiles.partitionColumns` asks for."""
    asked = wanted.partition_columns
    values = folder_values(files, path) if asked is None else named_values(files, path, asked)
    return [typed_field(name, of_name, infer) for name, of_name in values.items()]


def kept_or_inferred(spark: SparkSession, wanted: LoaderOptions, path: str) -> StructType:
    """The schema to read with. New columns found in the files are kept for the next start, and used from then on.

    Raises EmptyInput where there is nothing to infer it from.
    """
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
    grown = merged([kept, found])
    if grown.json() != kept.json():
        kept_in.keep(grown)
    return kept


def _inferred(spark: SparkSession, wanted: LoaderOptions, path: str) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    options = {name: value for name, value in wanted.source.items() if name not in _ONLY_STREAMS}
    files = files_of(spark, wanted, path)
    if not files:
        return StructType([])
    # Names that differ in their case alone would be an error; here they become one column.
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    reader = session.read.format(wanted.format).options(**options)
    if wanted.format != "csv":
        found = merged([reader.load(path).schema])
    else:
        # Spark takes the header of one file for all, so each header is read by itself.
        reader = reader.option("inferSchema", str(wanted.infer_column_types).lower())
        found = merged(reader.load(name).schema for name in files)
    found = StructType([field for field in found.fields if field.name != "_corrupt_record"])
    if not wanted.infer_column_types and wanted.format in ("json", "csv"):
        found = StructType([StructField(name, StringType()) for name in found.names])
    folders = partition_fields(wanted, files, path, wanted.infer_column_types)
    from_folders = {field.name for field in folders}
    return StructType([*(field for field in found.fields if field.name not in from_folders), *folders])


def merged(schemas: Iterable[StructType]) -> StructType:
    """All fields of these schemas, at every depth; of one name, whatever its case, the first type."""
    from pyspark.sql.types import StructField, StructType

    fields: dict[str, Any] = {}
    for schema in schemas:
        for field in schema.fields:
            known = fields.setdefault(field.name.lower(), field)
            grown = _merged_type(known.dataType, field.dataType)
            fields[field.name.lower()] = StructField(known.name, grown, known.nullable, known.metadata)
    return StructType(list(fields.values()))


def _merged_type(known: Any, other: Any) -> Any:
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(known, StructType) and isinstance(other, StructType):
        return merged([known, other])
    if isinstance(known, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_merged_type(known.elementType, other.elementType), known.containsNull)
    return known


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
