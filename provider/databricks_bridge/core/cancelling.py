"""When a run that we started may be cancelled, and how that is recorded.

Airflow asks a process to stop in the same way for many reasons: a person marked the task, a clear, a shutdown, an
eviction, a triggerer that took over. Only the task's own state tells them apart, and not always.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from databricks_bridge.core.record import ClaimStatus, Record

LONGEST_GAP_SECONDS = 25.0
"""Airflow gives a triggerer up after 30 s without a sign (`triggerer_health_check_threshold`), a task after 300 s."""


def marked_by_person(state: str | None, *, retries_left: bool, fail_fast: bool, steady: bool) -> str | None:
    """`state` when a person must have set it, else None.

    `state` is what Airflow has for a task that has not ended by itself. Only a person sets `success` then. `failed` comes
    from a person, or from Airflow itself: where it missed the task's heartbeat (with retries left it says `up_for_retry`
    instead), and where another task of a DAG with `fail_fast` failed. A process that was stopped for a while is not `steady`:
    what it sees may be the end of a later try.
    """
    if not steady:
        return None
    certain = state == "success" or (state == "failed" and retries_left and not fail_fast)
    return state if certain else None


def is_run_of(record: Record, run_id: int) -> bool:
    """Whether this is the run of the open claim: one that we started."""
    return record.claim is not None and record.claim.run_id == run_id


def cancelled(record: Record, why: str, now: datetime) -> Record:
    """The record of a run that is cancelled on purpose: no failure, and once it is over, the next process starts the next
    generation.
    """
    assert record.claim is not None, "only the run of an open claim is cancelled"
    claim = replace(record.claim, status=ClaimStatus.FAILED, cancelled=True)
    return record.after(now, f"run {claim.run_id} cancelled: {why}", claim=claim)


@dataclass
class Pulse:
    """Whether a process has run without a stop: `beat` is called at least every `longest` seconds while it does."""

    longest: float = LONGEST_GAP_SECONDS
    clock: Callable[[], float] = time.monotonic
    steady: bool = True
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def beat(self) -> None:
        now = self.clock()
        self.steady = self.steady and now - self._last <= self.longest
        self._last = now
