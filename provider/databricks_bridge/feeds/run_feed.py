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

from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.feeds.job_names import JobNames
from databricks_bridge.feeds.rounds import Bell, Timing, again, in_background
from databricks_bridge.feeds.run_book import Book, Job, Run
from databricks_bridge.workspace.client import RUNS_PAGE, Workspace

T = TypeVar("T")

log = logging.getLogger(__name__)

RECHECK_SECONDS, LONGEST_RECHECK_SECONDS = 600.0, 3600.0
"""A job that is waited for is looked up and listed whole so often, one job a round: for a repair that began and ended
between two rounds, and for a job that was deleted. With many jobs each comes less often, down to the longest; then more
of them in a round. A name is looked up again as often, one a round."""

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
        self._names = JobNames(workspace.find_job, self._timing.clock)
        self._error: BridgeError | None = None
        self._active_pages = 1
        self._head: dict[int, int] | None = None
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

    def details_of(self, job_id: int) -> Run | None:
        """What `jobs/get` said of an awaited job at its last check."""
        job = self._book.jobs.get(job_id)
        return None if job is None else job.details

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

    async def runs_of(self, job_id: int, bell: Bell, from_ms: int) -> Job:
        """The job with all its runs that started at or after `from_ms`; it rings when one has ended.

        Raises what the last look at this job, or the last round, raised.
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
        return job

    async def job_of(self, job_id: int | None, job_name: str | None, max_age: float | None = None) -> int:
        """The job's id; its name was looked up at most `max_age` seconds ago where that is given.

        Raises NotFound, InvalidArgument.
        """
        return job_id if job_id is not None else await self._names.job_of(str(job_name), max_age)

    async def _begin(self, job_id: int, bell: Bell, from_ms: int) -> None:
        try:
            known = self._book.jobs.get(job_id)
            details = (known and known.details) or await self._details(job_id)
            runs = await self._listed(job_id, from_ms)
        except NotFound:
            self._names.forget(job_id)
            raise
        job = self._book.await_job(job_id, bell, from_ms)
        job.from_ms = min(job.from_ms, from_ms)
        job.error, job.checked_at, job.details = None, self._timing.clock(), details
        self._book.take(runs)

    async def _details(self, job_id: int) -> Run:
        return await self._workspace.get_job(job_id, include_trigger_state=True, include_trigger_history=True)

    async def _listed(self, job_id: int, from_ms: int) -> list[Run]:
        """Runs of the job. Raises NotFound only where the job itself is gone: a listing may say so of other things."""
        try:
            return [run async for run in self._workspace.list_runs(job_id=job_id, start_time_from_ms=from_ms)]
        except NotFound as error:
            await self._details(job_id)
            raise BadAnswer(f"the runs of job {job_id}, which is there, are refused: {error}") from error

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
        except (NotAuthenticated, NotPermitted, Unavailable) as error:
            self._error = error
        except BridgeError as error:
            # whatever was refused here, it was not what somebody waits for
            self._error = BadAnswer(f"the runs of the workspace cannot be listed: {error}")
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
            self._head = None
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
        known = {run_id: run["start_time"] for run_id, run in before.items() if run.get("start_time")}
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
        first, known = self._head is None, dict(self._head or {})
        head, oldest = self._head or {}, min(known.values(), default=0)
        count = in_a_row = 0
        async for run in self._workspace.list_runs():
            count += 1
            head[run["run_id"]] = run["start_time"]
            self._book.take([run])
            in_a_row = in_a_row + 1 if run["run_id"] in known else 0
            # what is left of the page is read already: a run may be shown a little after later ones
            if count % RUNS_PAGE == 0 and (first or in_a_row >= _KNOWN_IN_A_ROW or run["start_time"] < oldest):
                break
        while len(head) > _HEAD_KEPT:
            del head[next(iter(head))]
        self._head = head
        if first:
            await self._all(self._list_job, jobs)

    async def _list_job(self, job: Job) -> None:
        await self._safely_of(job, self._list_from(job, job.list_from_ms))

    async def _list_from(self, job: Job, start: int) -> None:
        self._book.take(await self._listed(job.job_id, start))

    async def _recheck(self) -> None:
        """Jobs whose turn it is, and those that could not be looked at: a refusal of one moment must not stay theirs."""
        now = self._timing.clock()
        waiting = sorted(self._book.jobs.values(), key=lambda job: job.checked_at)
        share = ceil(len(waiting) * self._interval() / max(LONGEST_RECHECK_SECONDS, self._recheck_seconds))
        due = [job for job in waiting if now - job.checked_at >= self._recheck_seconds][: max(1, share)]
        refused = [job for job in waiting if job.error is not None and not isinstance(job.error, NotFound)]
        await self._all(self._check, dict.fromkeys((*due, *refused)))
        lost = await self._names.check_one(self._recheck_seconds)
        if lost is not None and lost in self._book.jobs:
            self._book.jobs[lost].ring()

    async def _check(self, job: Job) -> None:
        job.checked_at = self._timing.clock()
        await self._safely_of(job, self._look_at(job))

    async def _look_at(self, job: Job) -> None:
        job.details = await self._details(job.job_id)
        await self._list_from(job, job.from_ms)

    async def _safely_of(self, job: Job, look: Awaitable[None]) -> None:
        """What is refused about one job is told to those who wait for that job alone, until a look at it is good."""
        try:
            await look
            job.error = None
        except NotAuthenticated:
            raise
        except WorkspaceError as error:
            if isinstance(error, NotFound):
                self._names.forget(job.job_id)
            news, job.error = job.error is None or isinstance(error, NotFound), error
            if news:  # else who bears a few refusals would count each twice
                job.ring()

    async def _get(self, run_ids: Collection[int]) -> None:
        await self._all(self._get_one, run_ids)

    async def _get_one(self, run_id: int) -> None:
        try:
            self._book.take([await self._workspace.get_run(run_id)])
        except NotAuthenticated:
            raise
        except WorkspaceError as error:
            self._book.refuse(run_id, error, self._timing.clock())

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

    async def job_of(self, job_id: int | None, job_name: str | None, max_age: float | None = None) -> int:
        """See `RunFeed.job_of`."""
        return await self._feed.job_of(job_id, job_name, max_age)

    async def details_of(self, job_id: int) -> Run | None:
        """`jobs/get` of a job whose runs are waited for here, as of its last check; None where they are not."""
        return self._feed.details_of(job_id)

    def run(self, run_id: int) -> Run | None:
        """See `RunFeed.run`."""
        return self._feed.run(run_id, self._bell)

    async def list_runs(
        self,
        *,
        job_id: int,
        start_time_from_ms: int,
        end_time_from_ms: int | None = None,
    ) -> AsyncIterator[Run]:
        """As `Workspace.list_runs`; with `end_time_from_ms` without those that were over before, in the order of ends."""
        job = await self._feed.runs_of(job_id, self._bell, start_time_from_ms)
        if end_time_from_ms is None:
            found = job.started(start_time_from_ms)
        else:
            found = [*job.ended(end_time_from_ms), *job.open.values()]
        for run in found:
            if run["start_time"] >= start_time_from_ms:
                yield run
