"""Delta's interval texts: `interval 30 days`, `1 week`, `interval 168 hours`, `interval 1 day 12 hours`."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
    "microsecond": timedelta(microseconds=1),
}
_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+?)s?(?=[\s\d+-]|$)\s*")


def parse_interval(text: object) -> timedelta | None:
    """How long it is; None for what is no interval, or has months or years, which Delta does not take."""
    if not isinstance(text, str):
        return None
    rest = text.strip().lower().removeprefix("interval").strip().replace("'", "")
    total, at = timedelta(0), 0
    while found := _PART.match(rest, at):
        unit = _UNITS.get(found[2])
        if unit is None:
            return None
        try:
            total += float(found[1]) * unit
        except OverflowError:
            return timedelta.max
        at = found.end()
    return total if at == len(rest) and at > 0 and total >= timedelta(0) else None
