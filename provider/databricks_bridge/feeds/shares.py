"""A table that its consumer reads through a share: looked up at both ends before a first run, and asked at the reader's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from databricks_bridge.core.errors import (
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    WorkspaceError,
)
from databricks_bridge.core.positions import BEFORE_FIRST, Position, TablePosition
from databricks_bridge.core.shares import Verdict, comes_from_share, judge, objects_of, reader_problem
from databricks_bridge.core.sources import DeltaTable, Source
from databricks_bridge.delta.identifiers import plain, split
from databricks_bridge.delta.model import LatestVersion, VersionSource
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

OpenWorkspace = Callable[[str], Awaitable[Workspace]]

_CATALOG = "/api/2.1/unity-catalog"
_SHARES_MAX = 100
"""So many shares are looked into where the reader's catalog does not tell which it was made from."""
_fine: WeakKeyDictionary[Workspace, set[DeltaTable]] = WeakKeyDictionary()


async def check_readers(
    workspace: OpenWorkspace, consumer: Workspace, sources: Iterable[Source], watermarks: Mapping[str, Position]
) -> None:
    """Refuse what no run could read: looks up `read_as` of each table without a watermark in the consumer's workspace, and
    the share at its provider where this identity may see it. What was found fine is not asked again of this client.

    Raises InvalidArgument, NotFound or NotPermitted with what to do, and NotAuthenticated or Unavailable.
    """
    fine = _fine.setdefault(consumer, set())
    for source in sources:
        if not isinstance(source, DeltaTable) or source.read_as is None or _has_begun(watermarks.get(source.alias)):
            continue
        if source not in fine:
            await _check(workspace, consumer, source)
            fine.add(source)


def _has_begun(mark: Position | None) -> bool:
    """A mark before the first version may be of a source that could not be polled, and so not be checked, at its start."""
    return mark is not None and not (isinstance(mark, TablePosition) and mark.at == BEFORE_FIRST)


async def open_reader(workspace: OpenWorkspace, source: DeltaTable) -> VersionSource | None:
    """Who is asked for the version of the reader; None where nobody is. Raises what `open_table` raises."""
    if source.reader_profile is not None:
        profile, _, shared_as = source.reader_profile.partition("#")
        return await open_table(None, shared_as or source.reader_name, via="sharing", profile=profile, identify=False)
    if source.reader_warehouse is not None and source.reader_conn_id is not None:
        reads = await workspace(source.reader_conn_id)
        return await open_table(reads, source.reader_name, via="sql", warehouse=source.reader_warehouse, identify=False)
    return None


async def reader_version(reader: VersionSource, latest: LatestVersion) -> int:
    """The version that the reader is at, -1 for none yet; `latest` is the provider's."""
    # asked for what is above the provider's version, so that no more than the newest commit is looked at
    found = await reader.latest(latest.version)
    return BEFORE_FIRST if found is None else found.version


async def _check(workspace: OpenWorkspace, consumer: Workspace, source: DeltaTable) -> None:
    entry = await _reader_entry(consumer, source)
    if problem := reader_problem(source, consumer.host, entry):
        raise InvalidArgument(problem)
    catalog = await _seen(consumer, f"{_CATALOG}/catalogs/{_url(split(source.reader_name)[0])}")
    if not comes_from_share(entry, catalog):
        log.info("%s in %s is not read through a share; there is none to check", source.reader_name, consumer.host)
        return
    if source.via == "sharing":
        return  # the provider is known by an open-sharing profile alone, which tells nothing of the share
    provider = await workspace(source.databricks_conn_id)
    verdict = await _provider_says(provider, source, (catalog or {}).get("share_name"))
    if verdict.problem:
        raise InvalidArgument(f"{source.reader_name} cannot follow its table in {provider.host}: {verdict.problem}")
    if verdict.warning:
        log.warning("%s, read from %s: %s", source.reader_name, provider.host, verdict.warning)
    if verdict.unchecked:
        log.info(
            "the share of %s in %s was not checked for history and filters: %s",
            source.table,
            provider.host,
            verdict.unchecked,
        )


async def _reader_entry(consumer: Workspace, source: DeltaTable) -> Mapping[str, Any]:
    name = plain(source.reader_name)
    path = f"{_CATALOG}/tables/{_url(name)}"
    try:
        return await consumer.get(path, {"include_manifest_capabilities": "true"})
    except NotFound as error:
        raise error.saying(
            f"{name}, the read_as of {source.table}, is not in {consumer.host}, or this identity may not see it: create its "
            f"catalog from the provider's share there, grant this identity SELECT on the table, or correct read_as ({error})"
        ) from error
    except NotPermitted as error:
        raise error.saying(
            f"this identity may not see {name}, the read_as of {source.table}, in {consumer.host}: grant it SELECT on the "
            f"table, with USE CATALOG and USE SCHEMA, or correct read_as ({error})"
        ) from error


async def _provider_says(provider: Workspace, source: DeltaTable, share_name: str | None) -> Verdict:
    """What the share of this name says, or all that can be seen. Whoever may not ask is told nothing, and that is no error."""
    try:
        entry = await provider.get_table(plain(source.table))
        if str(entry.get("table_type")) in ("METRIC_VIEW", "VIEW"):
            return Verdict(unchecked=f"{source.table} is a view there")
        names = [share_name] if share_name is not None else await _share_names(provider)
        if len(names) > _SHARES_MAX:
            return Verdict(
                unchecked=f"there are {len(names)} shares, and the catalog of {source.reader_name} names none"
            )
        shares = [await _share(provider, name) for name in names]
    except NotAuthenticated:
        raise
    except WorkspaceError as error:
        return Verdict(unchecked=str(error))
    return judge(source, entry, [one for share in shares for one in objects_of(share)], share_name)


async def _share(provider: Workspace, name: str) -> Mapping[str, Any]:
    return await provider.get(f"{_CATALOG}/shares/{_url(name)}", {"include_shared_data": "true"})


async def _share_names(provider: Workspace) -> list[str]:
    names: list[str] = []
    async for page in provider.pages(f"{_CATALOG}/shares", {"max_results": 0}):
        names += [str(one["name"]) for one in page.get("shares") or []]
        if len(names) > _SHARES_MAX:
            break
    return names


async def _seen(consumer: Workspace, path: str) -> Mapping[str, Any] | None:
    try:
        return await consumer.get(path)
    except (NotFound, NotPermitted):
        return None


def _url(name: str) -> str:
    return quote(name, safe="")
