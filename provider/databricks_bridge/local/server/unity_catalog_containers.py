"""Catalogs, schemas, volumes and the metastore summary (Unity Catalog API 2.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue, InvalidState
from databricks_bridge.local.server.requests import Arguments
from databricks_bridge.local.server.unity_catalog_errors import (
    CatalogAlreadyExists,
    SchemaAlreadyExists,
    VolumeAlreadyExists,
)
from databricks_bridge.local.server.unity_catalog_grants import forget
from databricks_bridge.local.sql.system_schema import SYSTEM_CATALOG

_MANAGED, _SHARED, _SYSTEM = "MANAGED_CATALOG", "DELTASHARING_CATALOG", "SYSTEM_CATALOG"
_NOT_FOLLOWED = (
    "connection_name",
    "options",
    "provider_name",
    "share_name",
    "managed_encryption_settings",
    "custom_max_retention_hours",
)
Body = dict[str, Any]


def metastore_summary(workspace: Workspace) -> Body:
    return {
        "metastore_id": workspace.metastore_id,
        "name": workspace.metastore,
        "global_metastore_id": f"local:local:{workspace.metastore_id}",
        "cloud": "local",
        "region": "local",
        "owner": workspace.user_name,
        "storage_root": workspace.layout.metastore_root(workspace.metastore).absolute().as_uri(),
        "delta_sharing_scope": "INTERNAL_AND_EXTERNAL",
        "external_access_enabled": True,
    }


# Catalogs


def list_catalogs(workspace: Workspace, given: Arguments) -> Body:
    root = workspace.layout.metastore_root(workspace.metastore)
    return {"catalogs": [_catalog(workspace, folder) for folder in names.children(root)]}


def create_catalog(workspace: Workspace, given: Arguments) -> Body:
    name = _new_name(given)
    names.refuse_system(name)
    _refuse_storage(given)
    folder = names.catalog_folder(workspace, name)
    try:
        folder.mkdir()
    except FileExistsError:
        raise CatalogAlreadyExists(f"Catalog '{name}' already exists") from None
    names.card(folder, names.catalog_card(folder), comment=given.text("comment"), properties=_properties(given))
    # As on Databricks, a new catalog has a schema `default`.
    (folder / "default").mkdir()
    return _catalog(workspace, folder)


def _refuse_storage(given: Arguments) -> None:
    """What would be kept and not followed: a place of its own, a foreign or shared catalog, encryption, retention."""
    for name in _NOT_FOLLOWED:
        if given.values.get(name):
            raise FeatureDisabled(words(Area.SETTING, f"Unity Catalog: {name} of what is new"))
    if given.text("storage_root") is not None:
        raise FeatureDisabled(
            "storage_root: the local workspace, which is not Databricks, keeps what is managed in its own folder; leave it out"
        )


def get_catalog(workspace: Workspace, given: Arguments, name: str) -> Body:
    return _catalog(workspace, names.existing_catalog(workspace, *names.parts_of(name, 1)))


def delete_catalog(workspace: Workspace, given: Arguments, name: str) -> Body:
    (catalog,) = names.parts_of(name, 1)
    folder = names.existing_catalog(workspace, catalog)
    names.refuse_read_only(workspace, catalog)
    schemas = names.children(folder)
    if not given.boolean("force") and any(
        _content(workspace, schema) or schema.name != "default" for schema in schemas
    ):
        raise InvalidState(f"Catalog '{catalog}' is not empty. Delete its schemas first, or use force.")
    for schema in schemas:
        _remove_schema(workspace, schema)
    names.remove_tree(folder)
    forget(workspace, "catalog", catalog)
    return {}


def _catalog(workspace: Workspace, folder: Path) -> Body:
    known = names.card(folder, names.catalog_card(folder))
    share = workspace.shares.find(workspace.metastore, folder.name)
    # No storage_root: Databricks answers one only where it was given, and clients that deploy take another one for a reason
    # to make the catalog anew, with all that is in it.
    kind: Body = {"catalog_type": _MANAGED}
    if share is not None:
        kind = {
            "catalog_type": _SHARED,
            "provider_name": share.source_metastore,
            "share_name": share.catalog,
        }
    if folder.name == SYSTEM_CATALOG:
        kind = {"catalog_type": _SYSTEM}
    return {
        "name": folder.name,
        "full_name": folder.name,
        "securable_type": "CATALOG",
        "isolation_mode": "OPEN",
        **kind,
        **_common(workspace, known),
    }


# Schemas


def list_schemas(workspace: Workspace, given: Arguments) -> Body:
    catalog = names.existing_catalog(workspace, *names.parts_of(_required(given, "catalog_name"), 1))
    return {"schemas": [_schema(workspace, folder) for folder in names.children(catalog)]}


def create_schema(workspace: Workspace, given: Arguments) -> Body:
    (catalog,) = names.parts_of(_required(given, "catalog_name"), 1)
    name = _new_name(given)
    folder = names.existing_catalog(workspace, catalog) / name
    names.refuse_read_only(workspace, catalog)
    _refuse_storage(given)
    try:
        folder.mkdir()
    except FileExistsError:
        raise SchemaAlreadyExists(f"Schema '{name}' already exists") from None
    names.card(folder, names.catalog_card(folder), comment=given.text("comment"), properties=_properties(given))
    return _schema(workspace, folder)


def get_schema(workspace: Workspace, given: Arguments, name: str) -> Body:
    return _schema(workspace, names.existing_schema(workspace, *names.parts_of(name, 2)))


def delete_schema(workspace: Workspace, given: Arguments, name: str) -> Body:
    catalog, schema = names.parts_of(name, 2)
    folder = names.existing_schema(workspace, catalog, schema)
    names.refuse_read_only(workspace, catalog)
    if not given.boolean("force") and (content := _content(workspace, folder)):
        raise InvalidState(f"Schema '{catalog}.{schema}' is not empty; it has {', '.join(content)}. Use force.")
    _remove_schema(workspace, folder)
    forget(workspace, "schema", f"{catalog}.{schema}")
    return {}


def _schema(workspace: Workspace, folder: Path) -> Body:
    known = names.card(folder, names.catalog_card(folder))
    shared = workspace.shares.find(workspace.metastore, folder.parent.name) is not None
    return {
        "name": folder.name,
        "full_name": f"{folder.parent.name}.{folder.name}",
        "catalog_name": folder.parent.name,
        "catalog_type": _SYSTEM if folder.parent.name == SYSTEM_CATALOG else _SHARED if shared else _MANAGED,
        "schema_id": known["id"],
        **_common(workspace, known),
    }


def _content(workspace: Workspace, schema: Path) -> list[str]:
    """Names of what a schema holds: tables, views, volumes."""
    tables = [child.name for child in schema.iterdir() if not child.name.startswith(".")]
    volumes = names.children(names.volumes_folder(workspace, schema.parent.name, schema.name))
    return sorted([*tables, *(volume.name for volume in volumes)])


def _remove_schema(workspace: Workspace, schema: Path) -> None:
    volumes = names.volumes_folder(workspace, schema.parent.name, schema.name)
    if volumes.is_dir():
        names.remove_tree(volumes)
    names.remove_tree(schema)


# Volumes


def list_volumes(workspace: Workspace, given: Arguments) -> Body:
    parts = [_required(given, "catalog_name"), _required(given, "schema_name")]
    catalog, schema = names.parts_of(".".join(parts), 2)
    names.existing_schema(workspace, catalog, schema)
    found = names.children(names.volumes_folder(workspace, catalog, schema))
    return {"volumes": [_volume(workspace, folder) for folder in found]}


def create_volume(workspace: Workspace, given: Arguments) -> Body:
    parts = [_required(given, "catalog_name"), _required(given, "schema_name")]
    catalog, schema = names.parts_of(".".join(parts), 2)
    name = _new_name(given)
    if given.text("volume_type") not in (None, "MANAGED"):
        raise InvalidParameterValue("The local workspace has managed volumes only; give volume_type MANAGED.")
    if given.text("storage_location") is not None:
        raise InvalidParameterValue("CreateVolume storage_location can not be provided.")
    names.existing_schema(workspace, catalog, schema)
    names.refuse_read_only(workspace, catalog)
    folder = names.volumes_folder(workspace, catalog, schema) / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        raise VolumeAlreadyExists(f"Volume '{catalog}.{schema}.{name}' already exists") from None
    # A card left over from a volume whose folder was removed by hand would lend it its id.
    names.volume_card(folder).unlink(missing_ok=True)
    names.card(folder, names.volume_card(folder), comment=given.text("comment"))
    return _volume(workspace, folder)


def get_volume(workspace: Workspace, given: Arguments, name: str) -> Body:
    return _volume(workspace, names.existing_volume(workspace, *names.parts_of(name, 3)))


def delete_volume(workspace: Workspace, given: Arguments, name: str) -> Body:
    folder = names.existing_volume(workspace, *names.parts_of(name, 3))
    names.remove_tree(folder)
    names.volume_card(folder).unlink(missing_ok=True)
    forget(workspace, "volume", name)
    return {}


def _volume(workspace: Workspace, folder: Path) -> Body:
    known = names.card(folder, names.volume_card(folder))
    catalog, schema = folder.parent.parent.name, folder.parent.name
    return {
        "name": folder.name,
        "full_name": f"{catalog}.{schema}.{folder.name}",
        "catalog_name": catalog,
        "schema_name": schema,
        "volume_id": known["id"],
        "volume_type": "MANAGED",
        "storage_location": folder.absolute().as_uri(),
        **_common(workspace, known),
    }


def _common(workspace: Workspace, known: Body) -> Body:
    optional = {key: known[key] for key in ("comment", "properties") if known.get(key)}
    return {
        "metastore_id": workspace.metastore_id,
        "owner": known.get("owner", workspace.user_name),
        "created_at": known["created_at"],
        "created_by": workspace.user_name,
        "updated_at": known.get("updated_at", known["created_at"]),
        "updated_by": workspace.user_name,
        **optional,
    }


def _new_name(given: Arguments) -> str:
    return names.parts_of(_required(given, "name"), 1)[0]


def _required(given: Arguments, field: str) -> str:
    value = given.text(field)
    if value is None:
        raise InvalidParameterValue(f"Missing required field: {field}")
    return value


def _properties(given: Arguments) -> dict[str, str] | None:
    return given.text_map("properties") or None
