"""Hands on TCP connections from this container's own address to the same ports on loopback: `forward.py PORT...`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from functools import partial

CHUNK = 65536


async def main(ports: list[int]) -> None:
    address = socket.gethostbyname(socket.gethostname())
    servers = [await asyncio.start_server(partial(handle, port), address, port) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def handle(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.close()


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]]))
