"""One at a time, kept in half the memory of `asyncio.Lock`: a triggerer may hold two for each of ten thousand tables."""

from __future__ import annotations

import asyncio


class Turn:
    """`async with turn:` waits until whoever has it is done."""

    __slots__ = ("_over",)

    def __init__(self) -> None:
        self._over: asyncio.Future[None] | None = None

    async def __aenter__(self) -> None:
        while self._over is not None:
            await asyncio.wait({self._over})
        self._over = asyncio.get_running_loop().create_future()

    async def __aexit__(self, *_: object) -> None:
        over, self._over = self._over, None
        if over is not None:
            over.set_result(None)
