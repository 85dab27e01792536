"""The open connections of a server, so that a fault can cut one: an HTTP framework can only answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

CLOSE_SECONDS = 0.1
"""What a client of a server that ends has to agree to the end of TLS. One that is idle does not hear of it."""

LARGEST_HEAD_BYTES = 256 * 1024
"""Of a request's first line, headers and trailers together."""
_LEAST_BODY_SHARE = 10
"""So many bytes may come for one of a body that comes in chunks: each has a line with its size."""
LONGEST_HEAD_SECONDS = 30.0
"""From the opening of a connection, or the first byte of a next request, to the end of its headers."""

_Ends = tuple[object, object]
_open: dict[_Ends, asyncio.BaseTransport] = {}


class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn chooses the class at run time
    """uvicorn's own HTTP protocol, whose connections can be cut, and whose headers are bounded in size and time."""

    _received = _body = 0

    def connection_made(self, transport: Any) -> None:
        self._ends = _ends(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
        _open[self._ends] = transport
        self._tls = transport.get_extra_info("sslcontext") is not None
        super().connection_made(transport)
        self._head_timer: asyncio.TimerHandle | None = None
        self._await_head()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        self._received += len(data)
        super().data_received(data)
        if self._received > LARGEST_HEAD_BYTES + _LEAST_BODY_SHARE * self._body:
            self.transport.abort()
        if self.cycle is not before or (self.cycle is not None and not self.cycle.response_complete):
            self._head_came()
        elif self._head_timer is None:
            self._await_head()

    def on_message_begin(self) -> None:
        """httptools says so, and the next; h11, which uvicorn takes where that is missing, has a bound of its own."""
        self._received = self._body = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def _await_head(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(LONGEST_HEAD_SECONDS, self.transport.abort)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def shutdown(self) -> None:
        super().shutdown()
        if self._tls and self.transport.is_closing():
            asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        _open.pop(self._ends, None)
        self._head_came()
        super().connection_lost(exc)


async def cut(scope: Mapping[str, Any]) -> None:
    """Reset the connection of a request, which is then lost to the server too. Nothing where there is none."""
    transport = _open.get(_ends(scope.get("server"), scope.get("client")))
    if isinstance(transport, asyncio.Transport):
        transport.abort()
        # The server hears of it in the next round of the loop, and must have heard before the request returns.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def _ends(server: Any, client: Any) -> _Ends:
    return tuple(server or ())[:2], tuple(client or ())[:2]
