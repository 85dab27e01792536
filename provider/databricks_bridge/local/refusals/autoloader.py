"""Options of Auto Loader that are not served."""

from __future__ import annotations

from databricks_bridge.local.refusals.model import Area, Refusal, refusals


def _stream(format_: str = "json", schema: str = '.schema("id INT")', **options: str) -> str:
    given = "".join(f".option({name!r}, {value!r})" for name, value in options.items())
    return f'spark.readStream.format("cloudFiles").option("cloudFiles.format", "{format_}"){given}{schema}.load("/tmp")'


def _option(name: str, value: str, words: str, **more: str) -> tuple[str, str, str]:
    return words, "DOC", _stream(**{name: value}, **more)


_ONLY = "is served by the local workspace with the value {} only"
_NOT = "The option {} is not served by the local workspace"
_LOCATION = {"cloudFiles.schemaLocation": "/tmp/s"}

REFUSALS: tuple[Refusal, ...] = refusals(
    Area.AUTOLOADER,
    {
        "cloudFiles.includeExistingFiles = false": _option(
            "cloudFiles.includeExistingFiles", "false", f"cloudFiles.includeExistingFiles {_ONLY.format('true')}"
        ),
        "cloudFiles.allowOverwrites = true": _option(
            "cloudFiles.allowOverwrites", "true", f"cloudFiles.allowOverwrites {_ONLY.format('false')}"
        ),
        "cloudFiles.cleanSource": _option(
            "cloudFiles.cleanSource", "DELETE", f"cloudFiles.cleanSource {_ONLY.format('off')}"
        ),
        "cloudFiles.maxBytesPerTrigger": _option(
            "cloudFiles.maxBytesPerTrigger", "1g", "cloudFiles.maxBytesPerTrigger is not served"
        ),
        "cloudFiles.maxFileAge": _option("cloudFiles.maxFileAge", "14 days", _NOT.format("cloudFiles.maxFileAge")),
        "cloudFiles.queueUrl and other options of clouds": _option(
            "cloudFiles.queueUrl", "https://queue", _NOT.format("cloudFiles.queueUrl")
        ),
        "modifiedAfter, modifiedBefore": _option("modifiedAfter", "2026-01-01", _NOT.format("modifiedAfter")),
        "badRecordsPath": _option("badRecordsPath", "/b", _NOT.format("badRecordsPath")),
        "readerCaseSensitive": _option("readerCaseSensitive", "false", _NOT.format("readerCaseSensitive")),
        "mode of the parser": _option("mode", "DROPMALFORMED", _NOT.format("mode")),
        "the formats avro and xml": ("cloudFiles.format 'xml' is not served", "DOC", _stream("xml")),
        "inference of parquet and orc": (
            "give the schema with .schema(...) instead",
            "DOC",
            _stream("parquet", "", **_LOCATION),
        ),
        "schemaEvolutionMode rescue and none of csv": (
            "cloudFiles.schemaEvolutionMode rescue is not served for csv",
            "DOC",
            _stream("csv", "", **_LOCATION, **{"cloudFiles.schemaEvolutionMode": "rescue"}),
        ),
        "schemaEvolutionMode addNewColumnsWithTypeWidening": (
            "cloudFiles.schemaEvolutionMode 'addNewColumnsWithTypeWidening' is not served",
            "DOC",
            _stream("json", "", **_LOCATION, **{"cloudFiles.schemaEvolutionMode": "addNewColumnsWithTypeWidening"}),
        ),
        "rescuedDataColumn of other formats than json and csv": (
            "rescuedDataColumn is served for json and csv here",
            "DOC",
            _stream("parquet", **{"rescuedDataColumn": "r"}),
        ),
    },
)
