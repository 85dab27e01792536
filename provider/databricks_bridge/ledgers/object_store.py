"""The object-store keep: an append-only log, one numbered file for each transition, each holding the whole record.

It rests on two operations, as Delta does: put-if-absent, and a listing that shows what was put. The number of a file is
the revision of its record, so put-if-absent is the compare-and-set. Every writer puts a nonce of its own beside
the record: whoever finds its own nonce in the way has written, and only the answer was lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.core.storage_urls import azure_blob_endpoint, s3_endpoint
from databricks_bridge.ledgers.objects import AlreadyThere, Found, Objects, StoreObjects
from databricks_bridge.ledgers.protocol import Entry, follows, lost

log = logging.getLogger(__name__)

KEPT = 1000
"""How many of the newest transitions are kept."""

PRUNE_EVERY = 50
"""Old transitions are looked for once in so many writes."""

HINT = "_latest"
"""Holds a revision that was the newest once. It shortens a listing and is believed in nothing."""

_TRIES, _PAUSE_SECONDS = 5, 0.5
"""What may be another writer's put that is under way is tried again so often."""

CHECK = "_put_if_absent"
_NAME = re.compile(r"(\d{20})\.json")


def name_of(revision: int) -> str:
    """The file of a revision; names sort as their numbers do."""
    return f"{revision:020d}.json"


def _random_nonce() -> str:
    return uuid.uuid4().hex


class ObjectStoreLedger:
    """One subscription's log. `where` names it in messages; `nonce` and `sleep` are injected for tests."""

    def __init__(
        self,
        objects: Objects,
        where: str,
        *,
        kept: int = KEPT,
        prune_every: int = PRUNE_EVERY,
        nonce: Callable[[], str] = _random_nonce,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._objects, self._where, self._sleep = objects, where, sleep
        self._kept, self._prune_every, self._nonce = kept, prune_every, nonce
        self._checked = False

    def __repr__(self) -> str:
        return f"ObjectStoreLedger({self._where!r})"

    async def read(self) -> Record | None:
        """See `Ledger.read`."""
        newest = await self._newest()
        return None if newest is None else (await self._whole(newest))[1]

    async def write(self, record: Record) -> None:
        await self._check_store()
        if not follows(record, await self.read()):
            raise lost(record)
        nonce = self._nonce()
        data = json.dumps({"nonce": nonce, "record": record.to_json()}).encode()
        await self._create(record, nonce, data)
        await self._refuse_stale(record)
        await self._tidy(record.revision)

    async def _create(self, record: Record, nonce: str, data: bytes) -> None:
        """Puts the record if nobody else did. Raises WriteLost, LedgerError."""
        name = name_of(record.revision)
        for _ in range(_TRIES):
            try:
                return await self._objects.create(name, data)
            except AlreadyThere:
                # S3 refuses a put as a conflict (409) while another one of the key is under way, too: then neither may be there
                if await self._objects.get(name) is None:
                    await self._sleep(_PAUSE_SECONDS)
                    continue
                if not await self._is_ours(record.revision, nonce):
                    raise lost(record) from None
                return
            except LedgerError as error:
                # The put may have happened all the same. Where it did not, nothing was written.
                if await self._objects.get(name) is None:
                    raise
                if not await self._is_ours(record.revision, nonce):
                    raise lost(record) from error
                return
        raise LedgerError(
            f"the store at {self._where} refused {name} {_TRIES} times as a conflict with another write of it, and has no such "
            "file; nothing was written: try again"
        )

    async def history(self, count: int) -> list[Entry]:
        found = await self._listed(None)
        entries = []
        for revision in sorted(found)[-count:] if count > 0 else []:
            try:
                record = (await self._whole(revision, tries=1))[1]
            except LedgerError as error:
                entries.append(Entry(revision, found[revision].at, f"(unreadable: {error})"))
                continue
            what = record.history[-1].what if record.history else "written"
            entries.append(Entry(revision, found[revision].at, what))
        return entries

    async def _newest(self) -> int | None:
        hint = await self._hint()
        # Exclusive, so one before the hint: its own file must be seen. Nothing there means that the hint lies.
        found = await self._listed(name_of(hint - 1)) if hint else {}
        if not found:
            found = await self._listed(None)
        newest = max(found, default=None)
        if newest is None and hint:
            # No record would be a first start, so the file that the hint names is asked for too.
            newest = await self._newest_read(hint)
        return newest

    async def _newest_read(self, revision: int) -> int | None:
        """The newest revision from this one on, by reading; None where this one is not there."""
        found = None
        while await self._objects.get(name_of(revision)) is not None:
            found, revision = revision, revision + 1
        return found

    async def _hint(self) -> int | None:
        data = (await self._objects.get(HINT)) or b""
        return int(data) if data.isdigit() and len(data) <= 20 and int(data) > 0 else None

    async def _listed(self, after: str | None) -> dict[int, Found]:
        found: dict[int, Found] = {}
        async for one in self._objects.scan(after):
            if match := _NAME.fullmatch(one.key):
                found[int(match[1])] = one
        return found

    async def _whole(self, revision: int, tries: int = _TRIES) -> tuple[str, Record]:
        """Nonce and record of a file. One that is there but not whole is read again: another writer may be at it. Then it is an
        error: guessing could lose a claim.
        """
        for left in reversed(range(tries)):
            data = await self._objects.get(name_of(revision))
            try:
                value: dict[str, Any] = json.loads(data or b"")
                nonce, content = str(value["nonce"]), value["record"]
                break
            except (ValueError, KeyError, TypeError) as error:
                if left:
                    await self._sleep(_PAUSE_SECONDS)
                    continue
                what = "is listed, and cannot be read" if data is None else f"is not whole ({error!r})"
                raise LedgerError(
                    f"{name_of(revision)} in the ledger at {self._where} {what}; another writer may have just written it, so leave "
                    "it there and try again. If it stays so, stop all that use this subscription and restore the file from the "
                    "store's versions, or rebuild the record in another ledger: databricks-bridge watermark rebuild"
                ) from error
        record = record_from_json(content)
        if record.revision != revision:
            raise LedgerError(f"{name_of(revision)} in the ledger at {self._where} holds revision {record.revision}")
        return nonce, record

    async def _is_ours(self, revision: int, nonce: str) -> bool:
        return (await self._whole(revision))[0] == nonce

    async def _refuse_stale(self, record: Record) -> None:
        """A writer that slept while its number was pruned puts it again without hindrance: it has not written.

        Half of what is kept is far more than can be written during one put; losing a write that happened is harmless,
        for the reader finds it.
        """
        newer = await self._listed(name_of(record.revision))
        if len(newer) >= max(self._kept // 2, 1):
            raise lost(record)

    async def _check_store(self) -> None:
        """Once for each process: the store must refuse to put what is there."""
        if self._checked:
            return
        for _ in range(2):
            try:
                await self._objects.create(
                    CHECK, b"this file is put twice: a store that takes it twice cannot keep a ledger\n"
                )
            except AlreadyThere:
                self._checked = True
                return
        raise LedgerError(
            f"the store at {self._where} took a second put-if-absent of one key, so two writers could overwrite each other; "
            "use a store with conditional writes (S3, Azure, GCS, a local folder), or the Airflow ledger"
        )

    async def _tidy(self, revision: int) -> None:
        """Hint and pruning; the record is written, so neither may fail the write. Oldest first: no gap if it dies."""
        try:
            await self._objects.put(HINT, str(revision).encode())
            if revision % self._prune_every == 0:
                found = sorted(await self._listed(None))
                await self._objects.delete([name_of(one) for one in found if one <= revision - self._kept])
        except LedgerError as error:
            log.warning("revision %s is written, but not all is tidy: %s", revision, error)


_S3_ENDPOINTS = {"AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}


class ObjectStoreKeep:
    """All subscriptions below one URL: `s3://bucket/prefix`, `gs://`, `abfss://`, `file:///folder`.

    Credentials and region come from the environment, as the cloud's own tools read them.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._store: Any = None

    def ledger(self, subscription: str) -> ObjectStoreLedger:
        where = f"{self._url}/{subscription}"
        return ObjectStoreLedger(StoreObjects(self._open, subscription, where), where)

    async def names(self) -> list[str]:
        folders = await StoreObjects(self._open, "", self._url).folders()
        return [name for name in folders if await self.ledger(name).read() is not None]

    def _open(self) -> Any:
        if self._store is None:
            self._store = open_url(self._url)
        return self._store


def open_url(url: str, *, make: bool = True) -> Any:
    """The obstore store at this URL; a local folder is made when it is missing, unless `make` is False."""
    from urllib.parse import unquote, urlsplit

    from obstore.store import AzureStore, LocalStore, from_url

    parts = urlsplit(url)
    if parts.scheme == "file":
        return LocalStore(unquote(parts.path) or "/", mkdir=make)
    plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
    options: dict[str, Any] = {
        "client_options": {
            "connect_timeout": timedelta(seconds=5),
            "timeout": timedelta(seconds=15),
            **({"allow_http": True} if plain else {}),
        },
        # a thread waits for it: no longer than `objects.CALL_SECONDS`
        "retry_config": {"max_retries": 4, "retry_timeout": timedelta(seconds=20)},
    }
    if parts.scheme == "abfss" and (azure := azure_blob_endpoint(parts.hostname or "")):
        # obstore takes the account from the URL and sends it to the public cloud, whatever the URL's host
        account, endpoint = azure
        prefix = unquote(parts.path).strip("/") or None
        return AzureStore(parts.username, prefix=prefix, account_name=account, endpoint=endpoint, **options)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    if parts.scheme == "s3" and region.startswith("cn-") and not os.environ.keys() & _S3_ENDPOINTS:
        options["endpoint"] = s3_endpoint(region)
    return from_url(url, **options)
