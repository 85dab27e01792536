"""A JobsPort in memory and a clock that tests move: the scheduler's two seams."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from databricks_bridge.local.ports import RunFinished, TriggeredJob

BEGINNING = 1_772_366_400.0
"""2026-03-01T12:00:00Z"""


@dataclass
class ManualClock:
    """Seconds since the epoch; sleeping moves it and lets others run."""

    at: float = BEGINNING

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Started:
    run_id: int
    job_id: int
    trigger: str
    context: Mapping[str, str]
    info: Mapping[str, Any] | None


@dataclass
class MemoryJobs:
    """Jobs of one workspace `ops` (id 1001, metastore ops). Keeps state as text, as the store does."""

    clock: ManualClock = field(default_factory=ManualClock)
    jobs: dict[int, TriggeredJob] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)
    active: dict[int, list[int]] = field(default_factory=dict)
    broken: bool = False
    _states: dict[int, str] = field(default_factory=dict)
    _ends: list[RunFinished] = field(default_factory=list)
    _listeners: list[Callable[[RunFinished], None]] = field(default_factory=list)

    def put(self, job_id: int, settings: Mapping[str, Any]) -> None:
        revision = self.jobs[job_id].trigger_revision + 1 if job_id in self.jobs else 1
        self._states.pop(job_id, None)
        # A request takes a moment: what was there before it is older than the trigger.
        self.clock.at += 0.01
        self.jobs[job_id] = TriggeredJob(
            "ops",
            "1001",
            "ops",
            job_id,
            f"job-{job_id}",
            copy.deepcopy(settings),
            round(self.clock.at * 1000),
            revision,
        )

    def state(self, job_id: int, trigger: int = 0) -> dict[str, Any]:
        """What is kept of one of the job's triggers."""
        kept = self.trigger_state(job_id)
        return dict(kept["triggers"][trigger]) if kept else {}

    def end(
        self,
        job_id: int,
        run_id: int,
        code: str,
        at: float,
        workspace_id: str = "1001",
        *,
        metastore: str = "ops",
        heard: bool = True,
    ) -> None:
        """A run ends. Not `heard`: the process dies before it tells anybody."""
        self.active.get(job_id, []).clear()
        result = "SUCCESS" if code == "SUCCESS" else "FAILED"
        end = RunFinished("ops", workspace_id, metastore, job_id, run_id, "ONE_TIME", result, code, round(at * 1000))
        self._ends.append(end)
        for listener in self._listeners if heard else ():
            listener(end)

    def triggered_jobs(self) -> list[TriggeredJob]:
        if self.broken:
            raise OSError("the store is gone")
        return [self.jobs[job_id] for job_id in sorted(self.jobs)]

    def trigger_state(self, job_id: int) -> dict[str, Any] | None:
        state = self._states.get(job_id)
        return None if state is None else dict(json.loads(state))

    def save_trigger_state(self, job_id: int, revision: int, state: Mapping[str, Any]) -> bool:
        if not self._is_at(job_id, revision):
            return False
        self._states[job_id] = json.dumps(state)
        return True

    def fire(
        self,
        job_id: int,
        revision: int,
        *,
        trigger: str,
        context: Mapping[str, str],
        state: Mapping[str, Any],
        trigger_info: Mapping[str, Any] | None = None,
    ) -> int | None:
        if not self._is_at(job_id, revision):
            return None
        run_id = 500 + len(self.started)
        self.started.append(Started(run_id, job_id, trigger, dict(context), trigger_info))
        self.active.setdefault(job_id, []).append(run_id)
        self.save_trigger_state(job_id, revision, state)
        return run_id

    def active_runs(self, job_id: int) -> list[int]:
        return list(self.active.get(job_id, []))

    def on_run_finished(self, listener: Callable[[RunFinished], None]) -> None:
        self._listeners.append(listener)

    def ended_runs(self, job_ids: Collection[int], *, after: int, since: int) -> list[tuple[int, RunFinished]]:
        numbered = enumerate(self._ends, start=1)
        return [(n, end) for n, end in numbered if n > after and end.job_id in job_ids and end.end_time >= since]

    def _is_at(self, job_id: int, revision: int) -> bool:
        return job_id in self.jobs and self.jobs[job_id].trigger_revision == revision
