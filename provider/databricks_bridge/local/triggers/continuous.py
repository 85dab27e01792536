"""When a continuous job starts its next run: soon after one has ended, later after failures in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from databricks_bridge.local.triggers.outcome import Fire, Held, Outcome, State

PAUSE = timedelta(seconds=20)
"""Between the end of a run and the next. Databricks documents a small delay of less than 60 seconds; the figure is ours."""
FIRST_BACKOFF = timedelta(minutes=1)
LONGEST_BACKOFF = timedelta(hours=1)
"""Databricks documents that the wait grows with each failure in a row, without figures; these are ours."""


@dataclass(frozen=True)
class Ended:
    """The end of a run of the job."""

    run_id: int
    succeeded: bool
    at: datetime


def decide_continuous(
    active_runs: Sequence[int], ended: Sequence[Ended], state: State | None, now: datetime, scale: float
) -> Outcome:
    """Decide from the active runs and the runs that ended since the last evaluation, oldest first.

    `scale` multiplies the waits. After a success the next run waits 20 s. After k failures in a row the next run waits 1 min, doubled each time, 1 h at most.
    """
    failures = 0 if state is None else int(state["failures"])
    until = None if state is None or state["until"] is None else datetime.fromisoformat(state["until"])
    for run in ended:
        failures = 0 if run.succeeded else failures + 1
        until = run.at + _wait(failures, scale)
    if until is not None:
        # The clock may have gone back since the run ended.
        until = min(until, now + _wait(failures, scale))
    kept: State = {"failures": failures, "until": until and until.isoformat()}
    if active_runs:
        return Held(f"run {active_runs[0]} is active", kept)
    if until is not None and now < until:
        why = f"{failures} failure(s) in a row" if failures else "a run has just ended"
        return Held(f"{why}; the next run waits until {until.isoformat()}", kept, until)
    return Fire("CONTINUOUS", "no run is active", kept, context={"type": "continuous"})


def _wait(failures: int, scale: float) -> timedelta:
    if not failures:
        return PAUSE * scale
    longer: int = 2 ** min(failures - 1, 10)
    return min(FIRST_BACKOFF * longer, LONGEST_BACKOFF) * scale
