"""Small reads from S3 without a client for each table.

Credentials are given out for each table, and an obstore client has one set of credentials, its own connections and its own
certificates: 100 KB and 10 ms each, a gigabyte for ten thousand tables. The steady poll is one small GET, so it goes
through the session that is open already. Whatever is not plainly there, or plainly not there, is asked of obstore, which
retries and explains; those clients are few and short-lived.

Signature: AWS Signature Version 4, single chunk, headers (S3 API reference, "Authenticating Requests").
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

from databricks_bridge.core.storage_urls import s3_endpoint

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from databricks_bridge.workspace.client import Workspace

_OPEN_MAX = 32
_SECONDS = 15.0
_EMPTY = hashlib.sha256(b"").hexdigest()
_NO_KEY = re.compile(rb"<Code>NoSuchKey</Code>")


class SmallReads:
    """A store of one table's folder in S3: what our log reader uses of obstore's.

    `keys` are the catalog's `aws_temp_credentials`; `make` opens the real store when something else is asked for.
    """

    __slots__ = ("_keys", "_make", "_now", "_place", "_region", "_workspace", "store_time")
    _open: ClassVar[OrderedDict[SmallReads, ObjectStore]] = OrderedDict()

    def __init__(
        self,
        workspace: Workspace,
        place: str,
        keys: dict[str, Any],
        region: str,
        make: Callable[[], ObjectStore],
        now: Callable[[], datetime],
    ) -> None:
        self._workspace, self._place, self._keys, self._region = workspace, place, keys, region
        self._make, self._now = make, now
        self.store_time: datetime | None = None

    async def get_range_async(self, path: str, *, start: int, end: int) -> Any:
        """As obstore's. Raises FileNotFoundError where the key is not there."""
        content = await self._read(path, start, end)
        return content if content is not None else await self._store().get_range_async(path, start=start, end=end)

    async def get_async(self, path: str) -> Any:
        """As obstore's."""
        return await self._store().get_async(path)

    def list(self, prefix: str, **options: Any) -> Any:
        """As obstore's."""
        return self._store().list(prefix, **options)

    def get_range(self, path: str, **options: Any) -> Any:
        """As obstore's."""
        return self._store().get_range(path, **options)

    def head(self, path: str) -> Any:
        """As obstore's."""
        return self._store().head(path)

    def _store(self) -> ObjectStore:
        found = self._open.pop(self, None) or self._make()
        self._open[self] = found
        if len(self._open) > _OPEN_MAX:
            self._open.popitem(last=False)
        return found

    async def _read(self, path: str, start: int, end: int) -> bytes | None:
        """The bytes; None where another one must tell."""
        import aiohttp
        from yarl import URL

        base = os.environ.get("AWS_ENDPOINT_URL") or s3_endpoint(self._region)
        target = quote(f"/{self._place}/{path}", safe="/-_.~")
        host = urlsplit(base)
        signed = {"host": host.netloc, "range": f"bytes={start}-{end - 1}", "x-amz-content-sha256": _EMPTY}
        if self._keys.get("session_token"):
            signed["x-amz-security-token"] = str(self._keys["session_token"])
        headers = sign(f"{host.path.rstrip('/')}{target}", signed, self._keys, self._region, self._now())
        try:
            async with (
                self._workspace.slots_of(self._place.partition("/")[0]),
                self._workspace.session().get(
                    URL(f"{base.rstrip('/')}{target}", encoded=True),
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=_SECONDS),
                    allow_redirects=False,
                ) as response,
            ):
                content = await response.read()
                self.store_time = date_of(response.headers)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        if response.status == 206:
            return content
        if response.status == 404 and (found := _NO_KEY.search(content)):
            raise FileNotFoundError(found[0].decode())
        return None


def date_of(headers: Mapping[str, str]) -> datetime | None:
    """When the store answered, by its own clock."""
    try:
        return parsedate_to_datetime(headers["Date"])
    except (KeyError, ValueError):
        return None


def usable(region: str | None) -> bool:
    """Whether small reads can go this way: the region is known, and there is no proxy that only obstore would use."""
    return region is not None and not {"all", "http", "https"} & getproxies().keys()


def sign(
    path: str, headers: dict[str, str], keys: dict[str, Any], region: str, now: datetime, method: str = "GET"
) -> dict[str, str]:
    """The headers with date and authorization. `path` is percent-encoded; names of headers are lower case."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    full = {**headers, "x-amz-date": stamp}
    names = ";".join(sorted(full))
    lines = "".join(f"{name}:{full[name]}\n" for name in sorted(full))
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{full['x-amz-content-sha256']}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys['secret_access_key']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{keys['access_key_id']}/{scope}"
    authorization = f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={signature}"
    return {**full, "authorization": authorization}
