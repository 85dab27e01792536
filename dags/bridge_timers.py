"""The timers of the example DAGs, from one Airflow variable: `bridge_timers` is "production" (default) or "short"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow.sdk import Variable


@dataclass(frozen=True)
class Timers:
    """How often to look, how long to let a source settle, and how soon to try again."""

    poll: timedelta
    settle: timedelta
    between: timedelta
    retry: timedelta


TIMERS = {
    "production": Timers(
        poll=timedelta(seconds=30),
        settle=timedelta(minutes=2),
        between=timedelta(minutes=10),
        retry=timedelta(minutes=1),
    ),
    "short": Timers(
        poll=timedelta(seconds=1),
        settle=timedelta(seconds=1),
        between=timedelta(seconds=2),
        retry=timedelta(seconds=5),
    ),
}


def timers() -> Timers:
    """The timers that the variable names. Raises ValueError for another word."""
    name = Variable.get("bridge_timers", default="production")
    if name not in TIMERS:
        raise ValueError(f"the variable bridge_timers is {name!r}; it must be one of {', '.join(TIMERS)}")
    return TIMERS[name]
