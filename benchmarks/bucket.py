"""An S3-like store over HTTP: one Delta table's log, whose keys are made up as they are asked for, or plain objects.

It runs in a thread of this process, with a delay before each answer, and counts requests by price class.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from aiohttp import web

from databricks_bridge.delta.names import LOG, commit_path

BUCKET, PREFIX = "lake", "silver/flights"
_PAGE = 1000
_MODIFIED = "2026-11-29T12:00:00.000Z"
_MODIFIED_HTTP = "Sun, 29 Nov 2026 12:00:00 GMT"


class Content(Protocol):
    """What a bucket holds. `counts` are the requests by price class."""

    counts: Counter[str]

    def content(self, key: str) -> bytes | None: ...

    def keys(self, after: str) -> Iterator[str]: ...


@dataclass
class Plain:
    """Objects as they are given, the same in all buckets."""

    objects: dict[str, bytes]
    counts: Counter[str] = field(default_factory=Counter)

    def content(self, key: str) -> bytes | None:
        """The bytes of a key, None where there is none."""
        return self.objects.get(key)

    def keys(self, after: str) -> Iterator[str]:
        """The keys after `after`, in order."""
        return iter(sorted(key for key in self.objects if key > after))


@dataclass
class Log:
    """A log of commits 0 to `last`, with one checkpoint at `checkpoint` and a hint that names it; with `every`, one at each
    multiple of it too.
    """

    last: int
    checkpoint: int
    parquet: bytes
    counts: Counter[str] = field(default_factory=Counter)
    every: int | None = None

    def has_checkpoint(self, version: int) -> bool:
        """Whether there is one at this version."""
        return version == self.checkpoint or (self.every is not None and version > 0 and version % self.every == 0)

    def content(self, key: str) -> bytes | None:
        """The bytes of a key, None when the log does not have it."""
        name = key.removeprefix(f"{PREFIX}/{LOG}/")
        if name == "_last_checkpoint":
            return json.dumps({"version": self.checkpoint, "size": 3}).encode()
        digits, _, kind = name.partition(".")
        if kind == "checkpoint.parquet" and digits.isdecimal() and self.has_checkpoint(int(digits)):
            return self.parquet
        if kind != "json" or not digits.isdecimal() or int(digits) > self.last:
            return None
        return _lines({"commitInfo": {"timestamp": 0, "operation": "WRITE"}}, _add(int(digits)))

    def keys(self, after: str) -> Iterator[str]:
        """The keys after `after`, in order."""
        root = f"{PREFIX}/{LOG}/"
        digits = after.removeprefix(root)[:20]
        first = int(digits) if digits.isdecimal() else 0
        for version in range(first, self.last + 1):
            if self.has_checkpoint(version):
                yield f"{root}{version:020d}.checkpoint.parquet"
            yield f"{PREFIX}/{commit_path(version)}"
        yield f"{root}_last_checkpoint"


C = TypeVar("C", bound=Content)


@dataclass
class Bucket(Generic[C]):
    """What is served, and where. `log` may be set to another one at any time; `sent` are the bytes of all answers.

    Requests to the bucket `hanging` are taken and never answered, and counted as HUNG.
    """

    log: C
    delay_seconds: float
    url: str = ""
    sent: int = 0
    hanging: str | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def options(self) -> dict[str, Any]:
        """Arguments of obstore's S3Store."""
        return {
            "prefix": PREFIX,
            "endpoint": self.url,
            "region": "eu-west-3",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "virtual_hosted_style_request": False,
            "client_options": {"allow_http": True},
        }

    def storage_options(self) -> dict[str, str]:
        """The same for deltalake."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "eu-west-3",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["bucket"] == self.hanging:
            self.log.counts["HUNG"] += 1
            await self.over.wait()
        await asyncio.sleep(self.delay_seconds)
        key = request.match_info.get("key", "")
        self.log.counts["LIST" if not key else request.method] += 1
        answer = self._object(key, request) if key else self._list(request.query)
        self.sent += int(answer.headers.get("Content-Length", 0)) or answer.content_length or 0
        return answer

    def _object(self, key: str, request: web.Request) -> web.Response:
        content = self.log.content(key)
        if content is None:
            return web.Response(status=404, body="<Error><Code>NoSuchKey</Code></Error>")
        headers = {"Last-Modified": _MODIFIED_HTTP, "ETag": f'"{key[-30:]}"'}
        if "Range" not in request.headers or request.method == "HEAD":
            return web.Response(body=content, headers=headers)
        asked = request.http_range
        part = content[asked]
        start = asked.indices(len(content))[0]
        span = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        return web.Response(status=206, body=part, headers=headers | {"Content-Range": span})

    def _list(self, query: Any) -> web.Response:
        after, prefix = query.get("continuation-token") or query.get("start-after", ""), query.get("prefix", "")
        page: list[str] = []
        more = False
        for key in self.log.keys(after):
            if key > after and key.startswith(prefix):
                if len(page) == _PAGE:
                    more = True
                    break
                page.append(key)
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(self.log.content(key) or b'')}</Size>"
            f"<ETag>&quot;{key[-30:]}&quot;</ETag><LastModified>{_MODIFIED}</LastModified></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        body = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        return web.Response(content_type="application/xml", body=body)


def checkpoint_bytes(files: int) -> bytes:
    """A checkpoint as delta-rs writes it, of a table that has so many files: each commit here adds one."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, pa.table({"id": [1]}))
        log = Path(folder) / LOG
        (log / f"{1:020d}.json").write_bytes(_lines(*map(_add, range(files))))
        DeltaTable(folder).create_checkpoint()
        return (log / f"{1:020d}.checkpoint.parquet").read_bytes()


def _add(number: int) -> dict[str, Any]:
    """A file as Spark adds it: a name with a uuid in it, and statistics of five columns."""
    names = [f"column_{at}" for at in range(5)]
    stats = {
        "numRecords": 1000 + number % 97,
        "minValues": dict.fromkeys(names, f"{number * 7919 % 100003:06d}-a"),
        "maxValues": dict.fromkeys(names, f"{number * 7907 % 100003:06d}-z"),
        "nullCount": dict.fromkeys(names, number % 5),
    }
    path = f"part-{number:05d}-{uuid.UUID(int=number * 2**64 + 1)}-c000.snappy.parquet"
    add = {
        "path": path,
        "partitionValues": {},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000 + number,
    }
    return {"add": add | {"dataChange": True, "stats": json.dumps(stats)}}


def _lines(*actions: dict[str, Any]) -> bytes:
    return "".join(f"{json.dumps(action)}\n" for action in actions).encode()


@contextmanager
def serve(log: C, *, delay_seconds: float, hanging: str | None = None) -> Iterator[Bucket[C]]:
    """The bucket, while it is served on a free port of this machine."""
    bucket = Bucket(log, delay_seconds, hanging=hanging)
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{bucket}", bucket.handle)
        app.router.add_route("*", "/{bucket}/{key:.*}", bucket.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        bucket.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        loop.run_forever()
        bucket.over.set()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=run, name="bucket", daemon=True)
    thread.start()
    if not ready.wait(30):
        raise RuntimeError("the bucket did not start within 30 s")
    try:
        yield bucket
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
