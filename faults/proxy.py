"""A proxy between the client and the workspace, on real sockets, that does harm on demand."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from faults.model import NOT_SHOWN

ADDRESS = "127.0.0.1"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RUN = re.compile(rb"^GET .*/runs/get\?(?:.*&)?run_id=(\d+)")
_WORDS = {
    400: "Bad Request",
    401: "Unauthorized",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_REFUSALS = {
    "429": (429, "REQUEST_LIMIT_EXCEEDED", "Too many requests"),
    "500": (500, "INTERNAL_ERROR", "An internal error occurred"),
    "503": (503, "TEMPORARILY_UNAVAILABLE", "The service is temporarily unavailable"),
    "token refused": (401, "UNAUTHENTICATED", "The access token has expired"),
}
CHANGING = re.compile(r"/(cancel|cancel-all|repair|delete|update|reset|submit|create)$")


@dataclass
class Proxy:
    """`harm` is asked once for each request and names the fault that strikes it, or None. `retry_after` goes with a 429.

    `changes` are the requests that would change something other than by run-now.
    """

    upstream: tuple[str, int]
    harm: Callable[[], str | None]
    retry_after: Callable[[], int]
    host: str = ""
    changes: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while True:
                request, line = await _message(reader)
                if line.startswith(b"POST") and CHANGING.search(line.split()[1].decode()):
                    self.changes.append(line.decode().strip())
                fault = self.harm()
                if fault == "reset":
                    _reset(writer)
                    return
                if fault == NOT_SHOWN and (run := _RUN.search(line)):
                    writer.write(_answer(400, "INVALID_PARAMETER_VALUE", f"Run {run[1].decode()} does not exist."))
                    await writer.drain()
                    continue
                if fault in _REFUSALS:
                    writer.write(self._refusal(fault))
                    await writer.drain()
                    continue
                if upstream is None:
                    upstream = await asyncio.open_connection(*self.upstream)
                upstream[1].write(request)
                _acknowledge_at_once(upstream[1])
                answer, _ = await _message(upstream[0])
                if fault == "answer lost":
                    _reset(writer)
                    return
                if fault == "cut short":
                    writer.write(answer[: answer.index(b"\r\n\r\n") + 5])
                    await writer.drain()
                    return
                writer.write(_without_runs(answer) if fault == NOT_SHOWN and b"/runs/list?" in line else answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            for one in (writer, *(upstream or ())[1:]):
                one.close()

    def _refusal(self, fault: str) -> bytes:
        status, code, message = _REFUSALS[fault]
        return _answer(status, code, message, f"retry-after: {self.retry_after()}\r\n" if status == 429 else "")


def _answer(status: int, code: str, message: str, more: str = "") -> bytes:
    body = json.dumps({"error_code": code, "message": message}).encode()
    head = f"HTTP/1.1 {status} {_WORDS[status]}\r\ncontent-type: application/json\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _without_runs(answer: bytes) -> bytes:
    """A run list in which no run is shown, with the head of the one that came."""
    head, _, _ = answer.partition(b"\r\n\r\n")
    body = b'{"runs": [], "has_more": false}'
    return _LENGTH.sub(b"\r\ncontent-length: %d" % len(body), head + b"\r\n\r\n") + body


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One whole request or answer, and its first line."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = _LENGTH.search(head)
    body = await reader.readexactly(int(found[1])) if found else b""
    return head + body, head[: head.index(b"\r\n")]


def _acknowledge_at_once(writer: asyncio.StreamWriter) -> None:
    """The server sends head and body apart and waits for the first to be acknowledged: 40 ms, where the system may wait."""
    if hasattr(socket, "TCP_QUICKACK"):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def running_proxy(proxy: Proxy) -> AsyncIterator[Proxy]:
    """The proxy on a free port of loopback; its `host` is set."""
    server = await asyncio.start_server(proxy.serve, ADDRESS, 0, limit=2**22)
    proxy.host = f"http://{ADDRESS}:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
