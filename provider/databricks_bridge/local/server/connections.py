"""The open connections of a server, so that a fault can cut one: an HTTP framework can only answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

CLOSE_SECONDS = 0.1
"""What a client of a server that ends has to agree to the end of TLS. One that is idle does not hear of it."""

_Ends = tuple[object, object]
_open: dict[_Ends, asyncio.BaseTransport] = {}


class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn chooses the class at run time
    """uvicorn's own HTTP protocol, whose connections can be cut."""

    def connection_made(self, transport: Any) -> None:
        self._ends = _ends(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
        _open[self._ends] = transport
        self._tls = transport.get_extra_info("sslcontext") is not None
        super().connection_made(transport)

    def shutdown(self) -> None:
        super().shutdown()
        if self._tls and self.transport.is_closing():
            asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        _open.pop(self._ends, None)
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
