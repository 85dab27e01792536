"""Who owns a catalog, schema, volume or table: the user, until a PATCH makes somebody else the owner."""

from __future__ import annotations

import contextlib
import json

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.triggers.commits import table_id


def explicit_owner(workspace: Workspace, kind: str, full_name: str) -> str | None:
    """Who was made the owner of a catalog, schema, volume or table; None where it is the user who made it."""
    parts = full_name.split(".")
    root = workspace.layout.metastore_root(workspace.metastore)
    file = names.catalog_card(root.joinpath(*parts))
    if kind == "volume":
        file = names.volume_card(names.volumes_folder(workspace, *parts[:2]) / parts[2])
    elif kind == "table":
        file = names.table_card(root.joinpath(*parts))
    with contextlib.suppress(OSError, ValueError):
        card = json.loads(file.read_text())
        if kind != "table" or card.get("table_id") == table_id(root.joinpath(*parts)):
            owner: str | None = card.get("owner")
            return owner
    return None
