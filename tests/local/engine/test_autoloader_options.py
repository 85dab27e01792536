from __future__ import annotations

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.autoloader_options import Evolution, LoaderOptions, parse_options
from databricks_bridge.local.engine.errors import NotServedHere

SOURCE = {"recursivefilelookup": "true", "maxfilespertrigger": "1000", "maxfileage": "36500d"}
JSON = {"cloudFiles.format": "json"}
LOCATED = JSON | {"cloudFiles.schemaLocation": "/s"}


def test_an_inferred_json_stream_has_databricks_defaults() -> None:
    assert parse_options(LOCATED | {"path": "/p"}, has_schema=False) == LoaderOptions(
        "json", "/s", False, None, Evolution.ADD_NEW_COLUMNS, "_rescued_data", None, SOURCE
    )


def test_a_given_schema_needs_no_location_and_does_not_evolve() -> None:
    assert parse_options(JSON, has_schema=True) == LoaderOptions("json", source=SOURCE)
    assert parse_options(LOCATED, has_schema=True).evolution is Evolution.NONE


def test_names_are_read_without_case_and_source_options_go_through() -> None:
    options = {"CLOUDFILES.FORMAT": "CSV", "cloudfiles.schemalocation": "/s", "cloudFiles.maxFilesPerTrigger": "2"} | {
        "header": "true",
        "pathGlobFilter": "*.csv",
        "cloudFiles.inferColumnTypes": "True",
        "cloudFiles.schemaHints": "a INT",
        "cloudFiles.partitionColumns": "day, hour",
    }
    assert parse_options(options, has_schema=False) == LoaderOptions(
        "csv",
        "/s",
        True,
        "a INT",
        Evolution.ADD_NEW_COLUMNS,
        "_rescued_data",
        ("day", "hour"),
        SOURCE | {"maxfilespertrigger": "2", "header": "true", "pathglobfilter": "*.csv"},
    )


def test_what_only_changes_how_files_are_found_is_taken() -> None:
    found = {"cloudFiles.useNotifications": "false", "cloudFiles.useManagedFileEvents": "true"}
    defaults = {"cloudFiles.includeExistingFiles": "true", "cloudFiles.allowOverwrites": "false"}
    assert parse_options(JSON | found | defaults, has_schema=True).source == SOURCE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cloudFiles.includeExistingFiles": "false"}, "cloudFiles.includeExistingFiles is served by the local workspace with the value true only"),
        ({"cloudFiles.cleanSource": "DELETE"}, "cloudFiles.cleanSource is served by the local workspace with the value off only"),
        ({"cloudFiles.maxBytesPerTrigger": "1g"}, "cloudFiles.maxBytesPerTrigger is not served"),
        ({"cloudFiles.backfillAll": "day"}, "The option cloudFiles.backfillAll is not served by the local workspace"),
        ({"cloudFiles.schemaEvolutionMode": "addNewColumnsWithTypeWidening"}, "is not served"),
        ({"modifiedAfter": "2026-01-01"}, "The option modifiedAfter is not served"),
        ({"badRecordsPath": "/b"}, "The option badRecordsPath is not served by the local workspace for cloudFiles"),
        ({"cloudFiles.format": "xml"}, "cloudFiles.format 'xml' is not served"),
        ({"cloudFiles.format": "parquet"}, "schemaEvolutionMode addnewcolumns is not served for parquet"),
        ({"cloudFiles.format": "orc", "cloudFiles.schemaEvolutionMode": "none", "rescuedDataColumn": "r"}, "rescuedDataColumn is served for json and csv"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused_by_name(options: dict[str, str], words: str) -> None:
    with pytest.raises(NotServedHere) as raised:
        parse_options(LOCATED | options, has_schema=False)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("options", "has_schema", "words"),
    [
        ({}, True, "Give cloudFiles.format"),
        (JSON, False, "Give cloudFiles.schemaLocation"),
        (JSON | {"cloudFiles.schemaHints": "a INT"}, True, "cloudFiles.schemaHints is for an inferred schema"),
        (JSON | {"cloudFiles.schemaEvolutionMode": "rescue"}, True, "needs an inferred schema"),
        (LOCATED | {"cloudFiles.inferColumnTypes": "maybe"}, False, "is true or false, not 'maybe'"),
    ],
)
def test_what_databricks_refuses_too(options: dict[str, str], has_schema: bool, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        parse_options(options, has_schema=has_schema)


@pytest.mark.parametrize("format_", ["text", "binaryFile"])
def test_formats_with_a_schema_of_their_own(format_: str) -> None:
    assert parse_options({"cloudFiles.format": format_}, has_schema=False).schema_location is None
