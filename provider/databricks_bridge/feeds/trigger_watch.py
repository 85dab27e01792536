"""Whether the trigger that is to fire an awaited run can do so at all: told once, and failed for where the author says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.errors import BridgeError, NotFound, TriggerPaused
from databricks_bridge.core.trigger_state import Finding, findings, last_words

if TYPE_CHECKING:
    from databricks_bridge.core.sources import TriggeredRuns
    from databricks_bridge.workspace.client import Json, Workspace

log = logging.getLogger(__name__)

READ_EVERY = timedelta(minutes=10)
READ_SECONDS = 10.0
"""A worker's wait is held up by at most so long."""


async def read_job(workspace: Workspace, job_id: int) -> Json:
    """`jobs/get` with what its triggers did. Raises TimeoutError, and what the workspace raises."""
    async with asyncio.timeout(READ_SECONDS):
        return await workspace.get_job(job_id, include_trigger_state=True, include_trigger_history=True)


class TriggerWatch:
    """What one wait has told of the trigger behind it. `told` are the keys of findings that are told already."""

    def __init__(self, wanted: TriggeredRuns, on_paused: str, told: Iterable[str] = ()) -> None:
        self.wanted, self.on_paused = wanted, on_paused
        self.told = frozenset(told)
        self._job: Mapping[str, Any] | None = None
        self._outdated: Mapping[str, Any] | None = None
        self._read_at: datetime | None = None

    async def look(self, workspace: Workspace, job_id: int, under_way: Collection[int], now: datetime) -> None:
        """Read the job, at most every ten minutes, and judge it.

        Raises NotFound for a job that was given by its id and does not exist, and what `judge` raises. Any other failure is
        only logged.
        """
        if self._read_at is not None and now - self._read_at < READ_EVERY:
            return
        self._read_at = now
        job = await self._read(workspace, job_id)
        if job is not None:
            self._job = job
            self.judge(job, under_way)

    async def confirm(
        self, workspace: Workspace, job_id: int, job: Mapping[str, Any], under_way: Collection[int]
    ) -> None:
        """Judge a job that was read a while ago: before the wait is failed the job is read anew, and that is believed
        until there is a newer reading.
        """
        newest = self._job if self._job is not None and job is self._outdated else job
        try:
            self.judge(newest, under_way)
        except TriggerPaused:
            if (fresh := await self._read(workspace, job_id)) is not None:
                self._outdated, self._job = job, fresh
                self.judge(fresh, under_way)

    def judge(
        self, job: Mapping[str, Any], under_way: Collection[int], warn: Callable[..., object] = log.warning
    ) -> None:
        """Warn of what is new. Raises TriggerPaused where no run can come, none is under way, and the author wants to know."""
        found = findings(job, self.wanted.triggers)
        for one in found:
            if one.key not in self.told:
                warn("%s%s", one.message, _still(one, under_way))
        self.told = frozenset(one.key for one in found)
        blocking = next((one for one in found if one.blocking), None)
        if blocking is not None and self.on_paused == "fail" and not under_way:
            raise TriggerPaused(f'{blocking.message} (on_paused="fail"); unpause it in Databricks and clear the task')

    async def last_words(self, workspace: Workspace, job_id: int) -> str:
        """What the trigger last did, as of now or, where that cannot be read, of the last look; empty for nothing."""
        self._job = await self._read(workspace, job_id) or self._job
        return self.known_words()

    def known_words(self) -> str:
        """The same as of the last look."""
        return "" if self._job is None else last_words(self._job, self.wanted.triggers)

    async def _read(self, workspace: Workspace, job_id: int) -> Json | None:
        try:
            return await read_job(workspace, job_id)
        except NotFound as error:
            if self.wanted.job_id is not None:
                raise
            log.info("the trigger of job %s cannot be looked at: %s", job_id, error)  # its name is looked up again
        except (BridgeError, TimeoutError) as error:
            log.info("the trigger of job %s cannot be looked at: %s", job_id, error or "no answer in time")
        except Exception:
            log.exception("the trigger of job %s cannot be looked at", job_id)
        return None


def _still(one: Finding, under_way: Collection[int]) -> str:
    if not (one.blocking and under_way):
        return ""
    return f"; a run that it fired before goes on: {', '.join(map(str, sorted(under_way)))}"
