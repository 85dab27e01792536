"""JSON of Auto Loader with an inferred schema or a column of rescued data: read as text, parsed by Spark, and compared.

Spark's JSON source does not tell what of a record its schema does not take. So the files are read as lines (or whole, with
multiLine), each text is split into its records, Spark parses each record, and what it has not kept is found by
`JsonRecords` of the engine's Java, at every depth. Nothing of a file is lost: it is in a column, or in the rescued data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from databricks_bridge.local.engine.autoloader_options import Evolution, LoaderOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_JAVA = "databricks_bridge.local.JsonRecords$"
_FUNCTION = "databricks_bridge_json_"
_SOURCE_ONLY = frozenset(["maxfilespertrigger", "recursivefilelookup", "pathglobfilter", "maxfileage"])


def parsed_json(spark: SparkSession, wanted: LoaderOptions, schema: StructType, path: str) -> DataFrame:
    """The stream of records, with the column of rescued data last."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    _register(spark)
    fields = StructType([field for field in schema.fields if field.name != wanted.rescued])
    whole = wanted.source.get("multiline", "false").lower() == "true"
    source = {name: value for name, value in wanted.source.items() if name in _SOURCE_ONLY}
    source["wholetext"] = str(whole).lower()
    parsing = {name: value for name, value in wanted.source.items() if name not in {*_SOURCE_ONLY, "multiline"}}
    # A value is what its own text says, or null: a record is not given up for one of its values.
    parsing["mode"] = "PERMISSIVE"
    texts = spark.readStream.format("text").options(**source).load(path).where(F.trim("value") != "")
    records = texts.select(F.explode(_call("split", F.col("value"))).alias("_record"))
    shape, file = F.lit(fields.json()), F.col("_metadata.file_path")
    if wanted.evolution in (Evolution.ADD_NEW_COLUMNS, Evolution.FAIL_ON_NEW_COLUMNS):
        unknown = _call("unknown", F.col("_record"), shape)
        message = F.concat(
            F.lit("[UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH] UnknownFieldException: "),
            F.lit("Encountered unknown fields during parsing: "),
            unknown,
            F.lit(" in "),
            file,
            F.lit(". Start the stream again to read with the new schema."),
        )
        known = F.when(unknown.isNotNull(), F.raise_error(message).cast("boolean")).otherwise(F.lit(True))
        records = records.where(known)
    parsed = records.select("_record", F.from_json("_record", fields, parsing).alias("_parsed"))
    columns = [F.col("_parsed").getField(name).alias(name) for name in fields.names]
    made = F.to_json("_parsed", {"ignoreNullFields": "false"})
    rescued = _call("rescued", F.col("_record"), made, shape, file)
    return parsed.select(*columns, rescued.alias(str(wanted.rescued)))


def _register(spark: SparkSession) -> None:
    for name in ("split", "unknown", "rescued"):
        kind = "array<string>" if name == "split" else "string"
        spark.udf.registerJavaFunction(_FUNCTION + name, _JAVA + name.capitalize(), kind)


def _call(name: str, *columns: Any) -> Any:
    from pyspark.sql import functions as F

    return F.call_function(_FUNCTION + name, *columns)
