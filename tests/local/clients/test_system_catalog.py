"""The catalog of the system tables in Unity Catalog; that Spark reads it is in `test_sql_on_spark.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

JOBS = "system.lakeflow.jobs"
TABLES = ["job_run_timeline", "job_task_run_timeline", "job_tasks", "jobs"]


def test_the_system_s_tables_are_listed_and_described(ops: Any) -> None:
    assert [(one.name, one.catalog_type.value) for one in ops.catalogs.list()] == [("system", "SYSTEM_CATALOG")]
    assert [schema.full_name for schema in ops.schemas.list("system")] == [
        "system.access",
        "system.lakeflow",
    ]
    assert [table.full_name for table in ops.tables.list("system", "access")] == ["system.access.table_lineage"]
    assert [table.name for table in ops.tables.list("system", "lakeflow")] == TABLES
    table = ops.tables.get(JOBS)
    assert (table.table_type.value, table.data_source_format.value) == ("MANAGED", "DELTASHARING")
    assert (table.storage_location, table.view_definition) == (None, None)
    assert table.columns[0].name == "account_id"
    assert {column.name: column.type_text for column in table.columns}["change_time"] == "timestamp"
    assert ops.tables.exists(JOBS).table_exists is True


def test_they_are_nobody_s_to_change(ops: Any) -> None:
    from databricks.sdk.errors import PermissionDenied
    from databricks.sdk.service.catalog import VolumeType

    changes: tuple[Callable[[], Any], ...] = (
        lambda: ops.catalogs.create("system"),
        lambda: ops.catalogs.delete("system", force=True),
        lambda: ops.schemas.create("mine", "system"),
        lambda: ops.schemas.delete("system.lakeflow", force=True),
        lambda: ops.tables.delete(JOBS),
        lambda: ops.volumes.create("system", "lakeflow", "v", VolumeType.MANAGED),
    )
    for change in changes:
        with pytest.raises(PermissionDenied, match="can only be read"):
            change()
