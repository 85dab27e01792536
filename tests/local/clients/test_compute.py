"""Clusters, warehouses, policies and pools as listed things, with the official SDK."""

from __future__ import annotations

from typing import Any

import pytest


def test_one_of_each_is_listed_and_found(ops: Any) -> None:
    (cluster,) = ops.clusters.list()
    assert ops.clusters.get(cluster.cluster_id).state.value == "RUNNING"
    ops.clusters.start(cluster.cluster_id).result()
    assert [version.key for version in ops.clusters.spark_versions().versions] == [cluster.spark_version]
    assert [node.node_type_id for node in ops.clusters.list_node_types().node_types] == [cluster.node_type_id]
    (policy,) = ops.cluster_policies.list()
    assert ops.cluster_policies.get(policy.policy_id).name == "local"
    (pool,) = ops.instance_pools.list()
    assert ops.instance_pools.get(pool.instance_pool_id).instance_pool_name == "local"


def test_the_sdk_s_choices_take_the_listed_ones(ops: Any) -> None:
    """As jobs that are made by the SDK's own examples choose."""
    (cluster,) = ops.clusters.list()
    chosen = (ops.clusters.select_spark_version(), ops.clusters.select_spark_version(long_term_support=True))
    assert chosen == (cluster.spark_version, cluster.spark_version)
    wishes: tuple[dict[str, Any], ...] = (
        {"local_disk": True},
        {"local_disk_min_size": 1},
        {"min_gpus": 0, "category": "general purpose", "min_memory_gb": 2, "gb_per_core": 1, "min_cores": 1},
    )
    assert [ops.clusters.select_node_type(**wish) for wish in wishes] == [cluster.node_type_id] * 3
    for impossible in ({"min_gpus": 1}, {"graviton": True}, {"photon_driver_capable": True}):
        with pytest.raises(ValueError, match="cannot determine smallest node type"):
            ops.clusters.select_node_type(**impossible)


def test_a_warehouse_is_started_and_stopped(ops: Any) -> None:
    (warehouse,) = ops.warehouses.list()
    assert ops.warehouses.get(warehouse.id).name == "local"
    assert ops.warehouses.stop(warehouse.id).result().state.value == "STOPPED"
    assert ops.warehouses.start(warehouse.id).result().state.value == "RUNNING"


def test_others_do_not_exist(ops: Any) -> None:
    from databricks.sdk.errors import ResourceDoesNotExist

    for get in (ops.clusters.get, ops.cluster_policies.get, ops.instance_pools.get, ops.warehouses.get):
        with pytest.raises(ResourceDoesNotExist, match="does not exist"):
            get("other")


def test_what_is_not_served_says_so(ops: Any) -> None:
    from databricks.sdk.errors import NotFound

    with pytest.raises(
        NotFound, match=r"No API found for 'POST /api/2.1/clusters/create'.*does not serve changing clusters"
    ):
        ops.clusters.create(spark_version="local", num_workers=1)
