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


def test_an_owner_needs_no_grant_and_can_give_its_ownership_away(ops: Any) -> None:
    from databricks.sdk.errors import PermissionDenied
    from databricks.sdk.service.catalog import PermissionsChange, Privilege

    def change(securable: str, name: str, **what: list[Privilege]) -> None:
        ops.grants.update(securable, name, changes=[PermissionsChange(principal="local-workspace", **what)])

    assert granted(ops.grants.get("catalog", "main")) == {}
    change("catalog", "main", remove=[Privilege.ALL_PRIVILEGES])
    assert ops.tables.get(NAME).owner == "local-workspace"

    assert ops.catalogs.update("main", owner="bob").owner == "bob"
    with pytest.raises(PermissionDenied, match="USE CATALOG on Catalog 'main'"):
        ops.tables.get(NAME)
    change("catalog", "main", add=[Privilege.USE_CATALOG])
    assert ops.schemas.update("main.silver", owner="bob").owner == "bob"
    with pytest.raises(PermissionDenied, match="USE SCHEMA on Schema"):
        ops.tables.get(NAME)
    change("schema", "main.silver", add=[Privilege.USE_SCHEMA])
    assert ops.tables.get(NAME).name == "flights"  # its own
    ops.tables.update(NAME, owner="bob")
    with pytest.raises(PermissionDenied, match="SELECT on Table"):
        ops.tables.get(NAME)
    change("table", NAME, add=[Privilege.SELECT])
    assert ops.tables.get(NAME).owner == "bob"


@pytest.mark.parametrize("add", [[], ["SELECT"]])
def test_all_privileges_removed_are_all_that_a_principal_has(ops: Any, add: list[str]) -> None:
    from databricks.sdk.service.catalog import PermissionsChange, Privilege

    for securable, name in (("catalog", "main"), ("schema", "main.silver"), ("table", NAME)):
        for principal in ("bob", "ann"):
            given = [Privilege.MODIFY, Privilege.APPLY_TAG, Privilege.ALL_PRIVILEGES]
            ops.grants.update(securable, name, changes=[PermissionsChange(principal=principal, add=given)])
        change = PermissionsChange(
            principal="bob", remove=[Privilege.ALL_PRIVILEGES], add=[Privilege(one) for one in add]
        )
        after = granted(ops.grants.update(securable, name, changes=[change]))
        assert after.get("bob", set()) == set(add)
        assert after["ann"] == {"MODIFY", "APPLY_TAG", "ALL_PRIVILEGES"}
        assert granted(ops.grants.get(securable, name)) == after


@pytest.mark.parametrize(
    ("securable", "name", "privilege"),
    [
        ("volume", "main.silver.v", "SELECT"),
        ("volume", "main.silver.v", "USE_SCHEMA"),
        ("table", NAME, "READ_VOLUME"),
        ("table", NAME, "CREATE_TABLE"),
        ("schema", "main.silver", "USE_CATALOG"),
    ],
)
def test_a_privilege_that_its_object_cannot_give_is_refused(
    ops: Any, securable: str, name: str, privilege: str
) -> None:
    from databricks.sdk.errors import BadRequest
    from databricks.sdk.service.catalog import PermissionsChange, Privilege, VolumeType

    ops.volumes.create("main", "silver", "v", VolumeType.MANAGED)
    change = PermissionsChange(principal="bob", add=[Privilege.MANAGE, Privilege(privilege)])
    with pytest.raises(BadRequest, match=f"Privilege {privilege} is not applicable to this entity"):
        ops.grants.update(securable, name, changes=[change])
    assert granted(ops.grants.get(securable, name)) == {}


@pytest.mark.parametrize("deleted", ["catalog", "schema", "volume", "table"])
def test_what_is_made_again_has_no_grants_of_what_was_deleted(ops: Any, deployment: Deployment, deleted: str) -> None:
    from databricks.sdk.service.catalog import PermissionsChange, Privilege, VolumeType

    ops.schemas.create("silver2", "main")
    things = {"catalog": "main", "schema": "main.silver", "volume": "main.silver.v", "table": NAME}
    ops.volumes.create("main", "silver", "v", VolumeType.MANAGED)
    for kind, name in (*things.items(), ("schema", "main.silver2")):
        ops.grants.update(kind, name, changes=[PermissionsChange(principal="bob", add=[Privilege.MANAGE])])
    if deleted == "catalog":
        ops.catalogs.delete("main", force=True)
        ops.catalogs.create("main")
        ops.schemas.create("silver", "main")
    elif deleted == "schema":
        ops.schemas.delete("main.silver", force=True)
        ops.schemas.create("silver", "main")
    elif deleted == "volume":
        ops.volumes.delete("main.silver.v")
    else:
        ops.tables.delete(NAME)
    if deleted != "table":
        ops.volumes.create("main", "silver", "v", VolumeType.MANAGED)
    kept = {kind for kind, name in things.items() if kind != "table" and granted(ops.grants.get(kind, name))}
    above: dict[str, set[str]] = {"catalog": set(), "schema": {"catalog"}, "volume": {"catalog", "schema"}}
    assert kept == above.get(deleted, {"catalog", "schema", "volume"})
    if deleted == "schema":
        assert granted(ops.grants.get("schema", "main.silver2")) == {"bob": {"MANAGE"}}
    if deleted in ("schema", "table"):
        from deltalake import write_deltalake
        from pyarrow import table

        write_deltalake(str(deployment.layout.table_path("shared", NAME)), table({"n": [1]}))
        assert granted(ops.grants.get("table", NAME)) == {}


def test_catalogs_schemas_and_volumes_are_changed(ops: Any) -> None:
    from databricks.sdk.service.catalog import VolumeType

    ops.volumes.create("main", "silver", "v", VolumeType.MANAGED, comment="one")
    for things, name in ((ops.catalogs, "main"), (ops.schemas, "main.silver"), (ops.volumes, "main.silver.v")):
        read = things.read if things is ops.volumes else things.get
        before = read(name)
        changed = things.update(name, comment="two")
        assert (changed.comment, changed.created_at) == ("two", before.created_at)
        assert things.update(name, owner="bob").comment == "two"
        assert (read(name).comment, read(name).owner) == ("two", "bob")
        assert read(name).updated_at >= before.created_at
    assert ops.catalogs.update("main", properties={"a": "b"}).properties == {"a": "b"}
    assert ops.schemas.get("main.silver").properties is None
    assert {schema.name: schema.owner for schema in ops.schemas.list("main")}["silver"] == "bob"


def test_a_table_made_again_is_owned_by_who_made_it(deployment: Deployment, ops: Any) -> None:
    from deltalake import write_deltalake
    from pyarrow import table as rows

    ops.tables.update(NAME, owner="bob")
    ops.tables.delete(NAME)
    write_deltalake(str(deployment.layout.table_path("shared", NAME)), rows({"n": [1]}))
    assert ops.tables.get(NAME).owner == "local-workspace"


@pytest.mark.parametrize(
    "name", ["catalogs/none", "schemas/main.none", "volumes/main.silver.none", "tables/main.silver.x"]
)
def test_what_is_not_there_is_not_changed(ops: Any, name: str) -> None:
    from databricks.sdk.errors import NotFound

    with pytest.raises(NotFound, match="does not exist"):
        ops.api_client.do("PATCH", f"/api/2.1/unity-catalog/{name}", body={"owner": "bob"})


def test_grants_that_are_refused(ops: Any) -> None:
    from databricks.sdk.errors import BadRequest, NotFound

    with pytest.raises(NotFound, match="does not exist"):
        ops.grants.get("table", "main.silver.none")
    with pytest.raises(BadRequest, match="not on 'metastore'"):
        ops.grants.get("metastore", "x")
    body = {"changes": [{"principal": "a", "add": ["EAT"]}]}
    with pytest.raises(BadRequest, match="'EAT'; it is one of"):
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
