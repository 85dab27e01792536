"""Whether a table can be followed under its reader's name: what the consumer's catalog and the provider's shares say.

Versions agree between a table and its reader when the table itself is shared, whole and with history. Wire formats: Unity
Catalog's `tables/{name}` and `catalogs/{name}` in the consumer's workspace, `shares/{name}?include_shared_data=true` in the
provider's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from databricks_bridge.core.sources import DeltaTable

_TABLES = frozenset({"TABLE", "STREAMING_TABLE"})
_DERIVED = frozenset({"FOREIGN_TABLE", "MATERIALIZED_VIEW", "VIEW"})
_NO_VERSIONS = frozenset({"FOREIGN", "MATERIALIZED_VIEW", "METRIC_VIEW", "VIEW"})
_FROM_SHARE = "DELTASHARING_CATALOG"
_SHARED_FORMATS = frozenset({"DELTASHARING", "DELTA_SHARING"})


@dataclass(frozen=True)
class SharedObject:
    """What a share holds under `name` (of the provider) for its readers to see as `shared_as` (`schema.table`).

    `history` and `change_feed` are None where the answer does not tell them.
    """

    share: str
    name: str
    kind: str
    shared_as: str
    history: bool | None
    change_feed: bool | None
    partitioned: bool
    permitted: bool


@dataclass(frozen=True)
class Verdict:
    """`problem` says why no run can work, and what to do; empty where nothing speaks against it. `warning` is for the log,
    and so is `unchecked`: why the provider's side could not be judged.
    """

    problem: str = ""
    warning: str = ""
    unchecked: str = ""


def reader_problem(table: DeltaTable, host: str, entry: Mapping[str, Any]) -> str:
    """Why the catalog entry of `read_as`, in the consumer's workspace `host`, is no reader of the table; empty where it is."""
    kind = str(entry.get("table_type") or "")
    securable = str((entry.get("securable_kind_manifest") or {}).get("securable_kind") or "")
    if kind not in _NO_VERSIONS and not {"VIEW", "FOREIGN"} & set(securable.split("_")):
        return ""
    return (
        f"{table.reader_name} in {host}, the read_as of {table.table}, is of type {kind or securable}, and its versions are not "
        f"those of {table.table}: give read_as the shared table itself"
    )


def comes_from_share(entry: Mapping[str, Any], catalog: Mapping[str, Any] | None) -> bool:
    """Whether the reader's table is in a catalog that was made from a share, by the entries of both; None for a catalog that
    cannot be seen. What neither tells counts as shared.
    """
    form = str(entry.get("data_source_format") or "")
    if catalog is None:
        return form in _SHARED_FORMATS or not form
    return form in _SHARED_FORMATS or catalog.get("catalog_type") == _FROM_SHARE


def objects_of(share: Mapping[str, Any]) -> tuple[SharedObject, ...]:
    """The tables, views and schemas in a ShareInfo that was asked for with its shared data."""
    found = []
    for one in share.get("objects") or []:
        kind, name = str(one.get("data_object_type") or "TABLE"), _plain(str(one["name"]))
        if kind not in _TABLES | _DERIVED | {"SCHEMA"}:
            continue
        # A schema is shared with the history of its tables; the answer has no word for it.
        status = "ENABLED" if kind == "SCHEMA" else one.get("history_data_sharing_status")
        found.append(
            SharedObject(
                share=str(share["name"]),
                name=name,
                kind=kind,
                shared_as=_plain(str(one.get("shared_as") or name.partition(".")[2])),
                history=None if status is None else status == "ENABLED",
                change_feed=one.get("cdf_enabled"),
                partitioned=bool(one.get("partitions")),
                permitted=one.get("status") != "PERMISSION_DENIED",
            )
        )
    return tuple(found)


def judge(
    table: DeltaTable, entry: Mapping[str, Any], objects: Iterable[SharedObject], share_name: str | None
) -> Verdict:
    """What the provider's shares say. `entry` is the table's own catalog entry, `share_name` the share that the reader's
    catalog was made from and `objects` what is in it; None, and what is in all shares that can be seen, where that is not told.
    """
    holding = [one for one in objects if _holds(one, table)]
    if not holding and share_name is None:
        return Verdict(unchecked=f"no share that can be seen there holds {table.table}")
    if not holding:
        return Verdict(
            f"the share {share_name}, which the catalog of {table.reader_name} was made from, does not hold {table.table}: "
            f"ALTER SHARE {share_name} ADD TABLE {table.table} WITH HISTORY, or correct read_as"
        )
    named = [one for one in holding if _shown(one, table) == _reader(table)]
    if not named and share_name is not None:
        others = ", ".join(sorted({_shown(one, table) for one in holding}))
        return Verdict(f"the share {share_name} holds {table.table} as {others}; correct read_as ({table.reader_name})")
    verdicts = [_of_one(table, entry, one) for one in named or holding]
    return min(verdicts, key=lambda one: (bool(one.problem), bool(one.unchecked), bool(one.warning)))


def _of_one(table: DeltaTable, entry: Mapping[str, Any], one: SharedObject) -> Verdict:
    what = f"the share {one.share} holds {table.table}"
    if one.kind in _DERIVED:
        return Verdict(
            f"{what} as a {one.kind}, whose versions are not its own; share the table itself, and name that one"
        )
    if not one.permitted:
        return Verdict(
            f"{what}, but its owner may not read it (PERMISSION_DENIED), so nobody can; grant SELECT to the owner"
        )
    if one.partitioned:
        return Verdict(
            f"{what} with a partition filter, and versions agree only for the whole table: ALTER SHARE {one.share} REMOVE "
            f"TABLE {table.table}, then ALTER SHARE {one.share} ADD TABLE {table.table} WITH HISTORY"
        )
    if one.history is False:
        return Verdict(
            f"{what} without history (history_data_sharing_status DISABLED), so no range of its versions can be read: ALTER "
            f"SHARE {one.share} ALTER TABLE {table.table} WITH HISTORY (ADD TABLE ... WITH HISTORY where it is not in yet)"
        )
    if one.history is None:
        return Verdict(unchecked=f"{what}, but not whether with history")
    own = str((entry.get("properties") or {}).get("delta.enableChangeDataFeed", "")).lower() == "true"
    if one.change_feed is False and own:
        return Verdict(
            warning=f"{what} with history but without its change data feed (cdf_enabled false), which the table has: add it to "
            "the share again if the notebook reads changes"
        )
    return Verdict()


def _holds(one: SharedObject, table: DeltaTable) -> bool:
    name = _plain(table.table)
    return one.name == (name.rpartition(".")[0] if one.kind == "SCHEMA" else name)


def _shown(one: SharedObject, table: DeltaTable) -> str:
    """The schema and table under which readers see it."""
    return f"{one.shared_as}.{_plain(table.table).rpartition('.')[2]}" if one.kind == "SCHEMA" else one.shared_as


def _reader(table: DeltaTable) -> str:
    return _plain(table.reader_name).partition(".")[2]


def _plain(name: str) -> str:
    """Unity Catalog's names are without case."""
    return name.replace("`", "").lower()
