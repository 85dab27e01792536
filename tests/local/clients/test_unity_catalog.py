"""Grants, external locations, path credentials and the Delta API, and what a revoked privilege does to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import client

NAME = "main.silver.flights"


@pytest.fixture(autouse=True)
def table(deployment: Deployment, ops: Any) -> None:
    """A real Delta table with two commits."""
    from deltalake import write_deltalake
    from pyarrow import table

    ops.catalogs.create("main")
    ops.schemas.create("silver", "main")
    path = deployment.layout.table_path("shared", NAME)
    for n in (1, 2):
        write_deltalake(str(path), table({"n": [n]}), mode="append")


def granted(answer: Any) -> dict[str, set[str]]:
    return {
        one.principal: {privilege.value for privilege in one.privileges} for one in answer.privilege_assignments or ()
    }


def test_grants_are_kept_and_shown(deployment: Deployment, ops: Any) -> None:
    from databricks.sdk.service.catalog import PermissionsChange, Privilege

    change = PermissionsChange(principal="analysts", add=[Privilege.SELECT, Privilege.MODIFY])
    ops.grants.update("table", NAME, changes=[change])
    change = PermissionsChange(principal="analysts", remove=[Privilege.MODIFY])
    assert granted(ops.grants.update("table", NAME, changes=[change])) == {"analysts": {"SELECT"}}
    met = client(deployment, "met")  # another workspace of the metastore
    assert granted(met.grants.get("table", NAME)) == {"analysts": {"SELECT"}}
    assert granted(ops.grants.get("table", NAME, principal="others")) == {}


def test_effective_permissions_say_from_where(ops: Any) -> None:
    from databricks.sdk.service.catalog import PermissionsChange, Privilege

    ops.grants.update("schema", "main.silver", changes=[PermissionsChange(principal="a", add=[Privilege.SELECT])])
    (mine,) = ops.grants.get_effective("table", NAME, principal="local-workspace").privilege_assignments
    held = {one.privilege.value: one for one in mine.privileges}
    assert {"SELECT", "USE_CATALOG", "USE_SCHEMA", "EXTERNAL_USE_SCHEMA"} <= held.keys()
    assert (held["SELECT"].inherited_from_type.value, held["SELECT"].inherited_from_name) == ("CATALOG", "main")
    (other,) = ops.grants.get_effective("table", NAME, principal="a").privilege_assignments
    assert [(one.privilege.value, one.inherited_from_name) for one in other.privileges] == [("SELECT", "main.silver")]


@pytest.mark.parametrize(
    ("privilege", "securable", "said"),
    [
        ("SELECT", NAME, "User does not have SELECT on Table 'main.silver.flights'"),
        ("USE_SCHEMA", "main.silver", "User does not have USE SCHEMA on Schema 'main.silver'"),
        ("USE_CATALOG", "main", "User does not have USE CATALOG on Catalog 'main'"),
    ],
)
def test_a_revoked_privilege_is_missed_everywhere(
    deployment: Deployment, ops: Any, privilege: str, securable: str, said: str
) -> None:
    from databricks.sdk.errors import PermissionDenied
    from databricks.sdk.service.catalog import TableOperation

    table_id = ops.tables.get(NAME).table_id
    fault = {"kind": "revoke", "privilege": privilege, "securable": securable}
    fault_id = ops.api_client.do("POST", "/local/faults", body=fault)["fault_id"]
    met = client(deployment, "met")
    looks: tuple[Callable[[], Any], ...] = (
        lambda: ops.tables.get(NAME),
        lambda: met.tables.get(NAME),
        lambda: ops.temporary_table_credentials.generate_temporary_table_credentials(
            operation=TableOperation.READ, table_id=table_id
        ),
        lambda: ops.api_client.do("GET", f"{DELTA}/catalogs/main/schemas/silver/tables/flights"),
    )
    for look in looks:
        with pytest.raises(PermissionDenied, match=said):
            look()
    (mine,) = ops.grants.get_effective("table", NAME).privilege_assignments
    assert privilege not in {one.privilege.value for one in mine.privileges}
    ops.api_client.do("DELETE", f"/local/faults/{fault_id}")
    assert ops.tables.get(NAME).table_id == table_id


def test_the_user_can_give_its_own_privileges_away(ops: Any) -> None:
    from databricks.sdk.errors import PermissionDenied
    from databricks.sdk.service.catalog import PermissionsChange, Privilege

    change = PermissionsChange(principal="local-workspace", remove=[Privilege.SELECT])
    ops.grants.update("catalog", "main", changes=[change])
    with pytest.raises(PermissionDenied, match="SELECT on Table"):
        ops.tables.get(NAME)
    change = PermissionsChange(principal="local-workspace", add=[Privilege.SELECT])
    ops.grants.update("table", NAME, changes=[change])
    assert ops.tables.get(NAME).name == "flights"


def test_grants_that_are_refused(ops: Any) -> None:
    from databricks.sdk.errors import BadRequest, NotFound

    with pytest.raises(NotFound, match="does not exist"):
        ops.grants.get("table", "main.silver.none")
    with pytest.raises(BadRequest, match="not on 'metastore'"):
        ops.grants.get("metastore", "x")
    body = {"changes": [{"principal": "a", "add": ["EAT"]}]}
    with pytest.raises(BadRequest, match="EAT is not applicable"):
        ops.api_client.do("PATCH", f"/api/2.1/unity-catalog/permissions/table/{NAME}", body=body)


def test_the_external_location_of_the_volumes(deployment: Deployment, ops: Any) -> None:
    from databricks.sdk.errors import NotFound, PermissionDenied

    (location,) = ops.external_locations.list()
    assert location.url == deployment.layout.volumes_root("shared").absolute().as_uri()
    assert ops.external_locations.get(location.name).effective_enable_file_events is False
    with pytest.raises(NotFound, match="External Location 'x' does not exist"):
        ops.external_locations.get("x")

    def credentials(url: str) -> dict[str, Any]:
        body = {"url": url, "operation": "PATH_READ"}
        return dict(ops.api_client.do("POST", "/api/2.0/unity-catalog/temporary-path-credentials", body=body))

    assert credentials(f"{location.url}/main/silver/v")["url"] == f"{location.url}/main/silver/v"
    managed = deployment.layout.metastore_root("shared").absolute().as_uri()
    for url in (managed, f"{location.url}/../x", f"{location.url}x"):
        with pytest.raises(PermissionDenied, match="No external location covers"):
            credentials(url)


DELTA = "/api/2.1/unity-catalog/delta/v1"


def test_the_delta_api_tells_the_newest_version(ops: Any) -> None:
    config = ops.api_client.do("GET", f"{DELTA}/config", query={"catalog": "main", "protocol-versions": "1.0"})
    assert config["protocol-version"] == "1.0"
    found = ops.api_client.do("GET", f"{DELTA}/catalogs/main/schemas/silver/tables/flights")
    assert found["latest-table-version"] == 1
    assert found["metadata"]["table-uuid"] == ops.tables.get(NAME).table_id
    assert found["metadata"]["last-commit-version"] == 0


async def test_our_reader_of_the_delta_api_and_of_sql(deployment: Deployment) -> None:
    from databricks_bridge.core.errors import NotFound
    from databricks_bridge.delta.catalog import CatalogManagedTable
    from databricks_bridge.delta.sql import SqlTable
    from databricks_bridge.workspace.client import Workspace

    async def authorize() -> dict[str, str]:
        return {"Authorization": f"Bearer {deployment.token('ops')}"}

    async with Workspace(deployment.host("ops"), authorize) as workspace:
        by_catalog = await CatalogManagedTable(workspace, NAME).latest()
        by_sql = await SqlTable(workspace, NAME, warehouse="local").latest()
        assert by_catalog is not None
        assert by_sql is not None
        assert (by_catalog.version, by_catalog.table_id) == (by_sql.version, by_sql.table_id)
        assert by_sql.version == 1
        assert [commit.version async for commit in SqlTable(workspace, NAME, warehouse="local").commits(-1, 1)] == [
            0,
            1,
        ]
        with pytest.raises(NotFound):
            await CatalogManagedTable(workspace, "main.silver.none").latest()
