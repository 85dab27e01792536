"""Temporary credentials for tables and volumes.

On Databricks the answer holds a `url`, an `expiration_time` and exactly one credential of a cloud. Tables here are
files of this machine, for which no credential exists: the answer holds the `file://` url and the expiration alone.
"""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import InvalidParameterValue, PermissionDenied
from databricks_bridge.local.server.requests import Arguments
from databricks_bridge.local.server.unity_catalog_errors import (
    LocationDoesNotExist,
    TableDoesNotExist,
    VolumeDoesNotExist,
)
from databricks_bridge.local.server.unity_catalog_grants import require_select
from databricks_bridge.local.server.unity_catalog_tables import tables
from databricks_bridge.local.triggers.commits import table_id
from databricks_bridge.local.triggers.switches import read_switches

LOCATION_NAME = "local"
LIFETIME_SECONDS = 3600
"""How long Databricks' own last in practice; scaled by the deployment's time scale."""


def for_table(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """POST temporary-table-credentials. Raises TableDoesNotExist, and PermissionDenied for shared tables."""
    wanted = given.text("table_id")
    _operation(given, "READ", "READ_WRITE")
    for table in tables(workspace):
        if table_id(table) == wanted:
            if workspace.shares.find(workspace.metastore, table.parent.parent.name) is not None:
                raise PermissionDenied(f"Credential vending is not supported for tables of a share, as {wanted} is.")
            require_select(workspace, ".".join(table.parts[-3:]))
            return _answer(workspace, table.absolute().as_uri())
    raise TableDoesNotExist(f"Table with id '{wanted}' does not exist.")


def for_volume(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """POST temporary-volume-credentials. Raises VolumeDoesNotExist."""
    wanted = given.text("volume_id")
    _operation(given, "READ_VOLUME", "WRITE_VOLUME")
    for catalog in names.children(workspace.layout.volumes_root(workspace.metastore)):
        for schema in names.children(catalog):
            for volume in names.children(schema):
                if names.card(volume, names.volume_card(volume))["id"] == wanted:
                    return _answer(workspace, volume.absolute().as_uri())
    raise VolumeDoesNotExist(f"Volume with id '{wanted}' does not exist.")


def for_path(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """POST temporary-path-credentials: of the one external location, where the volumes are. Raises PermissionDenied."""
    url = given.text("url")
    if url is None:
        raise InvalidParameterValue("Missing required field: url")
    _operation(given, "PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE")
    if not covers(location_url(workspace), url):
        raise PermissionDenied(f"No external location covers {url}; managed tables are not supported.")
    return _answer(workspace, url)


def list_locations(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """GET external-locations: the folder of the metastore's volumes."""
    return {"external_locations": [_location(workspace)]}


def get_location(workspace: Workspace, given: Arguments, name: str) -> dict[str, Any]:
    """GET external-locations/{name}. Raises LocationDoesNotExist."""
    if name != LOCATION_NAME:
        raise LocationDoesNotExist(f"External Location '{name}' does not exist.")
    return _location(workspace)


def location_url(workspace: Workspace) -> str:
    return workspace.layout.volumes_root(workspace.metastore).absolute().as_uri()


def covers(location: str, url: str) -> bool:
    """Whether a URL is the location or below it, and does not leave it."""
    return (url == location or url.startswith(f"{location}/")) and ".." not in url.split("/")


def _location(workspace: Workspace) -> dict[str, Any]:
    events = read_switches(workspace.store).file_events
    return {
        "name": LOCATION_NAME,
        "url": location_url(workspace),
        "credential_name": "local",
        "read_only": False,
        "owner": workspace.user_name,
        "metastore_id": workspace.metastore_id,
        "enable_file_events": events,
        "effective_enable_file_events": events,
    }


def _operation(given: Arguments, *known: str) -> None:
    if given.text("operation") not in known:
        raise InvalidParameterValue(f"operation is {given.text('operation')!r}; use {' or '.join(known)}")


def _answer(workspace: Workspace, url: str) -> dict[str, Any]:
    return {"url": url, "expiration_time": int((workspace.now() + LIFETIME_SECONDS * workspace.time_scale) * 1000)}
