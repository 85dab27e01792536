from __future__ import annotations

from pathlib import Path

import pytest

from databricks_bridge.local.engine.autoloader_schema import SchemaLocation


@pytest.mark.parametrize("stray", ["²", "٣", ".7.writing", "notes"])
def test_a_file_that_is_no_number_is_passed_over(tmp_path: Path, stray: str) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    location = SchemaLocation(tmp_path)
    first, second = (StructType([StructField(name, LongType())]) for name in ("a", "b"))
    location.keep(first)
    (tmp_path / "_schemas" / stray).write_text("")
    assert location.latest() == first
    location.keep(second)
    assert location.latest() == second
    assert (tmp_path / "_schemas" / "1").is_file()
