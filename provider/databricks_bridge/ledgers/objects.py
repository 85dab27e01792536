"""The four things that the object-store keep asks of a store, with obstore's errors made ours. The seam for faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.workspace.threads import in_thread_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")

CALL_SECONDS = 45.0
_AT_ONCE = 4
"""Calls under way to one store, by all subscriptions whose records are in it."""


class AlreadyThere(Exception):
    """Put-if-absent found something under the key: another writer's, or our own from a try whose answer was lost."""


@dataclass(frozen=True)
class Found:
    """A listed object. `at` is the store's own Last-Modified."""

    key: str
    at: datetime


class Objects(Protocol):
    """Keys below one folder of a store. Every method raises LedgerError when the store gave no usable answer."""

    async def get(self, key: str) -> bytes | None:
        """The whole object, None where there is none."""
        ...

    async def create(self, key: str, data: bytes) -> None:
        """Put if absent. Raises AlreadyThere. After a LedgerError the object may be there or not."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Put, over whatever is there."""
        ...

    async def delete(self, keys: list[str]) -> None:
        """Delete these, in this order as far as the store has one. A key that is gone is no error."""
        ...

    def scan(self, after: str | None = None) -> AsyncIterator[Found]:
        """The objects with a key after `after` (exclusive), in no promised order."""
        ...


class StoreObjects:
    """`Objects` below `folder` of an obstore store, which is opened when it is first used. `where` is for messages.

    obstore's blocking calls in threads of the store's own, not its async ones: a process that ends soon after one of those
    is aborted now and then (SIGABRT, one in four short commands), for its Rust threads outlive the interpreter. `seconds`
    bounds each call; obstore's own time-outs, which end the thread, are shorter (`object_store.open_url`).
    """

    def __init__(
        self, open_store: Callable[[], ObjectStore], folder: str, where: str, *, seconds: float = CALL_SECONDS
    ) -> None:
        self._open, self._folder, self._where, self._seconds = open_store, folder, where, seconds
        self._owner = "store " + "/".join(where.split("/")[: 5 if where.startswith("file:") else 3])
        self._opened: ObjectStore | None = None

    @property
    def _store(self) -> ObjectStore:
        if self._opened is None:
            with self._translated("open the store at"):
                self._opened = self._open()
        return self._opened

    async def get(self, key: str) -> bytes | None:
        return await self._call(partial(self._get, key))

    async def create(self, key: str, data: bytes) -> None:
        await self._call(partial(self._create, key, data))

    async def put(self, key: str, data: bytes) -> None:
        await self._call(partial(self._put, key, data))

    async def delete(self, keys: list[str]) -> None:
        await self._call(partial(self._delete, keys))

    async def scan(self, after: str | None = None) -> AsyncIterator[Found]:
        for found in await self._call(partial(self._scan, after)):
            yield found

    async def folders(self) -> list[str]:
        """The names of the folders directly below, sorted."""
        return await self._call(self._folders)

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            return await in_thread_of(self._owner, work, seconds=self._seconds, at_once=_AT_ONCE)
        except TimeoutError as error:
            raise LedgerError(f"the store at {self._where} gave no answer in {self._seconds:g} s") from error

    def _get(self, key: str) -> bytes | None:
        import obstore

        with self._translated(f"read {key} in"):
            try:
                return bytes(obstore.get(self._store, self._path(key)).bytes())
            except FileNotFoundError:
                return None

    def _create(self, key: str, data: bytes) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._translated(f"write {key} in"):
            try:
                obstore.put(self._store, self._path(key), data, mode="create")
            except (AlreadyExistsError, PreconditionError) as error:
                raise AlreadyThere(key) from error

    def _put(self, key: str, data: bytes) -> None:
        import obstore

        with self._translated(f"write {key} in"):
            obstore.put(self._store, self._path(key), data, use_multipart=False)

    def _delete(self, keys: list[str]) -> None:
        import obstore

        with self._translated("delete in"):
            for key in keys:
                try:
                    obstore.delete(self._store, self._path(key))
                except FileNotFoundError:
                    continue

    def _scan(self, after: str | None) -> list[Found]:
        import obstore

        with self._translated("list"):
            offset = self._path(after) if after else None
            listed = obstore.list(self._store, self._folder, offset=offset).collect()
        return [Found(one["path"].rpartition("/")[2], one["last_modified"]) for one in listed]

    def _folders(self) -> list[str]:
        import obstore

        with self._translated("list"):
            found = obstore.list_with_delimiter(self._store, self._folder or None)
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}" if self._folder else key

    @contextmanager
    def _translated(self, act: str) -> Iterator[None]:
        """An obstore error's first line says what happened; the rest is Rust's debug print of the request."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError) as error:
            said = str(error).partition("\n")[0]
            raise LedgerError(f"cannot {act} {self._where}: {type(error).__name__}: {said}") from error
