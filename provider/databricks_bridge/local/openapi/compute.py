"""Operations on compute that is listed and does nothing."""

from __future__ import annotations

from databricks_bridge.local.openapi.model import (
    Operation,
    Operations,
    anything,
    fields,
    listing,
    tagged,
    text,
    under,
    whole,
)
from databricks_bridge.local.server.compute import CLUSTER_ID, POLICY_ID, POOL_ID


def operations() -> Operations:
    """Clusters and their policies in two versions, instance pools in one."""
    cluster = fields("cluster_id", "state", cluster_id=text(), state=text())
    policy = fields("policy_id", "name", policy_id=text(), name=text())
    pool = fields("instance_pool_id", instance_pool_id=text())
    both: Operations = {
        ("GET", "clusters/list"): Operation("The clusters: one", answer=fields("clusters", clusters=listing(cluster))),
        ("GET", "clusters/get"): Operation(
            "One cluster",
            query={"cluster_id": text()},
            required=("cluster_id",),
            answer=cluster,
            example=lambda known: {"cluster_id": CLUSTER_ID},
        ),
        ("POST", "clusters/start"): Operation(
            "Leave it running",
            body={"cluster_id": text()},
            required=("cluster_id",),
            answer=anything(),
            example=lambda known: {"cluster_id": CLUSTER_ID},
        ),
        ("GET", "clusters/spark-versions"): Operation(
            "The runtimes: one", answer=fields("versions", versions=listing(fields(key=text(), name=text())))
        ),
        ("GET", "clusters/list-node-types"): Operation(
            "The kinds of machines: this one", answer=fields("node_types", node_types=listing(anything()))
        ),
        ("GET", "policies/clusters/list"): Operation(
            "The cluster policies: one", answer=fields("policies", policies=listing(policy), total_count=whole())
        ),
        ("GET", "policies/clusters/get"): Operation(
            "One cluster policy",
            query={"policy_id": text()},
            required=("policy_id",),
            answer=policy,
            example=lambda known: {"policy_id": POLICY_ID},
        ),
    }
    pools: Operations = {
        ("GET", "instance-pools/list"): Operation(
            "The instance pools: one", answer=fields("instance_pools", instance_pools=listing(pool))
        ),
        ("GET", "instance-pools/get"): Operation(
            "One instance pool",
            query={"instance_pool_id": text()},
            required=("instance_pool_id",),
            answer=pool,
            example=lambda known: {"instance_pool_id": POOL_ID},
        ),
    }
    return tagged("compute", {**under(("/api/2.0", "/api/2.1"), both), **under(("/api/2.0",), pools)})
