"""A bucket that answers as S3 does, over HTTP, with what can be wrong with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

from databricks_bridge.delta.names import commit_path

from .conftest import append, commit, metadata

MODIFIED = datetime(2026, 11, 29, 12, tzinfo=UTC)


@dataclass
class Bucket:
    """One bucket: ListObjectsV2 with start-after and pages of three keys, and GET with ranges."""

    files: dict[str, bytes] = field(default_factory=dict)
    drops_begun_with_offset: bool = False
    refuse_list: tuple[int, str] | None = None
    refuse_get: tuple[int, str] | None = None
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info.get("key", "")
        if request.method == "HEAD" and not key:
            return web.Response(status=301, headers={"x-amz-bucket-region": "eu-west-3"})
        refused = self.refuse_get if key else self.refuse_list
        self.headers.append(dict(request.headers))
        self.asked.append(f"{request.method} {key or 'list'}")
        if refused:
            return web.Response(status=refused[0], body=f"<Error><Code>{refused[1]}</Code></Error>")
        return self._get(key, request) if key else self._list(request.query)

    def _get(self, key: str, request: web.Request) -> web.Response:
        content = self.files.get(key)
        if content is None:
            return web.Response(status=404, body="<Error><Code>NoSuchKey</Code></Error>")
        headers = {"Last-Modified": format_datetime(MODIFIED, usegmt=True), "ETag": '"e"'}
        if "Range" not in request.headers:
            return web.Response(body=content, headers=headers)
        if not content:
            return web.Response(status=416)
        part = content[request.http_range]
        start = request.http_range.start
        return web.Response(
            status=206,
            body=part,
            headers=headers | {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(content)}"},
        )

    def _list(self, query: Any) -> web.Response:
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = sorted(key for key in self.files if key.startswith(query.get("prefix", "")) and key > after)
        if self.drops_begun_with_offset and (offset := query.get("start-after", "")):
            keys = [key for key in keys if not key.startswith(offset)]
        page, more = keys[:3], len(keys) > 3
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.files[key])}</Size><ETag>&quot;{key[-9:]}&quot;</ETag>"
            f"<LastModified>{MODIFIED.isoformat()}</LastModified></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        truncated = str(more).lower()
        return web.Response(
            content_type="application/xml",
            body=f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{token}{entries}</ListBucketResult>",
        )


@asynccontextmanager
async def serve() -> AsyncIterator[Bucket]:
    state = Bucket()
    app = web.Application()
    app.router.add_route("*", "/lake", state.handle)
    app.router.add_route("*", "/lake/{key:.*}", state.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    state.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield state
    await runner.cleanup()


def fill(bucket: Bucket, last: int) -> None:
    for version in range(last + 1):
        actions = [append(version)] if version else [metadata(), append(0)]
        bucket.files[f"t 1/{commit_path(version)}"] = commit(*actions).encode()
