"""Names in Unity Catalog, the folders behind them, and the identity of catalogs, schemas and volumes.

A catalog or schema exists where its folder exists in the metastore, a volume where its folder exists among the
volumes: notebooks and other processes make them by making folders. What a folder cannot say (id, creation time,
comment) is kept in a card, a small hidden JSON file that is made when the object is first looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from databricks_bridge.local.layout import is_inside
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import InvalidParameterValue, PermissionDenied
from databricks_bridge.local.server.unity_catalog_errors import (
    CatalogDoesNotExist,
    SchemaDoesNotExist,
    VolumeDoesNotExist,
)
from databricks_bridge.local.sql.system_schema import SYSTEM_CATALOG


def parts_of(full_name: str, count: int) -> list[str]:
    """The parts of a dotted name, lower case as Unity Catalog keeps them. Raises InvalidParameterValue."""
    parts = full_name.lower().split(".")
    if len(parts) != count or not all(is_name(part) for part in parts):
        raise InvalidParameterValue(f"{full_name!r} is not a valid name of {count} part(s)")
    return parts


def is_name(name: Any) -> bool:
    """A name that can be a folder: no dot, slash, space or control character (Unity Catalog object names)."""
    return isinstance(name, str) and bool(name) and not any(c in "./\\" or c <= " " or c == "\x7f" for c in name)


def catalog_folder(workspace: Workspace, catalog: str) -> Path:
    return workspace.layout.metastore_root(workspace.metastore) / catalog


def existing_catalog(workspace: Workspace, catalog: str) -> Path:
    """Raises CatalogDoesNotExist."""
    folder = catalog_folder(workspace, catalog)
    if not is_folder(folder):
        raise CatalogDoesNotExist(f"Catalog '{catalog}' does not exist.")
    return folder


def existing_schema(workspace: Workspace, catalog: str, schema: str) -> Path:
    """Raises CatalogDoesNotExist, SchemaDoesNotExist."""
    folder = existing_catalog(workspace, catalog) / schema
    if not is_folder(folder):
        raise SchemaDoesNotExist(f"Schema '{catalog}.{schema}' does not exist.")
    return folder


def volumes_folder(workspace: Workspace, catalog: str, schema: str) -> Path:
    return workspace.layout.volumes_root(workspace.metastore) / catalog / schema


def existing_volume(workspace: Workspace, catalog: str, schema: str, volume: str) -> Path:
    """Raises VolumeDoesNotExist, and for its catalog and schema as they do."""
    existing_schema(workspace, catalog, schema)
    folder = volumes_folder(workspace, catalog, schema) / volume
    if not is_folder(folder) or not is_inside(folder, workspace.layout.volumes_root(workspace.metastore)):
        raise VolumeDoesNotExist(f"Volume '{catalog}.{schema}.{volume}' does not exist.")
    return folder


def is_folder(path: Path) -> bool:
    """A link is none: it could lead anywhere."""
    return path.is_dir() and not path.is_symlink()


def children(folder: Path) -> list[Path]:
    """The folders in a folder that are not hidden, by name."""
    try:
        return sorted(child for child in folder.iterdir() if is_folder(child) and not child.name.startswith("."))
    except FileNotFoundError:
        return []


def refuse_system(catalog: str) -> None:
    """Raises PermissionDenied for the catalog of the system tables, which is nobody's to make or change."""
    if catalog == SYSTEM_CATALOG:
        raise PermissionDenied(f"Catalog '{catalog}' is the system's own; it can only be read.")


def refuse_read_only(workspace: Workspace, catalog: str) -> None:
    """Raises PermissionDenied for a catalog that was made from a share, and for the system's."""
    refuse_system(catalog)
    if workspace.shares.find(workspace.metastore, catalog) is not None:
        raise PermissionDenied(f"Catalog '{catalog}' is a share from another metastore; it can only be read.")


def card(folder: Path, file: Path, **more: Any) -> dict[str, Any]:
    """The card of the object in `folder`, made with `more` when there is none yet.

    Put-if-absent: whoever comes second reads what the first has written.
    """
    with contextlib.suppress(FileNotFoundError):
        return dict(json.loads(file.read_text()))
    made: Mapping[str, Any] = {
        "id": str(uuid.uuid4()),
        "created_at": round(folder.stat().st_mtime * 1000),
        **{key: value for key, value in more.items() if value is not None},
    }
    draft = file.with_name(f".{uuid.uuid4()}.tmp")
    draft.write_text(json.dumps(made))
    with contextlib.suppress(FileExistsError):
        os.link(draft, file)
    draft.unlink()
    return dict(json.loads(file.read_text()))


def catalog_card(folder: Path) -> Path:
    """Where the card of a catalog or schema is kept."""
    return folder / ".card.json"


def volume_card(folder: Path) -> Path:
    """Where a volume's card is kept: beside it, so that the volume holds nothing but its files."""
    return folder.with_name(f".{folder.name}.card.json")


def table_card(folder: Path) -> Path:
    """Where a table's card is kept: beside it, so that the folder holds nothing but the table."""
    return folder.with_name(f".{folder.name}.table.card.json")


def remove_tree(folder: Path) -> None:
    """Remove a folder so that nobody sees half of it: first out of sight, then file by file."""
    hidden = folder.with_name(f".removed-{uuid.uuid4()}")
    folder.rename(hidden)
    shutil.rmtree(hidden)
