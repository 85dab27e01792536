"""So many polls at a time to each place that is asked: one that never answers holds up its own polls and no others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from weakref import WeakValueDictionary

Start = Callable[[], bool]
"""Begins what waited for a slot; False where nobody wants it any more, and the slot stays free."""


class Lane:
    """The slots of one place. What waits for one is a callback, not a task: ten thousand tables may be due at once."""

    __slots__ = ("__weakref__", "_free", "_waiting", "place")

    def __init__(self, at_once: int, place: Hashable = "") -> None:
        self._free = at_once
        self.place = place
        self._waiting: deque[Start] = deque()

    def begin(self, start: Start) -> None:
        """Calls `start` when there is a slot: now, or after those that came before. Who has begun calls `done`.

        :param start: see `Start`.
        """
        self._waiting.append(start)
        self._serve()

    def done(self) -> None:
        """A slot is free again."""
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            if not self._waiting.popleft()():
                self._free += 1

    async def __aenter__(self) -> None:
        turn = asyncio.get_running_loop().create_future()

        def start() -> bool:
            if turn.done():
                return False
            turn.set_result(None)
            return True

        self.begin(start)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.done()  # the slot had come in the same moment
            raise

    async def __aexit__(self, *_: object) -> None:
        self.done()


class Lanes:
    """A lane for each place, as long as somebody keeps it.

    :param at_once: slots of each lane.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lanes: WeakValueDictionary[Hashable, Lane] = WeakValueDictionary()

    def to(self, place: Hashable, store: str = "") -> Lane:
        """The lane of this place, or of a store that is read by way of it; keep it while it is used.

        :param place: whatever tells places apart.
        :param store: the store, empty where it is not known.
        """
        lane = self._lanes.get((place, store))
        if lane is None:
            lane = self._lanes[place, store] = Lane(self._at_once, place)
        return lane
