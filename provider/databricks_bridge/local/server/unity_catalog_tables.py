"""Tables and views (Unity Catalog API 2.1): what is in the folders, read from the Delta logs themselves."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.requests import Arguments
from databricks_bridge.local.server.unity_catalog_columns import columns
from databricks_bridge.local.server.unity_catalog_errors import TableDoesNotExist
from databricks_bridge.local.server.unity_catalog_grants import forget, require_select
from databricks_bridge.local.server.unity_catalog_owners import explicit_owner
from databricks_bridge.local.sql.system_schema import SYSTEM_CATALOG
from databricks_bridge.local.triggers.commits import (
    commit_name,
    commit_time,
    commit_versions,
    table_exists,
    table_id,
    view_file,
)
from databricks_bridge.local.triggers.outcome import to_ms

Body = dict[str, Any]
log = logging.getLogger(__name__)
EXTERNAL_READ = "HAS_DIRECT_EXTERNAL_ENGINE_READ_SUPPORT"


def list_tables(workspace: Workspace, given: Arguments) -> Body:
    catalog, schema = given.text("catalog_name"), given.text("schema_name")
    if catalog is None or schema is None:
        raise InvalidParameterValue("catalog_name and schema_name are required")
    folder = names.existing_schema(workspace, *names.parts_of(f"{catalog}.{schema}", 2))
    tables = [described(workspace, table) for table in names.children(folder) if table_exists(table)]
    views = [_view(workspace, file) for file in sorted(folder.glob("*.view.json")) if not file.name.startswith(".")]
    left_out = [field for field in ("columns", "properties") if given.boolean(f"omit_{field}")]
    shown = [{key: value for key, value in table.items() if key not in left_out} for table in [*tables, *views]]
    return {"tables": sorted(shown, key=lambda table: str(table["name"]))}


def get_table(workspace: Workspace, given: Arguments, name: str) -> Body:
    """Raises TableDoesNotExist, and PermissionDenied without SELECT and what it takes above it."""
    require_select(workspace, ".".join(names.parts_of(name, 3)))
    table = existing_table(workspace, name)
    if not table_exists(table):
        return _view(workspace, view_file(table))
    body = described(workspace, table)
    if given.boolean("include_manifest_capabilities"):
        shared = body["data_source_format"] == "DELTASHARING"
        body["securable_kind_manifest"] = {
            "securable_type": "TABLE",
            "securable_kind": "TABLE_DELTASHARING" if shared else "TABLE_DELTA",
            "capabilities": [] if shared else [EXTERNAL_READ],
        }
    return body


def exists(workspace: Workspace, given: Arguments, name: str) -> Body:
    table = _folder(workspace, name)
    return {"table_exists": table_exists(table) or view_file(table).is_file()}


def delete_table(workspace: Workspace, given: Arguments, name: str) -> Body:
    table = existing_table(workspace, name)
    names.refuse_read_only(workspace, table.parent.parent.name)
    if table_exists(table):
        names.remove_tree(table)
    else:
        view_file(table).unlink()
    forget(workspace, "table", name)
    return {}


def existing_table(workspace: Workspace, name: str) -> Path:
    """Folder of a table, or where a view's would be. Raises TableDoesNotExist, and for its schema as that does."""
    catalog, schema, table = names.parts_of(name, 3)
    folder = names.existing_schema(workspace, catalog, schema) / table
    share = workspace.shares.find(workspace.metastore, catalog)
    if share is not None and share.lag == "none" and not table_exists(folder):
        workspace.shares.publish(share)  # not held, so a table is there as soon as somebody asks for it
    if folder.is_symlink() or (not table_exists(folder) and not view_file(folder).is_file()):
        raise TableDoesNotExist(f"Table '{catalog}.{schema}.{table}' does not exist.")
    return folder


def tables(workspace: Workspace) -> Iterator[Path]:
    """Folders of all tables of the workspace's metastore."""
    for catalog in names.children(workspace.layout.metastore_root(workspace.metastore)):
        for schema in names.children(catalog):
            yield from (table for table in names.children(schema) if table_exists(table))


def described(workspace: Workspace, table: Path) -> Body:
    """tables-get of a Delta table.

    `delta.lastUpdateVersion` is the last version that changed the table's metadata, as on Databricks: commits of data
    alone leave it as it is. A table whose log cannot be read is there all the same, as on Databricks, where the catalog
    does not read logs; what only the log tells is left out. Raises TableDoesNotExist for a table dropped meanwhile.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    catalog, schema = table.parent.parent.name, table.parent.name
    identity = table_id(table)
    try:
        delta = DeltaTable(str(table))
        metadata, protocol = delta.metadata(), delta.protocol()
        versions = commit_versions(table)
        updated = last_metadata_version(table, versions)
        created_at, updated_at = to_ms(commit_time(table, versions[0])), to_ms(commit_time(table, updated))
    except (FileNotFoundError, IndexError, TableNotFoundError):
        identity = None
    except (DeltaError, OSError, ValueError) as error:
        if identity is not None and table_exists(table):
            log.warning("%s: its Delta log cannot be read, so its columns are not known: %s", table, error)
            return _unread(workspace, table, identity)
        identity = None
    if identity is None:
        raise TableDoesNotExist(f"Table '{catalog}.{schema}.{table.name}' does not exist.")
    properties = {
        **{key: value for key, value in metadata.configuration.items() if value is not None},
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
        "delta.lastUpdateVersion": str(updated),
        "delta.lastCommitTimestamp": str(updated_at),
    }
    body = {
        **_named(workspace, catalog, schema, table.name),
        "table_id": identity,
        "table_type": "MANAGED",
        "data_source_format": "DELTA",
        "storage_location": table.absolute().as_uri(),
        "columns": columns(json.loads(delta.schema().to_json()), metadata.partition_columns),
        "properties": properties,
        "created_at": created_at,
        "updated_at": updated_at,
    }
    if metadata.description:
        body["comment"] = metadata.description
    return _as_reader(workspace, body)


def _unread(workspace: Workspace, table: Path, identity: str) -> Body:
    at = round((table / "_delta_log").stat().st_mtime * 1000)
    body = {
        **_named(workspace, table.parent.parent.name, table.parent.name, table.name),
        "table_id": identity,
        "table_type": "MANAGED",
        "data_source_format": "DELTA",
        "storage_location": table.absolute().as_uri(),
        "columns": [],
        "properties": {},
        "created_at": at,
        "updated_at": at,
    }
    return _as_reader(workspace, body)


def _as_reader(workspace: Workspace, body: Body) -> Body:
    """The reader of a share is not told where its data lies, nor when the provider changed it."""
    if workspace.shares.find(workspace.metastore, body["catalog_name"]) is None:
        return body
    hidden = {**body, "data_source_format": "DELTASHARING", "properties": {}}
    del hidden["storage_location"]
    return hidden


def last_metadata_version(table: Path, versions: list[int]) -> int:
    """The newest of `versions` with a metaData action; the oldest when none of those left in the log has one."""
    for version in reversed(versions):
        with (table / "_delta_log" / commit_name(version)).open(encoding="utf-8") as lines:
            if any(line.startswith('{"metaData"') for line in lines):
                return version
    return versions[0]


def _view(workspace: Workspace, file: Path) -> Body:
    name = file.name.removesuffix(".view.json")
    catalog, schema = file.parent.parent.name, file.parent.name
    try:
        view = json.loads(file.read_text())
        at = round(file.stat().st_mtime * 1000)
    except FileNotFoundError:
        raise TableDoesNotExist(f"Table '{catalog}.{schema}.{name}' does not exist.") from None
    table_id = names.card(file.parent, file.with_name(f".{name}.view.card.json"))["id"]
    if catalog == SYSTEM_CATALOG:
        return {
            **_named(workspace, catalog, schema, name),
            "table_id": table_id,
            "table_type": "MANAGED",
            "data_source_format": "DELTASHARING",
            "columns": columns(json.loads(view["schema"])),
            "properties": {},
            "created_at": at,
            "updated_at": at,
        }
    return {
        **_named(workspace, catalog, schema, name),
        "table_id": table_id,
        "table_type": "VIEW",
        "data_source_format": "UNITY_CATALOG",
        "view_definition": view["query"],
        "columns": columns(json.loads(view["schema"])),
        "properties": {str(key): str(value) for key, value in view.get("properties", {}).items()},
        "created_at": at,
        "updated_at": at,
    }


def _named(workspace: Workspace, catalog: str, schema: str, name: str) -> Body:
    return {
        "name": name,
        "full_name": f"{catalog}.{schema}.{name}",
        "catalog_name": catalog,
        "schema_name": schema,
        "metastore_id": workspace.metastore_id,
        "owner": explicit_owner(workspace, "table", f"{catalog}.{schema}.{name}") or workspace.user_name,
    }


def _folder(workspace: Workspace, name: str) -> Path:
    return workspace.layout.table_path(workspace.metastore, ".".join(names.parts_of(name, 3)))
