"""Addresses of host names, each looked up in a thread of its own host.

aiohttp's own resolver, and `loop.getaddrinfo`, use the one executor that all on the event loop share, with a few threads:
names that are not answered would hold up the look-ups of all others, and every file that is read in a thread.
"""

from __future__ import annotations

import socket
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

from databricks_bridge.workspace.threads import in_thread_of

_RESOLVE_SECONDS = 20.0
_AT_ONCE = 2


class HostResolver(AbstractResolver):
    """For `aiohttp.TCPConnector(resolver=...)`. Raises OSError, as aiohttp's own; a name that is not answered in time too."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of the host.

        :param host: its name.
        :param port: told back in each result.
        :param family: of the addresses; unspecified means all.
        """
        look_up = partial(_look_up, host, port, family)
        try:
            return await in_thread_of(f"name of {host}", look_up, seconds=_RESOLVE_SECONDS, at_once=_AT_ONCE)
        except TimeoutError as error:
            raise OSError(None, f"the name {host} was not answered in {_RESOLVE_SECONDS:g} s") from error

    async def close(self) -> None:
        """Nothing is open."""


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    flags = socket.AI_ADDRCONFIG
    found: list[ResolveResult] = []
    for kind, _, protocol, _, address in socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=flags):
        numeric = str(address[0])
        if kind == socket.AF_INET6 and len(address) == 4 and address[3]:
            # a link-local address is reached only with its scope
            numeric = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
        found.append(
            ResolveResult(
                hostname=host,
                host=numeric,
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        )
    return found
