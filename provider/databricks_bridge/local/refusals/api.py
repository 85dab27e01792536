"""API families that are not served, by the address that they begin with.

The answer to all of them is 404 `ENDPOINT_NOT_FOUND`, as Databricks answers for an address that it does not have: official
clients try a 5xx again, some of them for half a minute, and then drop the message.
"""

from __future__ import annotations

from databricks_bridge.local.refusals.model import HERE, Area, Refusal

_FAMILIES: tuple[tuple[str, str], ...] = (
    ("accounts", "2.0/accounts"),
    ("alerts", "2.0/alerts"),
    ("apps", "2.0/apps"),
    ("artifact allow lists", "2.1/unity-catalog/artifact-allowlists"),
    ("changing clusters", "2.1/clusters"),
    ("changing cluster policies", "2.0/policies"),
    ("changing instance pools", "2.0/instance-pools"),
    ("changing warehouses", "2.0/sql/warehouses"),
    ("clean rooms", "2.0/clean-rooms"),
    ("command execution", "1.2/commands"),
    ("command execution contexts", "1.2/contexts"),
    ("connections (Unity Catalog)", "2.1/unity-catalog/connections"),
    ("credentials (Unity Catalog)", "2.1/unity-catalog/credentials"),
    ("dashboards", "2.0/lakeview"),
    ("dashboards of SQL", "2.0/preview/sql"),
    ("database instances", "2.0/database"),
    ("DBFS", "2.0/dbfs"),
    ("feature store", "2.0/feature-store"),
    ("functions (Unity Catalog)", "2.1/unity-catalog/functions"),
    ("Genie", "2.0/genie"),
    ("Git credentials", "2.0/git-credentials"),
    ("global init scripts", "2.0/global-init-scripts"),
    ("groups, users and service principals", "2.0/preview/scim"),
    ("Iceberg REST catalog", "2.1/unity-catalog/iceberg"),
    ("instance profiles", "2.0/instance-profiles"),
    ("IP access lists", "2.0/ip-access-lists"),
    ("jobs: other calls", "2.2/jobs"),
    ("libraries", "2.0/libraries"),
    ("marketplace", "2.1/marketplace-consumer"),
    ("metastores: all but the summary", "2.1/unity-catalog/metastores"),
    ("MLflow: experiments, runs, registered models", "2.0/mlflow"),
    ("models (Unity Catalog)", "2.1/unity-catalog/models"),
    ("notification destinations", "2.0/notification-destinations"),
    ("online tables", "2.0/online-tables"),
    ("pipelines", "2.0/pipelines"),
    ("policy compliance of clusters", "2.0/policies/clusters/enforce-compliance"),
    ("policy compliance of jobs", "2.0/policies/jobs"),
    ("policy families", "2.0/policy-families"),
    ("providers (Delta Sharing)", "2.1/unity-catalog/providers"),
    ("quality monitors", "2.1/quality-monitoring"),
    ("queries", "2.0/sql/queries"),
    ("query history", "2.0/sql/history"),
    ("resource quotas", "2.1/unity-catalog/resource-quotas"),
    ("secrets", "2.0/secrets"),
    ("serving endpoints", "2.0/serving-endpoints"),
    ("settings of the workspace", "2.0/settings"),
    ("settings of the workspace (old)", "2.0/workspace-conf"),
    ("storage credentials", "2.1/unity-catalog/storage-credentials"),
    ("system schemas", "2.1/unity-catalog/metastores/systemschemas"),
    ("table constraints", "2.1/unity-catalog/constraints"),
    ("table summaries", "2.1/unity-catalog/table-summaries"),
    ("tags", "2.1/tag-policies"),
    ("temporary credentials of services", "2.1/unity-catalog/temporary-service-credentials"),
    ("tokens", "2.0/token"),
    ("token management", "2.0/token-management"),
    ("vector search", "2.0/vector-search"),
    ("workspace bindings", "2.1/unity-catalog/bindings"),
)
REFUSALS = tuple(
    Refusal(Area.API, name, f"{HERE} does not serve {name}", "SDK", ("PUT", f"/api/{path}/x"))
    for name, path in _FAMILIES
)


def family_of(path: str) -> str | None:
    """The name of the family that an address below `/api/` belongs to; None where it is in none of them."""
    _, _, below = path.removeprefix("/api/").partition("/")
    known = [(prefix.partition("/")[2], name) for name, prefix in _FAMILIES]
    found = [
        (prefix, name) for prefix, name in known if below == prefix or below.startswith((f"{prefix}/", f"{prefix}-"))
    ]
    return max(found)[1] if found else None
