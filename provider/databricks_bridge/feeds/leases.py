"""Things that are opened for the first who needs them, and closed when the last one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass
class _Lease(Generic[V]):
    users: int = 0
    value: V | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Leases(Generic[K, V]):
    """Values by key, each opened once however many take it at a time. `close` is awaited after the last one."""

    def __init__(self, close: Callable[[V], Awaitable[None]]) -> None:
        self._close = close
        self._leases: dict[K, _Lease[V]] = {}

    def __len__(self) -> int:
        return len(self._leases)

    async def take(self, key: K, open_value: Callable[[], Awaitable[V]]) -> V:
        """The value of this key; give it back once for each time that it was taken. Raises what opening it raises."""
        lease = self._leases.setdefault(key, _Lease())
        lease.users += 1
        try:
            async with lease.turn:
                if lease.value is None:
                    lease.value = await open_value()
                return lease.value
        except BaseException:
            await self._leave(key, lease)
            raise

    async def give_back(self, key: K) -> None:
        """One user less."""
        await self._leave(key, self._leases[key])

    async def _leave(self, key: K, lease: _Lease[V]) -> None:
        lease.users -= 1
        if lease.users > 0:
            return
        # gone before it is closed: whoever comes meanwhile opens another one
        self._leases.pop(key, None)
        if lease.value is not None:
            await self._close(lease.value)
