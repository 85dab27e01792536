"""When a subscription, or a Databricks trigger, may fire.

One pure decision for both sides: the Airflow sensors and the local workspace's table-update and
file-arrival triggers. Times are aware datetimes, durations timedeltas; nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from databricks_bridge.core.errors import InvalidArgument


class Condition(StrEnum):
    """How many of the sources must have something new (Jobs API, `TableUpdateTriggerConfiguration.condition`)."""

    ANY_UPDATED = "ANY_UPDATED"
    ALL_UPDATED = "ALL_UPDATED"


class Choice(StrEnum):
    """What to do when a source is not what its watermark knew.

    FAIL raises; FULL_REBUILD starts before the first version again, of what is there now; ADOPT goes on from the newest
    version, and the record's history says what was passed over.
    """

    FAIL = "fail"
    FULL_REBUILD = "full_rebuild"
    ADOPT = "adopt"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The choices of a subscription. Raises InvalidArgument for an unknown one."""

    on_recreated: Choice = Choice.FAIL
    on_replaced: Choice = Choice.FAIL
    on_history_gap: Choice = Choice.FAIL

    def __post_init__(self) -> None:
        known = [member.value for member in Choice]
        for name in ("on_recreated", "on_replaced", "on_history_gap"):
            value = getattr(self, name)
            if value not in known:
                raise InvalidArgument(f"{name} is {value!r}; use one of {', '.join(known)}")
            object.__setattr__(self, name, Choice(value))

    def to_json(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in ("on_recreated", "on_replaced", "on_history_gap")}


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Condition and the two timers, with the meaning of Databricks' own triggers.

    `min_time_between_triggers` counts from the last time the policy fired, `wait_after_last_change` from the
    newest change: ready at ``max(last_fired + min_time, last_change + wait)``. Both default to zero.
    Raises InvalidArgument for a negative timer or an unknown condition.
    """

    condition: Condition = Condition.ANY_UPDATED
    min_time_between_triggers: timedelta = timedelta(0)
    wait_after_last_change: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        known = [member.value for member in Condition]
        if self.condition not in known:
            raise InvalidArgument(f"condition is {self.condition!r}; use one of {', '.join(known)}")
        object.__setattr__(self, "condition", Condition(self.condition))
        for name in ("min_time_between_triggers", "wait_after_last_change"):
            value = getattr(self, name)
            if not isinstance(value, timedelta):
                raise InvalidArgument(f"{name} is {value!r}; give a datetime.timedelta")
            if value < timedelta(0):
                raise InvalidArgument(f"{name} is {value.total_seconds():g} s; a timer cannot be negative")


@dataclass(frozen=True)
class Hold:
    """Not yet. `until` is when time alone would make it ready; None when only a change can."""

    until: datetime | None
    reason: str


@dataclass(frozen=True)
class Ready:
    """Fire now; `updated` names the sources that have something new, sorted."""

    updated: tuple[str, ...]
    reason: str


def decide(
    policy: Policy, changes: Mapping[str, datetime | None], last_fired_at: datetime | None, now: datetime
) -> Hold | Ready:
    """Decide from what changed.

    `changes` holds every source: the time of its newest change since it was last processed, or None when it has
    nothing new. Worked example: timers 120 s and 60 s, fired at 0, changes at 5 s and 115 s: ready at 175 s.
    """
    updated = tuple(sorted(name for name, at in changes.items() if at is not None))
    waiting_for = tuple(sorted(name for name, at in changes.items() if at is None))
    if not updated:
        return Hold(None, "nothing new in " + ", ".join(waiting_for))
    if policy.condition is Condition.ALL_UPDATED and waiting_for:
        return Hold(None, "ALL_UPDATED waits for " + ", ".join(waiting_for))
    # Clocks of other machines may be ahead of ours: a change, or a claim, "in the future" happened now. Without this a timer
    # of zero would hold, and a consumer would pass over data that is there.
    last_change_at = min(now, max(at for at in changes.values() if at is not None))
    settled_at = last_change_at + policy.wait_after_last_change
    if last_fired_at is not None:
        cooled_at = min(now, last_fired_at) + policy.min_time_between_triggers
        if now < cooled_at and cooled_at >= settled_at:
            return Hold(cooled_at, f"min_time_between_triggers holds until {cooled_at.isoformat()}")
    if now < settled_at:
        return Hold(settled_at, f"wait_after_last_change holds until {settled_at.isoformat()}")
    return Ready(updated, "new in " + ", ".join(updated))
