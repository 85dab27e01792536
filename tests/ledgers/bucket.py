"""A bucket that answers as S3 does over HTTP, conditional puts too, with faults to switch on."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from xml.sax.saxutils import escape

from aiohttp import web

MODIFIED = datetime(2026, 11, 29, 12, tzinfo=UTC)


@dataclass
class Bucket:
    """`fail_after_put`: a put of a key that matches happens, and is answered 500, once. `careless`: If-None-Match is ignored.
    `conflicts`: so many conditional puts of records are refused with 409, each after another writer's bytes came there, or None.
    `refuses`: every listing is answered with this status and S3's error code.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    careless: bool = False
    refuses: tuple[int, str] | None = None
    fail_after_put: str = ""
    conflicts: list[bytes | None] = field(default_factory=list)
    puts: list[tuple[str, int]] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info.get("key", "")
        if request.method == "PUT":
            answer = self._put(key, await request.read(), request.headers.get("If-None-Match") == "*")
            self.puts.append((key, answer.status))
            return answer
        if request.method == "POST":
            doomed = re.findall(r"<Key>(.*?)</Key>", await request.text())
            for one in doomed:
                self.files.pop(one, None)
            done = "".join(f"<Deleted><Key>{escape(one)}</Key></Deleted>" for one in doomed)
            return web.Response(content_type="application/xml", body=f"<DeleteResult>{done}</DeleteResult>")
        if not key and self.refuses:
            status, code = self.refuses
            return web.Response(status=status, body=f"<Error><Code>{code}</Code></Error>")
        if not key:
            return self._list(dict(request.query))
        content = self.files.get(key)
        if content is None:
            return web.Response(status=404, body="<Error><Code>NoSuchKey</Code></Error>")
        return web.Response(
            body=content, headers={"Last-Modified": format_datetime(MODIFIED, usegmt=True), "ETag": '"e"'}
        )

    def _put(self, key: str, content: bytes, if_absent: bool) -> web.Response:
        if if_absent and self.conflicts and key.endswith(".json"):
            if (theirs := self.conflicts.pop(0)) is not None:
                self.files[key] = theirs
            return web.Response(status=409, body="<Error><Code>ConditionalRequestConflict</Code></Error>")
        if if_absent and not self.careless and key in self.files:
            return web.Response(status=412, body="<Error><Code>PreconditionFailed</Code></Error>")
        self.files[key] = content
        if self.fail_after_put and self.fail_after_put in key:
            self.fail_after_put = ""
            return web.Response(status=500, body="<Error><Code>InternalError</Code></Error>")
        return web.Response(headers={"ETag": '"e"'})

    def _list(self, query: dict[str, str]) -> web.Response:
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
        keys = sorted(key for key in self.files if key.startswith(prefix) and key > after)
        folders: set[str] = set()
        if query.get("delimiter"):
            folders = {prefix + key[len(prefix) :].split("/")[0] + "/" for key in keys if "/" in key[len(prefix) :]}
            keys = [key for key in keys if "/" not in key[len(prefix) :]]
        page, more = keys[:3], len(keys) > 3
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.files[key])}</Size><ETag>&quot;e&quot;</ETag>"
            f"<LastModified>{MODIFIED.isoformat()}</LastModified></Contents>"
            for key in page
        ) + "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        body = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        return web.Response(content_type="application/xml", body=body)


@asynccontextmanager
async def serve() -> AsyncIterator[Bucket]:
    bucket = Bucket()
    app = web.Application()
    app.router.add_route("*", "/lake", bucket.handle)
    app.router.add_route("*", "/lake/{key:.*}", bucket.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    bucket.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    try:
        yield bucket
    finally:
        await runner.cleanup()
