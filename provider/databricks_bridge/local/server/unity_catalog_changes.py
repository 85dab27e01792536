"""Changing catalogs, schemas, volumes and tables (PATCH, Unity Catalog API 2.1), and who owns what.

What is changed is kept in the object's card. A table's card lies beside its folder and names the table by its id, so that
one which is dropped and made again is nobody else's.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.server import unity_catalog_containers as containers
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server import unity_catalog_tables as tables
from databricks_bridge.local.server.errors import FeatureDisabled
from databricks_bridge.local.server.requests import Arguments
from databricks_bridge.local.triggers.commits import table_id

Body = dict[str, Any]
_KEPT = ("comment", "owner", "properties")
_AS_IT_IS = {"isolation_mode": "OPEN", "enable_predictive_optimization": "INHERIT"}
"""Taken with the value that holds anyway."""
_TARGETS = ("new_name", "managed_encryption_settings", "custom_max_retention_hours", "options")


def change_catalog(workspace: Workspace, given: Arguments, name: str) -> Body:
    (catalog,) = names.parts_of(name, 1)
    folder = names.existing_catalog(workspace, catalog)
    names.refuse_system(catalog)
    _change(workspace, folder, names.catalog_card(folder), given)
    return containers.get_catalog(workspace, given, name)


def change_schema(workspace: Workspace, given: Arguments, name: str) -> Body:
    catalog, schema = names.parts_of(name, 2)
    folder = names.existing_schema(workspace, catalog, schema)
    names.refuse_read_only(workspace, catalog)
    _change(workspace, folder, names.catalog_card(folder), given)
    return containers.get_schema(workspace, given, name)


def change_volume(workspace: Workspace, given: Arguments, name: str) -> Body:
    folder = names.existing_volume(workspace, *names.parts_of(name, 3))
    _change(workspace, folder, names.volume_card(folder), given)
    return containers.get_volume(workspace, given, name)


def change_table(workspace: Workspace, given: Arguments, name: str) -> Body:
    """The owner alone, as the SDK has it: all else of a table is in its Delta log."""
    table = tables.existing_table(workspace, name)
    names.refuse_read_only(workspace, table.parent.parent.name)
    if owner := given.text("owner"):
        _keep(names.table_card(table), {"table_id": table_id(table), "owner": owner})
    return {}


def _change(workspace: Workspace, folder: Path, file: Path, given: Arguments) -> None:
    for name in _TARGETS:
        if given.values.get(name):
            raise FeatureDisabled(words(Area.SETTING, f"Unity Catalog: {name}"))
    for name, value in _AS_IT_IS.items():
        if given.values.get(name, value) != value:
            raise FeatureDisabled(words(Area.SETTING, f"Unity Catalog: {name}"))
    changes = {name: given.values[name] for name in _KEPT if given.values.get(name) is not None}
    if changes:
        known = names.card(folder, file)
        _keep(file, {**known, **changes, "updated_at": int(workspace.now() * 1000)})


def _keep(file: Path, card: Body) -> None:
    draft = file.with_name(f".{uuid.uuid4()}.tmp")
    draft.write_text(json.dumps(card))
    os.replace(draft, file)
