"""One at a time for each owner, kept in one slot of the owner: a triggerer may hold three owners for each of ten thousand tables."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Owner(Protocol):
    """`over` is done when whoever has the turn is done; None while nobody has it."""

    over: asyncio.Future[None] | None


class Turn:
    """`async with Turn(owner):` waits until whoever has the owner's turn is done."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def __aenter__(self) -> None:
        while self._owner.over is not None:
            await asyncio.wait({self._owner.over})
        self._owner.over = asyncio.get_running_loop().create_future()

    async def __aexit__(self, *_: object) -> None:
        over, self._owner.over = self._owner.over, None
        if over is not None:
            over.set_result(None)
