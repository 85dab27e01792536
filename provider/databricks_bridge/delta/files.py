"""The three things we do with an object store, and our names for what can go wrong.

A store here is rooted at the table's folder. Its own error texts may show signed URLs, so they are not passed on.
"""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from databricks_bridge.core.errors import BridgeError, NotAuthenticated, NotFound, NotPermitted, Unavailable
from databricks_bridge.delta.names import LOG, LogFile, parse

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_LIST_CHUNK = 1000
_FIRST_LINE_MAX = 300
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_BYTES = re.compile(r"StartTooLarge|non-2xx status code: 416")
_QUERY = re.compile(r"\?\S*")
_NO_BUCKET = frozenset({"ContainerBeingDeleted", "ContainerNotFound", "FilesystemNotFound", "NoSuchBucket"})
_DEAD_CREDENTIALS = frozenset(
    {
        "AuthenticationFailed",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidAuthenticationInfo",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)


@dataclass(frozen=True)
class Listed:
    """One file of the log. `tag` changes when the file is written again, or copied."""

    file: LogFile
    path: str
    size: int
    modified: datetime
    tag: str


class Files:
    """The log's files in one store. `where` names the table for messages."""

    def __init__(self, store: ObjectStore, where: str) -> None:
        self._store, self.where = store, where

    async def list(self, offset: str | None) -> AsyncIterator[Listed]:
        """Every file of the log after `offset` (exclusive), in no order: the store promises none."""
        try:
            async for chunk in self._store.list(LOG, offset=offset, chunk_size=_LIST_CHUNK):
                for meta in chunk:
                    modified = meta["last_modified"]
                    yield Listed(
                        parse(meta["path"].removeprefix(f"{LOG}/")),
                        meta["path"],
                        meta["size"],
                        modified,
                        f"{meta['e_tag']} {meta['size']} {modified.timestamp()}",
                    )
        except _store_errors() as error:
            raise translate(error, f"listing {LOG} of {self.where}") from None

    async def head(self, path: str, size: int) -> bytes:
        """The first `size` bytes, or all when there are fewer; a file of no bytes is `b""`. Raises NotFound."""
        try:
            return bytes(await self._store.get_range_async(path, start=0, end=size))
        except _store_errors() as error:
            if _NO_BYTES.search(str(error)):
                return b""
            raise translate(error, f"reading {path} of {self.where}") from None

    async def part(self, path: str, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`. Raises NotFound."""
        try:
            return bytes(await self._store.get_range_async(path, start=start, end=end))
        except _store_errors() as error:
            raise translate(error, f"reading {path} of {self.where}") from None

    def store_time(self) -> datetime | None:
        """The store's own clock, as its last answer told it; None where it is not known."""
        found = getattr(self._store, "store_time", None)
        return found if isinstance(found, datetime) else None

    async def probe(self, path: str, size: int) -> bytes | None:
        """As `head`, but None when the file is not there. Raises NotFound when the bucket itself is not."""
        try:
            return await self.head(path, size)
        except NotFound as error:
            if error.error_code in _NO_BUCKET:
                raise
            return None

    async def whole(self, path: str) -> bytes:
        """All of a small file. Raises NotFound."""
        try:
            return bytes(await (await self._store.get_async(path)).bytes_async())
        except _store_errors() as error:
            raise translate(error, f"reading {path} of {self.where}") from None

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a file of any size, one after another, never all of it in memory."""
        rest = b""
        try:
            async for chunk in (await self._store.get_async(path)).stream():
                *lines, rest = (rest + bytes(chunk)).split(b"\n")
                for line in lines:
                    yield line
        except _store_errors() as error:
            raise translate(error, f"reading {path} of {self.where}") from None
        yield rest

    def reader(self, path: str) -> io.RawIOBase:
        """A blocking file object that reads ranges; for libraries that want one, in a thread of their own."""
        return _RangeReader(self._store, path, f"reading {path} of {self.where}")


class _RangeReader(io.RawIOBase):
    """Raises our errors, which a library that reads passes on as they are."""

    def __init__(self, store: ObjectStore, path: str, doing: str) -> None:
        self._store, self._path, self._doing = store, path, doing
        self._at = 0
        with self._translated():
            self._size = int(store.head(path)["size"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, to: int, whence: int = io.SEEK_SET) -> int:
        self._at = to + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        with self._translated():
            content = bytes(self._store.get_range(self._path, start=self._at, end=end))
        self._at += len(content)
        return content

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _store_errors() as error:
            raise translate(error, self._doing) from None


def _store_errors() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError

    return (BaseError, FileNotFoundError)


def translate(error: Exception, doing: str) -> BridgeError:
    """Our error for one of obstore's.

    A refused listing has no class of its own there: only its text has the HTTP status, and the store's own code.
    """
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    text = str(error)
    status, code = (found[1] if (found := pattern.search(text)) else "" for pattern in (_STATUS, _CODE))
    if code in _DEAD_CREDENTIALS or status == "401" or isinstance(error, UnauthenticatedError):
        return NotAuthenticated(f"{doing}: the store refuses the credentials ({code or status or '401'})")
    if status == "403" or isinstance(error, PermissionDeniedError):
        return NotPermitted(
            f"{doing}: the store does not permit it ({code or '403'}); grant list and read on the table's folder"
        )
    if status == "404" or isinstance(error, FileNotFoundError):
        return NotFound(f"{doing}: it does not exist{f' ({code})' if code else ''}", error_code=code or None)
    if status:
        return Unavailable(f"{doing}: HTTP {status}{f' {code}' if code else ''}")
    # queries of signed URLs hold signatures
    return Unavailable(f"{doing}: {_QUERY.sub('?…', text.partition(chr(10))[0])[:_FIRST_LINE_MAX]}")
