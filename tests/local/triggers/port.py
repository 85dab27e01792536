"""A JobsPort in memory and a clock that tests move: the scheduler's two seams."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Mapping
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

    jobs: dict[int, TriggeredJob] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)
    active: dict[int, list[int]] = field(default_factory=dict)
    broken: bool = False
    _states: dict[int, tuple[str, str]] = field(default_factory=dict)
    _listeners: list[Callable[[RunFinished], None]] = field(default_factory=list)

    def put(self, job_id: int, settings: Mapping[str, Any]) -> None:
        block = settings.get("trigger") or settings.get("continuous") or {}
        paused = block.get("pause_status") == "PAUSED"
        self.jobs[job_id] = TriggeredJob("ops", "1001", "ops", job_id, f"job-{job_id}", copy.deepcopy(settings), paused)

    def state(self, job_id: int) -> dict[str, Any]:
        return self.trigger_state(job_id) or {}

    def end(self, job_id: int, run_id: int, code: str, at: float, workspace_id: str = "1001") -> None:
        self.active.get(job_id, []).clear()
        result = "SUCCESS" if code == "SUCCESS" else "FAILED"
        for listener in self._listeners:
            listener(RunFinished("ops", workspace_id, job_id, run_id, "ONE_TIME", result, code, int(at * 1000)))

    def triggered_jobs(self) -> list[TriggeredJob]:
        if self.broken:
            raise OSError("the store is gone")
        return [self.jobs[job_id] for job_id in sorted(self.jobs)]

    def trigger_state(self, job_id: int) -> dict[str, Any] | None:
        trigger, state = self._states.get(job_id, ("", ""))
        return dict(json.loads(state)) if trigger == self._trigger(job_id) else None

    def save_trigger_state(self, job_id: int, state: Mapping[str, Any]) -> None:
        if job_id in self.jobs:
            self._states[job_id] = (self._trigger(job_id), json.dumps(state))

    def fire(
        self,
        job_id: int,
        *,
        trigger: str,
        context: Mapping[str, str],
        state: Mapping[str, Any],
        trigger_info: Mapping[str, Any] | None = None,
    ) -> int | None:
        if job_id not in self.jobs or self.jobs[job_id].paused:
            return None
        run_id = 500 + len(self.started)
        self.started.append(Started(run_id, job_id, trigger, dict(context), trigger_info))
        self.active.setdefault(job_id, []).append(run_id)
        self.save_trigger_state(job_id, state)
        return run_id

    def active_runs(self, job_id: int) -> list[int]:
        return list(self.active.get(job_id, []))

    def on_run_finished(self, listener: Callable[[RunFinished], None]) -> None:
        self._listeners.append(listener)

    def _trigger(self, job_id: int) -> str:
        job = self.jobs.get(job_id)
        return "" if job is None else json.dumps(job.settings, sort_keys=True)
