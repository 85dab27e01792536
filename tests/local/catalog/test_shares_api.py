"""The Shares API of the provider's workspace, and what the reader's says of its catalog, asked with the official SDK."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import client


def write(deployment: Deployment, table: str, **configuration: str) -> None:
    from deltalake import write_deltalake

    folder = deployment.layout.table_path("ops", f"main.silver.{table}")
    folder.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(folder), pa.table({"n": pa.array([1], pa.int64())}), mode="append", configuration=configuration)


def share(deployment: Deployment, catalog: str, **more: Any) -> None:
    body = {"catalog": catalog, "source_metastore": "ops", "source_catalog": "main", "schemas": ["silver"], **more}
    client(deployment, "met").api_client.do("POST", "/local/shares", body=body)


def test_the_provider_sees_what_it_shares_and_how(deployment: Deployment) -> None:
    from databricks.sdk.errors import NotFound
    from databricks.sdk.service.sharing import SharedDataObjectHistoryDataSharingStatus as History

    ops, met = client(deployment, "ops"), client(deployment, "met")
    assert list(ops.shares.list_shares()) == []
    write(deployment, "flights", **{"delta.enableChangeDataFeed": "true"})
    write(deployment, "weather")
    share(deployment, "ops_share")
    share(deployment, "ops_plain", history=False)
    assert [one.name for one in ops.shares.list_shares()] == ["ops_plain", "ops_share"]
    assert list(met.shares.list_shares()) == []
    assert ops.shares.get("ops_share").objects == []
    found = {one.name: one for one in ops.shares.get("ops_share", include_shared_data=True).objects}
    assert sorted(found) == ["main.silver.flights", "main.silver.weather"]
    flights, weather = found["main.silver.flights"], found["main.silver.weather"]
    assert flights.data_object_type.value == "TABLE"
    assert (flights.shared_as, flights.status.value) == ("silver.flights", "ACTIVE")
    assert flights.history_data_sharing_status is History.ENABLED
    assert (flights.cdf_enabled, weather.cdf_enabled) == (True, False)
    plain = ops.shares.get("ops_plain", include_shared_data=True).objects
    assert {one.history_data_sharing_status for one in plain} == {History.DISABLED}
    with pytest.raises(NotFound, match="Share 'none' does not exist"):
        ops.shares.get("none")
    catalog = met.catalogs.get("ops_plain")
    assert (catalog.catalog_type.value, catalog.provider_name, catalog.share_name) == (
        "DELTASHARING_CATALOG",
        "ops",
        "ops_plain",
    )


def test_a_table_of_a_share_that_is_not_held_is_there_when_it_is_asked_for(deployment: Deployment) -> None:
    from databricks.sdk.errors import NotFound

    met = client(deployment, "met")
    share(deployment, "ops_share")
    share(deployment, "ops_late", lag="held")
    write(deployment, "flights")
    assert met.tables.get("ops_share.silver.flights").data_source_format.value == "DELTASHARING"
    with pytest.raises(NotFound):
        met.tables.get("ops_late.silver.flights")
    with pytest.raises(NotFound):
        met.tables.get("ops_share.silver.none")
