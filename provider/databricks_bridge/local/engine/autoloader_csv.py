"""CSV of Auto Loader with a column of rescued data.

Spark's reader tells which rows it could not read as the schema says, by their line. What of such a line a column lacks is
rescued by the column's name; of a line with too many or too few values, the line is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from databricks_bridge.local.engine.autoloader_options import LoaderOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CORRUPT = "_corrupt_record"
_SOURCE_ONLY = frozenset(
    ["maxfilespertrigger", "recursivefilelookup", "pathglobfilter", "maxfileage", "header", "multiline", "encoding"]
)


def parsed_csv(spark: SparkSession, wanted: LoaderOptions, schema: StructType, path: str) -> DataFrame:
    """The stream of rows, with the column of rescued data last."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    fields = StructType([field for field in schema.fields if field.name != wanted.rescued])
    reader = spark.readStream.format("csv").options(**wanted.source)
    if wanted.source.get("header", "false").lower() == "true":
        # Spark reads CSV by position; this makes another header an error instead of shifted columns.
        reader = reader.option("enforceSchema", "false")
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _CORRUPT)
    rows = reader.schema(StructType([*fields.fields, StructField(_CORRUPT, StringType())])).load(path)
    as_text = ", ".join(f"{_quoted(name)} STRING" for name in [*fields.names, _CORRUPT])
    parsing = {name: value for name, value in wanted.source.items() if name not in _SOURCE_ONLY}
    parsing |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    read = F.from_csv(F.col(_CORRUPT), as_text, parsing)
    lost = [_lost(name, read) for name in fields.names]
    by_name = F.map_from_entries(F.filter(F.array(*lost), lambda entry: entry.isNotNull()))
    line = F.create_map(F.lit(_CORRUPT), F.col(_CORRUPT))
    # As text every value fits, so what Spark does not like of the line then is how many there are.
    by_name = F.when(read.getField(_CORRUPT).isNull(), by_name).otherwise(F.map_concat(by_name, line))
    file = F.create_map(F.lit("_file_path"), F.col("_metadata.file_path"))
    content = F.when(F.size(by_name) > 0, by_name).otherwise(line)
    rescued = F.when(F.col(_CORRUPT).isNotNull(), F.to_json(F.map_concat(content, file)))
    return rows.select(*[F.col(_quoted(name)) for name in fields.names], rescued.alias(str(wanted.rescued)))


def _lost(name: str, read: Any) -> Any:
    """The entry of a column that has no value though the line has one, or null."""
    from pyspark.sql import functions as F

    text = read.getField(name)
    entry = F.struct(F.lit(name).alias("key"), text.alias("value"))
    return F.when(F.col(_quoted(name)).isNull() & text.isNotNull(), entry)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
