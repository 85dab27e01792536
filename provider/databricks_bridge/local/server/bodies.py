"""How much of a request is read, and for how long: no body is kept in memory before its size is known to be small.

The bounds hold for whoever sends: a route that needs no token, such as the token service, has the smallest.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from databricks_bridge.local.server.errors import MalformedRequest, RequestTimeout, RequestTooLarge, response
from databricks_bridge.local.server.requests import LARGEST_BODY_BYTES

MIB = 2**20
LARGEST_BY_PREFIX = (
    ("/api/2.0/fs/files/", 5 * 1024 * MIB),
    ("/oidc/", MIB // 16),
    ("/local/sign-in", MIB // 16),
    ("/api/2.0/delta-sharing/", MIB),
    ("/api/2.1/unity-catalog/public/", MIB // 16),
)
"""Bytes of a body. The Files API writes to disk what comes; its bound is Databricks' own. Any other is LARGEST_BODY_BYTES."""
LARGEST_ADDRESS_BYTES = MIB // 32
"""Of a path with its query."""
LONGEST_SILENCE_SECONDS = 30.0
LONGEST_BODY_SECONDS = 120.0
"""For all of a body that is kept in memory; a file may take longer, as long as something comes."""


class BodyGate:
    """ASGI middleware: refuses what says that it is too large, and stops reading what turns out to be."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive)

        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start" and body.endless:
                # What has not been read would be read to its end, if only to throw it away.
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) > LARGEST_ADDRESS_BYTES:
            refusal = MalformedRequest(f"The path and the query are over {LARGEST_ADDRESS_BYTES // 1024} KiB.")
            await response(refusal)(scope, receive, send_and_close)
        elif body.said > body.largest:
            await response(body.too_large())(scope, receive, send_and_close)
        else:
            await self._app(scope, body.receive, send_and_close)


class _Body:
    def __init__(self, scope: MutableMapping[str, Any], receive: Receive) -> None:
        self._path, self._receive = scope["path"], receive
        self.largest = largest(self._path)
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        self.said = int(length) if length.isdigit() else 0
        self.complete = self.said == 0 and b"transfer-encoding" not in headers
        self._read, self._begun = 0, 0.0

    def too_large(self) -> RequestTooLarge:
        shown = f"{self.largest // MIB} MiB" if self.largest >= MIB else f"{self.largest // 1024} KiB"
        return RequestTooLarge(f"Could not parse request object: the body is over {shown}, the most for {self._path}")

    @property
    def endless(self) -> bool:
        """Whether more may come than this route would have read."""
        return not self.complete and (self.said == 0 or self.said > self.largest)

    async def receive(self) -> Message:
        if self.complete:
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._begun = self._begun or loop.time()
        seconds = LONGEST_SILENCE_SECONDS
        if self.largest <= LARGEST_BODY_BYTES:
            seconds = min(seconds, self._begun + LONGEST_BODY_SECONDS - loop.time())
        try:
            async with asyncio.timeout(max(seconds, 0)):
                message = await self._receive()
        except TimeoutError:
            raise RequestTimeout(f"The body of the request to {self._path} does not come.") from None
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self.largest:
                raise self.too_large()
            self.complete = not message.get("more_body", False)
        return message


def largest(path: str) -> int:
    """The most bytes that a body sent to this path may have."""
    return next((size for prefix, size in LARGEST_BY_PREFIX if path.startswith(prefix)), LARGEST_BODY_BYTES)
