"""Unity Catalog of the local workspace, with the official SDK as client and real Delta tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.server.unity_catalog_columns import columns

FLIGHTS = "main.silver.flights"


@pytest.fixture
def silver(ops: Any) -> Any:
    """The client, once catalog main has the schema silver."""
    ops.catalogs.create("main", comment="the only one")
    ops.schemas.create("silver", "main")
    return ops


def write(deployment: Deployment, *values: int, mode: str = "append", table: str = FLIGHTS, **more: Any) -> Path:
    from deltalake import write_deltalake

    path = deployment.layout.table_path("ops", table)
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), pa.table({"n": pa.array(values, pa.int64())}), mode=mode, **more)
    return path


def refused(call: Any, kind: str, code: str) -> str:
    from databricks.sdk import errors

    with pytest.raises(getattr(errors, kind)) as caught:
        call()
    assert caught.value.error_code == code
    return str(caught.value)


def test_catalogs_schemas_and_volumes_come_and_go(silver: Any) -> None:
    from databricks.sdk.service.catalog import VolumeType

    assert silver.catalogs.get("main").comment == "the only one"
    assert [catalog.name for catalog in silver.catalogs.list()] == ["main"]
    assert [schema.full_name for schema in silver.schemas.list("main")] == ["main.default", "main.silver"]
    made = silver.volumes.create("main", "silver", "Landing", VolumeType.MANAGED)
    assert (made.name, made.full_name) == ("landing", "main.silver.landing")
    assert silver.volumes.read("main.silver.landing").volume_id == made.volume_id
    assert [volume.name for volume in silver.volumes.list("main", "silver")] == ["landing"]
    assert Path(made.storage_location.removeprefix("file://")).is_dir()
    silver.volumes.delete("main.silver.landing")
    assert silver.volumes.create("main", "silver", "landing", VolumeType.MANAGED).volume_id != made.volume_id
    silver.catalogs.delete("main", force=True)
    assert list(silver.catalogs.list()) == []


def test_what_is_not_there_and_what_is_already(silver: Any) -> None:
    refused(lambda: silver.catalogs.get("none"), "NotFound", "CATALOG_DOES_NOT_EXIST")
    refused(lambda: silver.schemas.get("main.none"), "NotFound", "SCHEMA_DOES_NOT_EXIST")
    refused(lambda: silver.volumes.read("main.silver.none"), "NotFound", "VOLUME_DOES_NOT_EXIST")
    says = refused(lambda: silver.tables.get("main.silver.none"), "NotFound", "TABLE_DOES_NOT_EXIST")
    assert says == "Table 'main.silver.none' does not exist."
    refused(lambda: silver.tables.get("main.none.none"), "NotFound", "SCHEMA_DOES_NOT_EXIST")
    refused(lambda: silver.catalogs.create("main"), "ResourceConflict", "CATALOG_ALREADY_EXISTS")
    refused(lambda: silver.schemas.create("silver", "main"), "ResourceConflict", "SCHEMA_ALREADY_EXISTS")
    refused(lambda: silver.tables.get("silver.flights"), "InvalidParameterValue", "INVALID_PARAMETER_VALUE")
    assert silver.tables.exists("main.silver.none").table_exists is False


def test_what_is_not_empty_is_not_deleted_unless_forced(silver: Any, deployment: Deployment) -> None:
    write(deployment, 1)
    says = refused(lambda: silver.schemas.delete("main.silver"), "BadRequest", "INVALID_STATE")
    assert "flights" in says
    refused(lambda: silver.catalogs.delete("main"), "BadRequest", "INVALID_STATE")
    silver.schemas.delete("main.silver", force=True)
    refused(lambda: silver.tables.get(FLIGHTS), "NotFound", "SCHEMA_DOES_NOT_EXIST")
    silver.catalogs.delete("main")


def test_a_table_is_what_its_log_says(silver: Any, deployment: Deployment) -> None:
    path = write(deployment, 1, configuration={"delta.enableChangeDataFeed": "true"}, description="flights, one each")
    table = silver.tables.get(FLIGHTS, include_manifest_capabilities=True)
    assert (table.full_name, table.catalog_name, table.schema_name) == (FLIGHTS, "main", "silver")
    assert (table.table_type.value, table.data_source_format.value) == ("MANAGED", "DELTA")
    assert table.storage_location == path.as_uri()
    assert [(column.name, column.type_text, column.type_name.value) for column in table.columns] == [
        ("n", "bigint", "LONG")
    ]
    assert table.properties["delta.enableChangeDataFeed"] == "true"
    assert table.comment == "flights, one each"
    assert table.metastore_id == silver.metastores.summary().metastore_id
    assert "HAS_DIRECT_EXTERNAL_ENGINE_READ_SUPPORT" in table.securable_kind_manifest.capabilities
    log = path / "_delta_log"
    assert table.created_at == round((log / f"{0:020d}.json").stat().st_mtime * 1000)
    assert silver.tables.exists(FLIGHTS).table_exists is True
    assert [table.name for table in silver.tables.list("main", "silver")] == ["flights"]


def test_last_update_version_is_of_metadata_and_no_watermark(silver: Any, deployment: Deployment) -> None:
    from deltalake import DeltaTable

    path = write(deployment, 1)
    for n in range(3):
        write(deployment, n)
    assert silver.tables.get(FLIGHTS).properties["delta.lastUpdateVersion"] == "0"
    DeltaTable(str(path)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    write(deployment, 9)
    assert DeltaTable(str(path)).version() == 5
    table = silver.tables.get(FLIGHTS)
    assert table.properties["delta.lastUpdateVersion"] == "4"
    assert table.properties["delta.lastCommitTimestamp"] == str(table.updated_at)


def test_the_id_is_kept_by_overwrite_and_lost_by_drop(silver: Any, deployment: Deployment) -> None:
    write(deployment, 1)
    first = silver.tables.get(FLIGHTS).table_id
    write(deployment, 2, mode="overwrite")
    assert silver.tables.get(FLIGHTS.upper()).table_id == first
    silver.tables.delete(FLIGHTS)
    assert silver.tables.exists(FLIGHTS).table_exists is False
    path = write(deployment, 3)
    second = silver.tables.get(FLIGHTS).table_id
    shutil.rmtree(path)
    write(deployment, 3)
    assert len({first, second, silver.tables.get(FLIGHTS).table_id}) == 3


def test_a_folder_without_a_log_is_no_table(silver: Any, deployment: Deployment) -> None:
    deployment.layout.table_path("ops", "main.silver.plain").mkdir()
    (deployment.layout.table_path("ops", "main.silver.empty") / "_delta_log").mkdir(parents=True)
    assert list(silver.tables.list("main", "silver")) == []
    refused(lambda: silver.tables.get("main.silver.empty"), "NotFound", "TABLE_DOES_NOT_EXIST")
    assert sorted(path.name for path in deployment.layout.table_path("ops", "main.silver.empty").iterdir()) == [
        "_delta_log"
    ]


def test_a_view_shows_its_definition(silver: Any, deployment: Deployment) -> None:
    field = {"name": "day", "type": "date", "nullable": True, "metadata": {}}
    definition = {
        "query": "SELECT day FROM main.silver.flights",
        "schema": json.dumps({"type": "struct", "fields": [field]}),
    }
    file = deployment.layout.table_path("ops", "main.silver.days").with_name("days.view.json")
    file.write_text(json.dumps(definition))
    view = silver.tables.get("main.silver.days")
    assert view.table_type.value == "VIEW"
    assert view.view_definition == "SELECT day FROM main.silver.flights"
    assert [(column.name, column.type_text) for column in view.columns] == [("day", "date")]
    assert [table.name for table in silver.tables.list("main", "silver")] == ["days"]
    silver.tables.delete("main.silver.days")
    assert silver.tables.exists("main.silver.days").table_exists is False


def test_temporary_credentials_name_the_folder_and_hold_no_cloud_credential(
    silver: Any, deployment: Deployment
) -> None:
    from databricks.sdk.service.catalog import TableOperation

    path = write(deployment, 1)
    vend = silver.temporary_table_credentials.generate_temporary_table_credentials
    answer = vend(table_id=silver.tables.get(FLIGHTS).table_id, operation=TableOperation.READ)
    assert answer.url == path.as_uri()
    now_ms = deployment.workspaces["ops"].now() * 1000
    assert now_ms < answer.expiration_time <= now_ms + 3_600_000
    assert (answer.aws_temp_credentials, answer.azure_user_delegation_sas, answer.gcp_oauth_token) == (None, None, None)
    refused(lambda: vend(table_id="nothing", operation=TableOperation.READ), "NotFound", "TABLE_DOES_NOT_EXIST")
    raw = silver.api_client.do(
        "POST",
        "/api/2.1/unity-catalog/temporary-table-credentials",
        body={"table_id": silver.tables.get(FLIGHTS).table_id, "operation": "READ_WRITE"},
    )
    assert set(raw) == {"url", "expiration_time"}


def test_workspaces_of_different_metastores_see_different_catalogs(silver: Any, deployment: Deployment) -> None:
    from tests.local.local_kit import client

    met = client(deployment, "met")
    assert list(met.catalogs.list()) == []
    assert met.metastores.summary().metastore_id != silver.metastores.summary().metastore_id


def test_nested_types_are_spelled_as_in_sql() -> None:
    schema = {
        "fields": [
            {"name": "price", "type": "decimal(10,2)", "nullable": False, "metadata": {"comment": "in euro"}},
            {
                "name": "legs",
                "nullable": True,
                "metadata": {},
                "type": {
                    "type": "array",
                    "containsNull": True,
                    "elementType": {
                        "type": "struct",
                        "fields": [{"name": "to", "type": "string"}, {"name": "miles", "type": "integer"}],
                    },
                },
            },
            {
                "name": "tags",
                "nullable": True,
                "metadata": {},
                "type": {"type": "map", "keyType": "string", "valueType": "timestamp_ntz"},
            },
        ]
    }
    shown = columns(schema, ["tags"])
    assert [column["type_text"] for column in shown] == [
        "decimal(10,2)",
        "array<struct<to:string,miles:int>>",
        "map<string,timestamp_ntz>",
    ]
    assert [column["type_name"] for column in shown] == ["DECIMAL", "ARRAY", "MAP"]
    assert (shown[0]["type_precision"], shown[0]["type_scale"], shown[0]["comment"]) == (10, 2, "in euro")
    assert shown[2]["partition_index"] == 0
