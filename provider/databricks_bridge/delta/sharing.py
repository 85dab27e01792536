"""The newest version of a table in an open Delta Sharing share, by the protocol's "query table version" call.

`GET {endpoint}/shares/{share}/schemas/{schema}/tables/{table}/version` answers in the header `Delta-Table-Version`.
A share between two Databricks metastores has no profile: look at the provider's own table, or by SQL at the reader.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from databricks_bridge.core.errors import (
    BadAnswer,
    InvalidArgument,
    NotAuthenticated,
    NotPermitted,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.delta.identifiers import split
from databricks_bridge.delta.model import CommitSummary, LatestVersion
from databricks_bridge.workspace.client import Workspace

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

ProfileSource: TypeAlias = str | Path | Mapping[str, Any]
"""A profile file's path, its content, or the fields of an Airflow connection: `conn_id`, `host`, `password`, `extra`."""

_HEADER = "delta-table-version"
_CAPABILITIES = {
    "delta-sharing-capabilities": "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping"
}
"""Asks for the form that all tables have; without it a server refuses those with newer features ("Delta Sharing Capabilities")."""
_VERSIONS = (1, 2)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Profile:
    """What a recipient was given. `name` is how messages call it: the file, or the connection."""

    name: str
    endpoint: str
    token: str = field(repr=False)
    expires_at: datetime | None = None


def read_profile(source: ProfileSource) -> Profile:
    """The profile from a file or from what the caller already has. Raises InvalidArgument, never showing the token."""
    if isinstance(source, Mapping):
        name = f"of the connection {source['conn_id']}" if source.get("conn_id") else "that was given"
        return _profile(name, _of_connection(source) if "endpoint" not in source else source)
    name = str(source)
    try:
        content = json.loads(Path(source).read_text("utf-8-sig"))
    except OSError as error:
        raise InvalidArgument(f"the Delta Sharing profile {name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise InvalidArgument(f"the Delta Sharing profile {name} is not JSON; download it again") from None
    if not isinstance(content, dict):
        raise InvalidArgument(f"the Delta Sharing profile {name} is not a JSON object; download it again")
    return _profile(name, content)


def _of_connection(fields: Mapping[str, Any]) -> dict[str, Any]:
    extra = fields.get("extra") or {}
    if isinstance(extra, str):
        try:
            extra = json.loads(extra)
        except ValueError:
            raise InvalidArgument("the extra of the Delta Sharing connection is not JSON") from None
    return {"endpoint": fields.get("host"), "bearerToken": fields.get("password"), **extra}


def _profile(name: str, content: Mapping[str, Any]) -> Profile:
    version = content.get("shareCredentialsVersion", 1)
    kind = content.get("type", "bearer_token")
    if version not in _VERSIONS or kind not in ("bearer_token", "persistent_access_token"):
        raise InvalidArgument(
            f"the Delta Sharing profile {name} has version {version} and type {kind}; known are bearer tokens, version 1 or 2"
        )
    missing = [key for key in ("endpoint", "bearerToken") if not content.get(key)]
    if missing:
        raise InvalidArgument(f"the Delta Sharing profile {name} lacks {' and '.join(missing)}")
    if "@" in str(content["endpoint"]):
        raise InvalidArgument(
            f"the Delta Sharing profile {name} has a user or password in its endpoint; its token is all that it needs"
        )
    until = None
    if text := content.get("expirationTime"):
        try:
            until = datetime.fromisoformat(str(text))
        except ValueError:
            raise InvalidArgument(f"the Delta Sharing profile {name} has expirationTime {text!r}, no time") from None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return Profile(name, str(content["endpoint"]).rstrip("/"), str(content["bearerToken"]), until)


class SharedTable:
    """A table `share.schema.table` of an open share; a VersionSource.

    The server tells a version and nothing of the commit, so every new version counts as data. When the version moved, the
    table's metadata id is asked for ("query table metadata"), so that another table under the name shows. `now` (aware) and what `Workspace` takes for time are injected for tests.
    """

    def __init__(
        self,
        profile: Profile,
        name: str,
        *,
        identify: bool = True,
        now: Callable[[], datetime] = _now,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        budget_seconds: float = 120.0,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        self._profile, self._name, self._identify, self._now = profile, name, identify, now
        share, schema, table = (quote(part, safe="") for part in split(name))
        self._path = f"/shares/{share}/schemas/{schema}/tables/{table}"
        self._seen: tuple[int, str | None] | None = None
        self._options: dict[str, Any] = {"budget_seconds": budget_seconds, "session": session, "now": now}
        if sleep is not None:
            self._options["sleep"] = sleep

    def __repr__(self) -> str:
        return f"SharedTable({self._name!r}, {self._profile!r})"

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """See `VersionSource.latest`. NotAuthenticated and NotPermitted name the profile."""
        version = await self._version()
        if not self._identify:
            self._seen = version, None
        elif self._seen is None or self._seen[0] != version:
            self._seen = await self._identified(version)
        version, metadata_id = self._seen
        news = version if known is None or version > known else None
        return LatestVersion(version=version, metadata_id=metadata_id, data_version=news)

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """See `VersionSource.commits`: each is told as data of no known operation."""
        if to_inclusive <= from_exclusive:
            return
        if await self._version() < to_inclusive:
            raise Unavailable(
                f"version {to_inclusive} of {self._name} is not in the share, at least not yet; look again"
            )
        for version in range(from_exclusive + 1, to_inclusive + 1):
            yield CommitSummary(version=version, operation=None, carries_data=True)

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        """See `VersionSource.gap`. The version call tells nothing of the kind."""
        return None

    async def _version(self) -> int:
        async with self._server() as server:
            return self._read_version(await server.headers(f"{self._path}/version"))

    async def _identified(self, version: int) -> tuple[int, str | None]:
        """The version and the metadata id that one answer gives; the id is None where the server does not tell it."""
        try:
            async with self._server() as server:
                body, headers = await server.content(f"{self._path}/metadata")
        except WorkspaceError as error:
            log.warning(
                "%s: the server tells no metadata id, so a replaced table cannot be seen: %s", self._name, error
            )
            return version, None
        # older servers leave the header out of this answer
        return self._read_version(headers) if headers.get(_HEADER) else version, _metadata_id(body)

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[Workspace]:
        """A client for each request: nobody closes a version source, and polls are half a minute apart."""
        profile = self._profile
        if profile.expires_at is not None and self._now() >= profile.expires_at:
            raise NotAuthenticated(
                f"the Delta Sharing profile {profile.name} expired at {profile.expires_at.isoformat()}; ask the provider of "
                f"{self._name} for a new one"
            )
        try:
            async with Workspace(profile.endpoint, self._authorize, **self._options) as server:
                yield server
        except NotAuthenticated as error:
            raise error.saying(
                f"{profile.endpoint} refuses the token of the Delta Sharing profile {profile.name}; ask the provider of "
                f"{self._name} for a new one"
            ) from None
        except NotPermitted as error:
            raise error.saying(
                f"the Delta Sharing profile {profile.name} may not read {self._name}; ask its provider for the grant"
            ) from None

    def _read_version(self, headers: Mapping[str, str]) -> int:
        text = headers.get(_HEADER, "")
        if not text.strip().isdecimal():
            raise BadAnswer(
                f"the Delta Sharing server {self._profile.endpoint} answered for {self._name} without a Delta-Table-Version "
                f"({text!r}); is the endpoint in profile {self._profile.name} right?"
            )
        return int(text)

    async def _authorize(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._profile.token}", **_CAPABILITIES}


def _metadata_id(body: bytes) -> str | None:
    """The id in the `metaData` line of a metadata answer, in either response format; None where there is none."""
    for line in body.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            return None
        metadata = found.get("metaData") if isinstance(found, dict) else None
        if isinstance(metadata, dict):
            metadata = metadata.get("deltaMetadata") or metadata
            return str(metadata["id"]) if metadata.get("id") else None
    return None
