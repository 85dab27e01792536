"""What one evaluation of a trigger comes to: fire, or hold with a reason. Either way there is a new state to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


class CannotEvaluate(Exception):
    """The trigger cannot be evaluated as it is; the message is shown in its history."""


State = dict[str, Any]
"""What a trigger remembers between evaluations, as JSON. A missing state (None) means: never looked yet."""


@dataclass(frozen=True)
class Fire:
    """Start a run. `run_trigger` is the word of `runs/get.trigger`, `context` holds the values of
    `{{job.trigger.<key>}}` references, `times` (epoch milliseconds) of those that are times and have several forms.
    `info` becomes the run's `trigger_info`.
    """

    run_trigger: str
    reason: str
    state: State
    context: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """No run. `until` is when time alone would make it fire; None when only a change can."""

    reason: str
    state: State
    until: datetime | None = None


Outcome = Fire | Held


def to_ms(at: datetime) -> int:
    """Epoch milliseconds, the API's unit of time."""
    return round(at.timestamp() * 1000)
