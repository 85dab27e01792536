"""Drives a backfill: one run for explicit ranges, found again by its token."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from databricks_bridge.core import acts
from databricks_bridge.core.backfill import Backfill, marks_of, ranges_of, reading_of, standing
from databricks_bridge.core.claims import LONGEST_PAUSE, Plan
from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    ClaimUndecided,
    ConsumerMismatch,
    InvalidArgument,
    RunFailed,
)
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.parameter_names import as_of_names
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.pending import settle
from databricks_bridge.core.policy import Choices
from databricks_bridge.core.positions import Range
from databricks_bridge.core.protocol import gone
from databricks_bridge.core.record import Record
from databricks_bridge.core.steps import mismatch
from databricks_bridge.feeds.claim_runs import CLOCKS_APART, cancel_unless_over
from databricks_bridge.feeds.driver import Driver
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

RUNS_KEPT = timedelta(days=60)
"""How long Databricks shows a run (`jobs/runs/list`)."""


@dataclass
class BackfillDriver:
    """One task's way through a backfill. `driver` does the acts; of its ledger nothing but the consumer is read.

    `since` is the earliest time at which a try of this task can have started a run; `cleared` says that a person cleared it.
    """

    driver: Driver
    workspace: Workspace
    backfill: Backfill
    since: datetime
    cleared: bool = False

    async def drive(
        self, *, follow: bool = True, again: bool = False, awaited: int | None = None
    ) -> acts.Finish | acts.AwaitRun | acts.Pause:
        """Act until the ranges are processed; with `follow=False` an active run, or a pause, is handed back.

        `again` says that an earlier process may have started a run: it is searched for. `awaited` is the run that this try
        has been waiting for. Raises RunFailed, after which the next try starts another run; ClaimUndecided; SourceError.
        """
        await self._check_consumer()
        try:
            return await self._drive(follow, again, awaited)
        except _RunGone as missing:
            return await self._without(missing.run_id)

    async def _drive(self, follow: bool, again: bool, awaited: int | None) -> acts.Finish | acts.AwaitRun | acts.Pause:
        earlier = await self._earlier() if again and awaited is None else {}
        generation, seen = standing(earlier)
        before = earlier.get(generation - 1)
        if awaited is not None:
            seen = await self._see(awaited)
            self.backfill = self.backfill.whose(seen.parameters) or self.backfill
            generation = self.backfill.ran(seen).generation
        while True:
            found = seen is not None and awaited is None
            seen = seen or await self._start(generation, before)
            if seen.outcome.ending is Ending.ACTIVE:
                if not follow:
                    return acts.AwaitRun(seen.run_id)
                found, seen = False, await self._wait(seen)
            if seen.outcome.ending is Ending.SUCCEEDED:
                denied = await self._denied(seen)
                if not denied:
                    claim = self.backfill.ran(seen)
                    if found and self.cleared:
                        log.warning(
                            "run %s did this range before a person cleared the task, and it is not run again; to have a clear run "
                            "it again, give the operator rerun=True",
                            seen.run_id,
                        )
                    return acts.Finish(
                        claim.ranges, seen.run_id, f"backfilled {claim}; the watermark stays where it is"
                    )
                if not found:
                    raise self._failed(seen, f"succeeded, but its postcondition does not hold: {denied}")
                generation, seen = standing(earlier, generation + 1)
                before = None
                continue
            if seen.outcome.ending is Ending.FAILED and not _never_did(seen):
                raise self._failed(seen, f"failed ({seen.outcome}){f': {seen.error}' if seen.error else ''}")
            pause = self._pause(seen, generation)
            if not follow:
                return pause
            await self.driver.do(pause)
            generation, seen, awaited, before = generation + 1, None, None, seen

    @property
    def _plan(self) -> Plan:
        return self.driver.plan

    async def _check_consumer(self) -> None:
        record = await self.driver.ledger.read()
        if record is not None and record.consumer != self._plan.consumer:
            raise ConsumerMismatch(mismatch(self._plan, record))

    async def _earlier(self) -> Mapping[int, acts.RunSeen]:
        """The runs that earlier tries started, by generation."""
        from_ = max(self.since, self.driver.now() - RUNS_KEPT) - CLOCKS_APART
        found: dict[int, acts.RunSeen] = {}
        target = self.backfill.target
        async for run in self.workspace.list_runs(
            job_id=target.job_id, start_time_from_ms=int(from_.timestamp() * 1000)
        ):
            whose = self.backfill.whose(of_run(run))
            generation = whose.generation_of(of_run(run)) if whose else None
            if whose is None or generation is None:
                continue
            seen = await self._see(int(run["run_id"]))
            if whose == self.backfill:
                found[generation] = seen
            elif seen.outcome.ending is Ending.ACTIVE:
                log.info(
                    "run %s of before the clear is still under way: it is followed, and none is started", seen.run_id
                )
                self.backfill = whose
                return {generation: seen}
        if found:
            log.info("earlier tries started run %s", ", ".join(str(found[one].run_id) for one in sorted(found)))
        return found

    async def _start(self, generation: int, before: acts.RunSeen | None) -> acts.RunSeen:
        # A range that cannot be read is refused whatever the subscription would do about its own watermark.
        spec = replace(self._plan.spec, choices=Choices())
        marks = marks_of(self.backfill.bounds)
        record = await self.driver.ledger.read()  # before the look, which is then at least as new
        looked = await self.driver.do(acts.Look(Record(spec.name, self._plan.consumer, marks)))
        assert isinstance(looked, acts.Looked)
        ranges = ranges_of(self.backfill.bounds, spec.sources, looked.findings)
        settle(spec, marks, "", looked.findings)
        self._check_as_of()
        waited = before is not None and _never_did(before)
        reading = reading_of(ranges, looked.findings, record, before.parameters if before and waited else {})
        claim = self.backfill.claim(generation, ranges, self._plan.own_parameters, self.driver.now(), reading)
        started = await self.driver.do(acts.StartRun(claim))
        if isinstance(started, acts.TokenSpent):
            return await self._start(generation + 1, before)
        assert isinstance(started, acts.RunStarted)
        seen = await self._see(started.run_id)
        if self.backfill.ran(seen).generation != generation:
            raise BadAnswer(f"run-now of generation {generation} answered with run {seen.run_id}, which is another's")
        return seen

    def _check_as_of(self) -> None:
        """Refuse a job that would read its tables as of the end of an old range, and write that over newer results."""
        names = as_of_names(self._plan.spec.sources)
        missing = sorted(name for alias, name in names.items() if alias not in self._plan.as_of)
        if missing:
            raise InvalidArgument(
                f"{self.backfill.target} does not declare the job parameters {', '.join(missing)}, which a backfill needs: its "
                "range says which rows were touched, and they are to be read as of the newest version, or older state is "
                "written over newer results. Add them with an empty default, and read the tables as of <alias>_as_of instead "
                "of <alias>_end"
            )

    async def _see(self, run_id: int) -> acts.RunSeen:
        return await self._there(await self.driver.do(acts.GetRun(run_id)))

    async def _wait(self, seen: acts.RunSeen) -> acts.RunSeen:
        return await self._there(await self.driver.do(acts.AwaitRun(seen.run_id)))

    async def _there(self, seen: acts.Observation) -> acts.RunSeen:
        """A run that is not shown is looked for again, and gone once `runs/get` and `runs/list` say so twice."""
        missing = False
        while isinstance(seen, acts.RunGone):
            listed = await self._is_listed(seen.run_id)
            if missing and not listed:
                raise _RunGone(seen.run_id)
            missing = not listed
            why = f"run {seen.run_id} is not shown; it is read again"
            await self.driver.do(acts.Pause(self.driver.now() + (gone.GONE_AFTER if missing else gone.AGAIN), why))
            seen = await self.driver.do(acts.GetRun(seen.run_id))
        assert isinstance(seen, acts.RunSeen)
        return seen

    async def _is_listed(self, run_id: int) -> bool:
        from_ms = int((max(self.since, self.driver.now() - RUNS_KEPT) - CLOCKS_APART).timestamp() * 1000)
        listing = self.workspace.list_runs(job_id=self.backfill.target.job_id, start_time_from_ms=from_ms)
        return any([run["run_id"] == run_id async for run in listing])

    async def _denied(self, seen: acts.RunSeen) -> str:
        """What the postcondition has against this success; empty where it holds, or there is none."""
        if not self._plan.postcondition:
            return ""
        proof = await self.driver.do(acts.Prove(self.backfill.ran(seen), seen.run_id))
        assert isinstance(proof, acts.Proved)
        return "" if proof.holds else proof.why or "it says no"

    def _pause(self, seen: acts.RunSeen, generation: int) -> acts.Pause:
        pause = min(self._plan.pause * 2 ** min(generation, 20), max(self._plan.pause, LONGEST_PAUSE))
        why = seen.error or f"run {seen.run_id} never ran ({seen.outcome})"
        return acts.Pause(self.driver.now() + pause, why)

    def _failed(self, seen: acts.RunSeen, why: str) -> RunFailed:
        what = shown(self.backfill.ran(seen).ranges)
        return RunFailed(
            f"run {seen.run_id} of {self.backfill.target} for the backfill of {what} {why}; the next try starts another run",
            run_id=seen.run_id,
        )

    async def _without(self, run_id: int) -> acts.Finish:
        """The workspace has forgotten the run: only a postcondition that holds can prove it."""
        claim = self.backfill.claim(0, self.backfill.ranges(self._plan.spec.sources), {}, self.driver.now())
        why = "there is no postcondition"
        if self._plan.postcondition:
            try:
                proof = await self.driver.prove(claim, run_id)
            except BridgeError as error:
                proof = acts.Proved(False, str(error))
            if proof.holds and proof.certain:
                return acts.Finish(
                    claim.ranges, run_id, f"backfilled {claim}, as its postcondition proves: run {run_id} is gone"
                )
            why = proof.why or "the postcondition says no"
        raise ClaimUndecided(
            f"run {run_id} of {self.backfill.target} is gone (60 days, or deleted), and nothing proves that it finished the "
            f"backfill of {claim} ({why}); look at what it wrote, and ask for the range again in a new DAG run"
        )


def _never_did(seen: acts.RunSeen) -> bool:
    """Whether the run is over without having done anything: it never ran, or its reader did not have the state yet."""
    return seen.outcome.ending is Ending.NOTHING_RAN or (seen.outcome.ending is Ending.FAILED and seen.reader_behind)


class _RunGone(Exception):
    def __init__(self, run_id: int) -> None:
        super().__init__(run_id)
        self.run_id = run_id


async def cancel_backfill(workspace: Workspace, run_id: int) -> bool:
    """Cancel the run of a backfill, which no ledger knows; False, and nothing done, for a run that is over."""
    return await cancel_unless_over(workspace, run_id)


def shown(ranges: tuple[Range, ...]) -> str:
    return ", ".join(str(one) for one in ranges if not one.empty)
