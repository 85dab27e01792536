from __future__ import annotations

import pytest

from databricks_bridge.local.engine.autoloader_partitions import folder_values, named_values, typed_field


def test_folders_of_all_files_are_columns() -> None:
    files = ["file:/v/in/day=2026-06-09/hour=1/a.json", "file:/v/in/day=2026-06-10/hour=%253A/b.json"]
    assert folder_values(files, "/v/in") == {"day": ["2026-06-09", "2026-06-10"], "hour": ["1", ":"]}
    assert folder_values(["file:/v/x=1/in/a.json"], "/v/x=1/in/") == {}


@pytest.mark.parametrize("other", ["file:/v/in/b.json", "file:/v/in/hour=1/day=2/b.json", "file:/v/in/day=1/b.json"])
def test_folders_that_differ_are_none(other: str) -> None:
    assert folder_values(["file:/v/in/day=1/hour=2/a.json", other], "/v/in") == {}


def test_columns_that_are_asked_for_may_be_missing() -> None:
    files = ["file:/v/in/day=1/a.json", "file:/v/in/b.json"]
    assert named_values(files, "/v/in", ["day", "hour"]) == {"day": ["1"], "hour": []}


@pytest.mark.parametrize(
    ("values", "infer", "kind"),
    [
        (["1", "2"], True, "int"),
        (["1", "3000000000"], True, "bigint"),
        (["1", "0.5"], True, "double"),
        (["2026-06-09"], True, "date"),
        (["1", "x"], True, "string"),
        (["1_0"], True, "string"),
        (["__HIVE_DEFAULT_PARTITION__", "3"], True, "int"),
        (["1"], False, "string"),
        ([], True, "string"),
    ],
)
def test_the_type_is_what_all_values_are(values: list[str], infer: bool, kind: str) -> None:
    assert typed_field("c", values, infer).dataType.simpleString() == kind
