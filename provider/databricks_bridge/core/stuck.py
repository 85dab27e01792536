"""A claim that is open for longer than its run should take: nothing is lost, but nothing goes on either."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from databricks_bridge.core.closing import closed
from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.record import Claim, Record

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TIME = re.compile(r"(?:\d+[dhms])+")


@dataclass(frozen=True)
class StuckClaim:
    """An open claim past its expected time, as `on_stuck_claim` is told of it. `str()` is a message for people.

    `claim` has `run_id` (None before a run is known), `status`, `generation`, `target`, `ranges`.
    """

    subscription: str
    claim: Claim
    age: timedelta
    expected: timedelta

    def __str__(self) -> str:
        target = self.claim.target
        run = f"run {self.claim.run_id}" if self.claim.run_id is not None else "no run yet"
        who = f"{run} of {target}" if target.job_id else target.host  # around other tasks there is no job
        return (
            f"subscription {self.subscription!r} has its {self.claim.status} claim on {self.claim} for "
            f"{shown_time(self.age)}, {shown_time(self.expected)} were expected: {who}, "
            f"generation {self.claim.generation}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "subscription": self.subscription,
            "claim": self.claim.to_json(),
            "age": self.age.total_seconds(),
            "expected": self.expected.total_seconds(),
        }


def due_since(record: Record | None) -> datetime | None:
    """Since when the open claim's generation could have its run, None without a claim, and where it went to another ledger."""
    claim = record.claim if record is not None else None
    if record is None or claim is None or closed(record) is not None:
        return None
    return claim.created_at if claim.not_before is None else max(claim.created_at, claim.not_before)


def claim_age(record: Record | None, now: datetime) -> timedelta:
    """How long ago that was; zero without a claim, and while a pause keeps it from starting."""
    since = due_since(record)
    return timedelta(0) if since is None else max(now - since, timedelta(0))


def stuck_claim(record: Record | None, expected: timedelta | None, now: datetime) -> StuckClaim | None:
    """The claim of this record where it is open for `expected` or longer, whatever its status; else None."""
    age = claim_age(record, now)
    if record is None or record.claim is None or due_since(record) is None or expected is None or age < expected:
        return None
    return StuckClaim(record.subscription, record.claim, age, expected)


def parse_time(text: str) -> timedelta:
    """`2h`, `90m`, `1d12h`, `45s`. Raises InvalidArgument."""
    if not _TIME.fullmatch(text):
        raise InvalidArgument(f"{text!r} is no length of time; write it like 45s, 90m, 2h or 1d12h")
    parts = re.findall(r"(\d+)([dhms])", text)
    try:
        time = sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta(0))
    except OverflowError:
        time = timedelta(0)
    if time <= timedelta(0):
        raise InvalidArgument(f"{text!r} is no length of time that can be waited for")
    return time


def shown_time(time: timedelta) -> str:
    """The same for people, to the second, the two largest units: `1d12h`, `2h`, `5m30s`."""
    rest, parts = int(time.total_seconds()), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
