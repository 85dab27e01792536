"""From a table's name, or its storage location, to something that can be asked for its versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.delta import credentials, views
from databricks_bridge.delta.entries import entry_of
from databricks_bridge.delta.files import Files
from databricks_bridge.delta.locations import Kind, is_location, open_folder, parse_location
from databricks_bridge.delta.log import DeltaLog
from databricks_bridge.delta.model import VersionSource
from databricks_bridge.delta.named import NamedTable, catalog_managed, storage_of
from databricks_bridge.delta.vending import TableStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from databricks_bridge.delta.sharing import ProfileSource
    from databricks_bridge.workspace.client import Workspace

Via: TypeAlias = Literal["log", "catalog", "sharing", "sql"]
"""Who is asked for the version: the log in storage, Unity Catalog, an open share's server, a SQL warehouse."""


def _now() -> datetime:
    return datetime.now(UTC)


async def open_table(
    workspace: Workspace | None,
    full_name: str,
    *,
    via: Via | None = None,
    profile: ProfileSource | None = None,
    warehouse: str | None = None,
    warehouse_id: str | None = None,
    identify: bool = True,
    now: Callable[[], datetime] = _now,
    region_of: Callable[[str], Awaitable[str | None]] = credentials.bucket_region,
) -> VersionSource:
    """The versions of `catalog.schema.table`; an absolute path or a file: URL is opened without a workspace.

    Without `via` the table's kind chooses: a catalog-managed table is asked for at the catalog, any other is read from
    its log; a view stands for the one table under it. `via="sharing"` (with `profile`; the name is then
    `share.schema.table`) and `via="sql"` (with `warehouse`, its name, or `warehouse_id`; it wakes that warehouse) are
    used only when asked for. The catalog's entry is looked up now and again each hour, so that another table
    under the name shows as another `table_id`; storage credentials are renewed five minutes before they expire. Without
    `identify`, a share's server and a warehouse are not asked for the metadata id, which costs a request or a statement
    whenever the version moved; the log gives it for nothing.

    Raises InvalidArgument for what has no version that can be read this way, naming the way that can, and NotFound,
    NotPermitted, NotAuthenticated, Unavailable. `now` (aware) and `region_of` (bucket to AWS region) are injected.
    """
    _check(full_name, via, profile, warehouse, warehouse_id)
    if via == "sharing" and profile is not None:
        from databricks_bridge.delta.sharing import SharedTable, read_profile

        return SharedTable(read_profile(profile), full_name, identify=identify, now=now)
    if is_location(full_name):
        return _open_location(full_name)
    if workspace is None:
        raise InvalidArgument(f"{full_name!r} is a name in a catalog, and no workspace was given to look it up in")
    if via == "sql":
        from databricks_bridge.delta.sql import SqlTable

        return SqlTable(workspace, full_name, warehouse=warehouse, warehouse_id=warehouse_id, identify=identify)
    name, entry = await _under_view(workspace, full_name, await entry_of(workspace, full_name))
    if via == "catalog" or (via is None and catalog_managed(entry)):
        return _open_managed(workspace, name, entry, now=now, region_of=region_of)
    table = NamedTable(workspace, name, now=now, region_of=region_of)
    table.adopt(entry)
    return table


def _check(full_name: str, via: str | None, profile: object, warehouse: str | None, warehouse_id: str | None) -> None:
    if via is not None and via not in get_args(Via):
        raise InvalidArgument(f"via is {via!r}; known are {', '.join(get_args(Via))}")
    if (profile is not None) != (via == "sharing"):
        raise InvalidArgument(f"{full_name}: profile= and via='sharing' go together; give both or neither")
    if (warehouse is not None or warehouse_id is not None) != (via == "sql"):
        raise InvalidArgument(
            f"{full_name}: warehouse= (or warehouse_id=) and via='sql' go together; give both or neither"
        )
    if warehouse is not None and warehouse_id is not None:
        raise InvalidArgument(f"{full_name}: give one of warehouse= and warehouse_id=")
    if is_location(full_name) and via not in (None, "log"):
        raise InvalidArgument(
            f"{full_name!r} is a location, which has nothing but a log; via={via!r} needs a table's name"
        )


async def _under_view(workspace: Workspace, name: str, entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The table itself, or the only one under the view."""
    if not views.is_view(entry):
        return name, entry
    found = await views.tables_of(workspace, name, entry)
    if len(found.tables) > 1:
        raise InvalidArgument(views.advice(name, found))
    return found.tables[0], found.entries[found.tables[0]]


def _open_managed(
    workspace: Workspace,
    name: str,
    entry: dict[str, Any],
    *,
    now: Callable[[], datetime],
    region_of: Callable[[str], Awaitable[str | None]],
) -> VersionSource:
    from databricks_bridge.delta.catalog import CatalogManagedTable

    if entry.get("table_type") != "MANAGED":
        raise InvalidArgument(
            f"{name} is of type {entry.get('table_type')}, and Unity Catalog tracks the newest version of managed tables "
            "alone; read this one from its log (via='log')"
        )
    try:
        location = storage_of(name, entry)
    except InvalidArgument:
        return CatalogManagedTable(workspace, name)  # the version needs no storage; its commits then count as data
    store = TableStore(workspace, str(entry.get("table_id") or ""), location, now=now, region_of=region_of)

    async def files() -> Files:
        return Files(await store(), name)

    return CatalogManagedTable(workspace, name, open_files=files, store=location.store)


def _open_location(text: str) -> DeltaLog:
    location = parse_location(text)
    if location.kind is not Kind.FILE:
        raise InvalidArgument(
            f"{text!r} cannot be opened by its location: give the table's name in Unity Catalog, which has the "
            "credentials for it; only folders of this machine are opened by path"
        )
    open_folder(location.path)

    async def folder() -> ObjectStore:
        return open_folder(location.path)

    return DeltaLog(folder, location.path)
