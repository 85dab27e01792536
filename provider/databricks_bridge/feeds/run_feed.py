"""The one poller of a workspace's runs on an event loop, however many wait for however many runs.

There is no filter in the API for what fired a run, and none for a set of ids. So each round takes the cheaper of two
ways. Wide: all active runs of the workspace, and, where jobs are waited for, the newest runs back to the last one seen.
Scoped: one listing for each job, and one `runs/get` for each run. What was open and is so no more is read once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from math import ceil
from typing import TypeVar

from databricks_bridge.core.errors import BadAnswer, BridgeError, NotFound, NotPermitted, Unavailable
from databricks_bridge.feeds.rounds import Bell, Timing, again, in_background
from databricks_bridge.feeds.run_book import Book, Job, Run, is_active
from databricks_bridge.workspace.client import RUNS_PAGE, Workspace

T = TypeVar("T")

log = logging.getLogger(__name__)

RECHECK_SECONDS = 600.0
"""A job that is waited for is looked up and listed whole so often, at most one job a round: a repair that began and
ended between two rounds, a job deleted or made anew under its name. With many jobs each comes less often."""

GATHER_SECONDS, LONGEST_GATHER_SECONDS = 0.2, 2.0
"""Waits that begin together, after a triggerer's restart, say, are served together: when none has come for so long."""

_AT_ONCE = 8
_HEAD_KEPT = 1000
_KNOWN_IN_A_ROW = 12
"""So many runs already seen, one after another, end the way back: a run may be shown a little after later ones."""


class RunFeed:
    """The runs of one workspace. `workspace` is not closed here."""

    def __init__(
        self, workspace: Workspace, timing: Timing | None = None, *, recheck_seconds: float = RECHECK_SECONDS
    ) -> None:
        self._workspace = workspace
        self._timing = timing or Timing()
        self._recheck_seconds = recheck_seconds
        self._book = Book()
        self._bells: dict[Bell, None] = {}
        self._names: dict[str, int] = {}
        self._error: BridgeError | None = None
        self._active_pages = 1
        self._head: dict[int, int] = {}
        self._fresh: set[int] = set()
        self._joined = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def join(self, bell: Bell) -> FeedRuns:
        """A place for one more who waits for runs of this workspace."""
        self._bells[bell] = None
        self._joined.set()
        if self._runner is None or self._runner.done():
            self._runner = in_background(self._run(), "databricks-bridge run feed")
        return FeedRuns(self, bell)

    def leave(self, bell: Bell) -> None:
        """One less. After the last one nothing is polled."""
        self._bells.pop(bell, None)
        self._book.forget(bell)
        if not self._bells and self._runner is not None:
            self._runner.cancel()
            self._runner = None

    def run(self, run_id: int, bell: Bell) -> Run | None:
        """The run as last seen, None while it is not known yet; it rings when the run is over.

        Raises NotFound where it does not exist, and what the last round raised.
        """
        if bell not in self._book.ids.get(run_id, ()):
            self._book.await_run(run_id, bell)
            self._fresh.add(run_id)
            self._joined.set()
        if run_id in self._book.refused:
            raise again(self._book.refused[run_id])
        if self._error is not None:
            raise again(self._error)
        return self._book.seen.get(run_id)

    async def runs_of(self, job_id: int, bell: Bell, from_ms: int) -> list[Run]:
        """All runs of the job that started at or after `from_ms`, newest start first; it rings when one has ended.

        Raises what the listing of this job, or the last round, raised.
        """
        known = self._book.jobs.get(job_id)
        if known is None or from_ms < known.from_ms:
            async with self._turn:
                known = self._book.jobs.get(job_id)
                if known is None or from_ms < known.from_ms:
                    await self._begin(job_id, bell, from_ms)
        job = self._book.await_job(job_id, bell, from_ms)
        if error := job.error or self._error:
            raise again(error)
        runs = [run for run in job.runs.values() if run["start_time"] >= from_ms]
        return sorted(runs, key=lambda run: (run["start_time"], run["run_id"]), reverse=True)

    async def job_of(self, job_id: int | None, job_name: str | None) -> int:
        """The job's id, its name looked up once. Raises NotFound, InvalidArgument."""
        if job_id is not None:
            return job_id
        name = str(job_name)
        if name not in self._names:
            async with self._turn:
                if name not in self._names:
                    self._names[name] = await self._workspace.find_job(name)
        return self._names[name]

    async def _begin(self, job_id: int, bell: Bell, from_ms: int) -> None:
        try:
            runs = [run async for run in self._workspace.list_runs(job_id=job_id, start_time_from_ms=from_ms)]
        except NotFound:
            self._forget_names(job_id)
            raise
        job = self._book.await_job(job_id, bell, from_ms)
        job.from_ms = min(job.from_ms, from_ms)
        job.error, job.checked_at = None, self._timing.clock()
        self._book.take(runs)

    async def _run(self) -> None:
        # Not at once: whoever joins is served a first look of its own.
        due = self._timing.clock() + self._interval() * (1 + self._timing.random()) / 2
        while self._bells:
            if await self._joined_within(due - self._timing.clock()):
                await self._gather()
                await self._safely(self._serve_fresh)
            else:
                due = max(due + self._interval(), self._timing.clock())
                await self._safely(self._round)
            due = min(due, self._timing.clock() + self._interval())

    async def _joined_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._joined.wait()
        except TimeoutError:
            return False
        return True

    async def _gather(self) -> None:
        until = self._timing.clock() + LONGEST_GATHER_SECONDS
        while self._joined.is_set() and self._timing.clock() < until:
            self._joined.clear()
            await self._timing.sleep(GATHER_SECONDS)

    def _interval(self) -> float:
        return min((bell.interval for bell in self._bells), default=60.0)

    async def _safely(self, work: Callable[[], Awaitable[None]]) -> None:
        """Nothing that the workspace does ends the feed: an error is kept for those who ask, until a good round."""
        try:
            async with self._turn:
                await work()
            self._error = None
        except BridgeError as error:
            self._error = error
        except Exception as error:
            log.exception("a round of the run feed failed in a way new to us; going on")
            self._error = Unavailable(f"a round of the run feed failed with {type(error).__name__}; going on")

    async def _serve_fresh(self) -> None:
        """First looks at runs that somebody has just begun to wait for."""
        self._joined.clear()
        fresh, self._fresh = self._fresh, set()
        wanted = [run_id for run_id in self._book.open_ids if run_id in fresh]
        try:
            if len(wanted) <= self._active_pages:
                await self._get(wanted)
            else:
                await self._follow(wanted)
        except BridgeError:
            self._fresh |= fresh
            raise

    async def _round(self) -> None:
        self._fresh.clear()
        self._book.prune()
        jobs = [job for job in self._book.jobs.values() if not isinstance(job.error, NotFound)]
        if not jobs and not self._book.open_ids:
            return
        of_jobs = {run["run_id"] for run in self._book.open_runs()}
        alone = [run_id for run_id in self._book.open_ids if run_id not in of_jobs]
        wide = self._active_pages + (1 if jobs else 0)
        if len(jobs) + len(alone) <= wide:
            self._head.clear()
            self._active_pages = max(1, self._active_pages - 1)  # what is not measured is not believed for ever
            await self._all(self._list_job, jobs)
            await self._get([run_id for run_id in alone if run_id in self._book.open_ids])
        else:
            await self._follow(self._book.open_ids)
            if jobs:
                await self._read_head(jobs)
        await self._recheck()

    async def _follow(self, run_ids: Collection[int]) -> None:
        """Reads the active runs of the workspace, and what became of those that are not among them any more."""
        before = {run["run_id"]: run for run in self._book.open_runs()}
        before |= {run_id: self._book.seen.get(run_id, {}) for run_id in run_ids}
        active = [run async for run in self._workspace.list_runs(active_only=True)]
        self._active_pages = max(1, ceil(len(active) / RUNS_PAGE))
        self._book.take(active)
        for run in active:
            before.pop(run["run_id"], None)
        await self._read_ended(before)

    async def _read_ended(self, before: dict[int, Run]) -> None:
        """Runs that have just ended: in one listing where they began close to each other, else one by one."""
        known = {run_id: run["start_time"] for run_id, run in before.items() if run}
        left = set(before)
        if len(known) > 2:
            seen = 0
            listing = self._workspace.list_runs(
                completed_only=True, start_time_from_ms=min(known.values()), start_time_to_ms=max(known.values())
            )
            async for run in listing:
                seen += 1
                if run["run_id"] in left:
                    left.discard(run["run_id"])
                    self._book.take([run])
                if not left & known.keys() or seen >= RUNS_PAGE * len(known):
                    break
        await self._get(left)

    async def _read_head(self, jobs: list[Job]) -> None:
        """The newest runs of the workspace, back to those already seen; at first of each job, for none was."""
        known, in_a_row = dict(self._head), 0
        oldest = min(known.values(), default=0)
        async for run in self._workspace.list_runs():
            self._head[run["run_id"]] = run["start_time"]
            self._book.take([run])
            in_a_row = in_a_row + 1 if run["run_id"] in known else 0
            if (
                in_a_row >= _KNOWN_IN_A_ROW
                or run["start_time"] < oldest
                or (not known and len(self._head) >= RUNS_PAGE)
            ):
                break
        while len(self._head) > _HEAD_KEPT:
            del self._head[next(iter(self._head))]
        if not known:
            await self._all(self._list_job, jobs)

    async def _list_job(self, job: Job) -> None:
        await self._list_from(job, job.list_from_ms)

    async def _list_from(self, job: Job, start: int) -> None:
        try:
            self._book.take(
                [run async for run in self._workspace.list_runs(job_id=job.job_id, start_time_from_ms=start)]
            )
            job.error = None
        except (NotFound, NotPermitted, BadAnswer) as error:
            self._fail(job, error)

    async def _recheck(self) -> None:
        now = self._timing.clock()
        job = min(self._book.jobs.values(), key=lambda job: job.checked_at, default=None)
        if job is None or now - job.checked_at < self._recheck_seconds:
            return
        job.checked_at = now
        try:
            await self._workspace.get_job(job.job_id)
        except (NotFound, NotPermitted, BadAnswer) as error:
            self._fail(job, error)
            return
        await self._list_from(job, job.from_ms)

    def _forget_names(self, job_id: int) -> None:
        """The job's name may be another job's by now."""
        self._names = {name: known for name, known in self._names.items() if known != job_id}

    def _fail(self, job: Job, error: BridgeError) -> None:
        self._forget_names(job.job_id)
        job.error = error
        for bell in job.bells:
            bell.ring()

    async def _get(self, run_ids: Collection[int]) -> None:
        await self._all(self._get_one, run_ids)

    async def _get_one(self, run_id: int) -> None:
        try:
            self._book.take([await self._workspace.get_run(run_id)])
        except (NotFound, NotPermitted, BadAnswer) as error:
            self._book.refuse(run_id, error)

    async def _all(self, act: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
        """Does it with each, a few at a time, and raises the first error afterwards."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(item: T) -> None:
            async with slots:
                await act(item)

        for result in await asyncio.gather(*map(one, items), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result


class FeedRuns:
    """The runs of a workspace as one who waits sees them, from memory: at most one interval old."""

    def __init__(self, feed: RunFeed, bell: Bell) -> None:
        self._feed, self._bell = feed, bell

    def leave(self) -> None:
        """The wait is over."""
        self._feed.leave(self._bell)

    async def job_of(self, job_id: int | None, job_name: str | None) -> int:
        """The job's id. Raises NotFound, InvalidArgument."""
        return await self._feed.job_of(job_id, job_name)

    def run(self, run_id: int) -> Run | None:
        """See `RunFeed.run`."""
        return self._feed.run(run_id, self._bell)

    async def list_runs(
        self, *, job_id: int, start_time_from_ms: int, completed_only: bool = False
    ) -> AsyncIterator[Run]:
        """As `Workspace.list_runs`."""
        for run in await self._feed.runs_of(job_id, self._bell, start_time_from_ms):
            if not completed_only or not is_active(run):
                yield run
