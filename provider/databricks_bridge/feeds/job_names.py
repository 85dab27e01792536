"""Which job has a name, for all who wait by name: looked up once, and again from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from databricks_bridge.core.errors import InvalidArgument, NotFound


@dataclass
class _Known:
    job_id: int
    looked_at: float
    asked_at: float


class JobNames:
    """`find` looks a name up, as `Workspace.find_job` does; `clock` is in monotonic seconds.

    A job is renamed, deleted or made anew, and another may take its name, or the same one. So no name is believed for ever.
    """

    def __init__(self, find: Callable[[str], Awaitable[int]], clock: Callable[[], float]) -> None:
        self._find, self._clock = find, clock
        self._known: dict[str, _Known] = {}
        self._turn = asyncio.Lock()

    async def job_of(self, name: str, max_age: float | None = None) -> int:
        """The job's id, looked up at most `max_age` seconds ago where that is given. Raises NotFound, InvalidArgument."""
        asked = self._clock()
        known = self._fresh(name, max_age)
        if known is None:
            async with self._turn:
                known = self._fresh(name, max_age)
                if known is None:
                    self._known.pop(name, None)
                    known = self._known[name] = _Known(await self._find(name), self._clock(), asked)
        known.asked_at = max(known.asked_at, asked)
        return known.job_id

    def _fresh(self, name: str, max_age: float | None) -> _Known | None:
        known = self._known.get(name)
        if known is None or max_age is None or self._clock() - known.looked_at <= max_age:
            return known
        return None

    def forget(self, job_id: int) -> None:
        """What this job was called may be another job's name by now."""
        self._known = {name: known for name, known in self._known.items() if known.job_id != job_id}

    async def check_one(self, age: float) -> int | None:
        """Looks the name up again that was longest not, if that is so many seconds ago; the job that has it no more.

        A name for which nobody has asked as long is forgotten instead. Raises what `find` raises, but for NotFound and
        InvalidArgument: those who wait by the name meet them at their next look.
        """
        async with self._turn:
            now = self._clock()
            self._known = {name: known for name, known in self._known.items() if now - known.asked_at <= 2 * age}
            name = min(self._known, key=lambda name: self._known[name].looked_at, default=None)
            if name is None or now - self._known[name].looked_at < age:
                return None
            known = self._known[name]
            known.looked_at = now
            try:
                found = await self._find(name)
            except (NotFound, InvalidArgument):
                del self._known[name]
                return known.job_id
            before, known.job_id = known.job_id, found
            return None if found == before else before
