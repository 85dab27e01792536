"""Clusters, cluster policies and instance pools as things that are listed: one of each, and it does nothing.

Notebooks run on the deployment's own Spark, whatever cluster a task names.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, Handler, api_router

CLUSTER_ID = "0101-000000-local000"
POLICY_ID = "0000000000000001"
POOL_ID = "0101-000000-local000-pool-local000"
NODE_TYPE = "local"
SPARK_VERSION = "local-scala2.12"
"""The SDK's `select_spark_version` takes no key without the Scala version that it asks for, 2.12 unless told otherwise."""
Body = Mapping[str, Any]


def router(workspace: Workspace) -> APIRouter:
    """`clusters` and `policies/clusters` under 2.0 and 2.1, `instance-pools` under 2.0."""
    clusters: dict[tuple[str, str], Handler] = {
        ("GET", "clusters/list"): lambda workspace, given: {"clusters": [_cluster(workspace)]},
        ("GET", "clusters/get"): _get_cluster,
        ("POST", "clusters/start"): _left_alone,
        ("GET", "clusters/spark-versions"): lambda workspace, given: {"versions": [_version()]},
        ("GET", "clusters/list-node-types"): lambda workspace, given: {"node_types": [_node_type(workspace)]},
        ("GET", "policies/clusters/list"): lambda workspace, given: {
            "policies": [_policy(workspace)],
            "total_count": 1,
        },
        ("GET", "policies/clusters/get"): _get_policy,
    }
    pools: dict[tuple[str, str], Handler] = {
        ("GET", "instance-pools/list"): lambda workspace, given: {"instance_pools": [_pool()]},
        ("GET", "instance-pools/get"): _get_pool,
    }
    routes = APIRouter()
    routes.include_router(api_router(workspace, clusters, ("2.0", "2.1")))
    routes.include_router(api_router(workspace, pools, ("2.0",)))
    return routes


def _cluster(workspace: Workspace) -> Body:
    return {
        "cluster_id": CLUSTER_ID,
        "cluster_name": "local",
        "state": "RUNNING",
        "state_message": "",
        "spark_version": SPARK_VERSION,
        "node_type_id": NODE_TYPE,
        "driver_node_type_id": NODE_TYPE,
        "num_workers": 0,
        "cluster_source": "UI",
        "creator_user_name": workspace.user_name,
        "data_security_mode": "SINGLE_USER",
    }


def _policy(workspace: Workspace) -> Body:
    return {
        "policy_id": POLICY_ID,
        "name": "local",
        "definition": "{}",
        "is_default": False,
        "creator_user_name": workspace.user_name,
    }


def _pool() -> Body:
    return {
        "instance_pool_id": POOL_ID,
        "instance_pool_name": "local",
        "node_type_id": NODE_TYPE,
        "min_idle_instances": 0,
        "state": "ACTIVE",
        "stats": {"used_count": 0, "idle_count": 0, "pending_used_count": 0, "pending_idle_count": 0},
    }


def _version() -> Body:
    return {"key": SPARK_VERSION, "name": f"local LTS (includes Apache Spark {version('pyspark')})"}


def _node_type(workspace: Workspace) -> Body:
    """What the SDK's `select_node_type` compares is all there."""
    disk_gb = shutil.disk_usage(workspace.layout.home).total // 2**30
    return {
        "node_type_id": NODE_TYPE,
        "memory_mb": 2048,
        "num_cores": 1.0,
        "description": "this machine",
        "instance_type_id": NODE_TYPE,
        "category": "General Purpose",
        "num_gpus": 0,
        "is_deprecated": False,
        "is_graviton": False,
        "is_io_cache_enabled": False,
        "photon_driver_capable": False,
        "photon_worker_capable": False,
        "support_port_forwarding": False,
        "node_instance_type": {"instance_type_id": NODE_TYPE, "local_disks": 1, "local_disk_size_gb": disk_gb},
    }


def _get_cluster(workspace: Workspace, given: Arguments) -> Body:
    cluster = _named(given, "cluster_id")
    if cluster != CLUSTER_ID:
        # Databricks says it with 400, as the SDK's own table of errors does.
        raise InvalidParameterValue(f"Cluster {cluster} does not exist")
    return _cluster(workspace)


def _left_alone(workspace: Workspace, given: Arguments) -> Body:
    _get_cluster(workspace, given)
    return {}


def _get_policy(workspace: Workspace, given: Arguments) -> Body:
    policy = _named(given, "policy_id")
    if policy != POLICY_ID:
        raise ResourceDoesNotExist(f"Cluster policy {policy} does not exist.")
    return _policy(workspace)


def _get_pool(workspace: Workspace, given: Arguments) -> Body:
    pool = _named(given, "instance_pool_id")
    if pool != POOL_ID:
        raise ResourceDoesNotExist(f"Instance pool {pool} does not exist.")
    return _pool()


def _named(given: Arguments, name: str) -> str:
    found = given.text(name)
    if found is None:
        raise InvalidParameterValue(f"Missing required field: {name}")
    return found
