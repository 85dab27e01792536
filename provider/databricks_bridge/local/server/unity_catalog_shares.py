"""Shares as their provider sees them (Shares API 2.1): read only, for they are made with `/local/shares`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.requests import Arguments
from databricks_bridge.local.server.unity_catalog_errors import ShareDoesNotExist, TableDoesNotExist
from databricks_bridge.local.server.unity_catalog_tables import described
from databricks_bridge.local.shares import Share
from databricks_bridge.local.triggers.commits import table_exists

Body = dict[str, Any]


def list_shares(workspace: Workspace, given: Arguments) -> Body:
    shares = workspace.shares.given_by(workspace.metastore)
    return {"shares": [_share(workspace, name, read) for name, read in shares.items()]}


def get_share(workspace: Workspace, given: Arguments, name: str) -> Body:
    read = workspace.shares.given_by(workspace.metastore).get(names.parts_of(name, 1)[0])
    if read is None:
        raise ShareDoesNotExist(f"Share '{name}' does not exist.")
    body = _share(workspace, read[0].catalog, read)
    if given.boolean("include_shared_data"):
        body["objects"] = _objects(workspace, read)
    return body


def _share(workspace: Workspace, name: str, read: list[Share]) -> Body:
    catalog = workspace.layout.metastore_root(read[0].metastore) / name
    at = names.card(catalog, names.catalog_card(catalog))["created_at"]
    return {
        "name": name,
        "owner": workspace.user_name,
        "created_at": at,
        "created_by": workspace.user_name,
        "updated_at": at,
        "updated_by": workspace.user_name,
    }


def _objects(workspace: Workspace, read: list[Share]) -> list[Body]:
    """Each table once, with history where all who read it have it."""
    history: dict[Path, bool] = {}
    for share in read:
        catalog = workspace.layout.metastore_root(share.source_metastore) / share.source_catalog
        for table in (table for schema in share.schemas for table in names.children(catalog / schema)):
            if table_exists(table):
                history[table] = history.get(table, True) and share.history
    return [body for table in sorted(history) if (body := _object(workspace, table, history[table]))]


def _object(workspace: Workspace, table: Path, history: bool) -> Body | None:
    try:
        entry = described(workspace, table)
    except TableDoesNotExist:
        return None
    return {
        "name": entry["full_name"],
        "shared_as": f"{entry['schema_name']}.{entry['name']}",
        "data_object_type": "TABLE",
        "history_data_sharing_status": "ENABLED" if history else "DISABLED",
        "cdf_enabled": history and entry["properties"].get("delta.enableChangeDataFeed") == "true",
        "status": "ACTIVE",
        "added_at": entry["created_at"],
        "added_by": workspace.user_name,
    }
