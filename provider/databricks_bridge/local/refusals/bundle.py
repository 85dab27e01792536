"""Keys of a bundle in the lab file that are not served: the Databricks CLI deploys them, where the workspace serves them."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.refusals.model import HERE, Area, Refusal

_BY_CLI = "the lab file does not follow this key of a bundle; deploy with the CLI (databricks bundle deploy)"
_KEYS: dict[str, Any] = {
    "artifacts": {"wheel": {"type": "whl"}},
    "python": {"resources": ["resources:load_resources"]},
    "experimental": {"python": {"resources": ["resources:load_resources"]}},
    "scripts": {"s": {"content": "echo"}},
    "git": {"branch": "main"},
    "cluster_id": "0101-x",
    "compute_id": "0101-x",
    "environments": {"dev": {}},
}
KINDS = (
    *("alerts", "apps", "clusters", "dashboards", "database_catalogs", "database_instances", "experiments"),
    *("external_locations", "genie_spaces", "model_serving_endpoints", "models", "pipelines", "postgres_branches"),
    *("postgres_endpoints", "postgres_projects", "quality_monitors", "registered_models", "secret_scopes"),
    *("sql_warehouses", "synced_database_tables", "vector_search_endpoints", "vector_search_indexes"),
)
_JOB: dict[str, Any] = {"name": "j", "tasks": [{"task_key": "t", "notebook_task": {"notebook_path": "/Shared/n"}}]}
_RUN_AS = f"run_as: {HERE} runs every job as local-workspace; leave it out, or name that user"
_LIBRARIES = (
    f"{HERE} installs no libraries; make what a notebook imports part of the environment that the deployment runs in"
)


def _with(**more: Any) -> dict[str, Any]:
    return {"bundle": {"name": "b"}, **more}


REFUSALS: tuple[Refusal, ...] = (
    *(Refusal(Area.BUNDLE, key, f"{key}: {_BY_CLI}", "CLI", _with(**{key: value})) for key, value in _KEYS.items()),
    *(
        Refusal(
            Area.BUNDLE,
            f"resources.{kind}",
            f"resources.{kind}: {HERE} does not serve them",
            "CLI",
            _with(resources={kind: {"x": {"name": "x"}}}),
        )
        for kind in KINDS
    ),
    Refusal(
        Area.BUNDLE,
        "variables.lookup",
        "lookup of a variable: the lab file is read before the workspace runs, so give its value",
        "CLI",
        _with(variables={"v": {"lookup": {"warehouse": "w"}}}, resources={"jobs": {"j": {**_JOB, "name": "${var.v}"}}}),
    ),
    Refusal(Area.BUNDLE, "run_as", _RUN_AS, "CLI", _with(run_as={"user_name": "somebody"})),
    Refusal(
        Area.BUNDLE,
        "libraries",
        _LIBRARIES,
        "CLI",
        _with(resources={"jobs": {"j": {**_JOB, "tasks": [{**_JOB["tasks"][0], "libraries": [{"whl": "./x.whl"}]}]}}}),
    ),
    Refusal(
        Area.BUNDLE,
        "presets.source_linked_deployment",
        f"presets.source_linked_deployment: {HERE} keeps copies of the files of a bundle",
        "CLI",
        _with(presets={"source_linked_deployment": True}),
    ),
    Refusal(Area.BUNDLE, "sync.paths", f"sync.paths: {_BY_CLI}", "CLI", _with(sync={"paths": ["../shared"]})),
)
