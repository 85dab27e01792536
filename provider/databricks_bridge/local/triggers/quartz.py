"""Quartz cron expressions, as `schedule.quartz_cron_expression` holds them: their fields, and the times they name.

Fields: second, minute, hour, day of month, month, day of week, and a year that may be left out (Quartz, CronTrigger
tutorial). One of the two days is `?`. Names and numbers; `,` `-` `/`; `L`, `LW`, `L-3`, `15W` of the month; `6L`, `6#3`
of the week, which begins on Sunday with 1.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from databricks_bridge.core.errors import InvalidArgument

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LAST_YEAR = 2199
_NOTHING = timedelta(0)
_YEARS_AHEAD = 40
"""How far to look for the next time: every pair of a 29 February and a day of the week comes within 40 years of 1901-2099."""

Days = Callable[[int, int], set[int]]
"""Year and month to the days of that month."""


@dataclass(frozen=True)
class Quartz:
    """A parsed expression. `days` gives the days that it names in a month."""

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    years: frozenset[int] | None
    days: Days

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quartz) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def next_after(self, after: datetime, zone: ZoneInfo) -> datetime | None:
        """The first time later than `after` (aware), in UTC; None when there is none.

        A local time that the clocks skip in spring has no run; one that comes twice in autumn has one, the first.
        """
        local = after.astimezone(zone).replace(tzinfo=None)
        return next((at for at in self._slots(local, zone) if at > after), None)

    def last_between(self, after: datetime, until: datetime, zone: ZoneInfo) -> datetime | None:
        """The last time later than `after` and no later than `until`, in UTC; None when there is none.

        It is looked for from `until` backwards, so that it costs the same however many times lie between the two.
        """
        local = until.astimezone(zone)
        latest = local.replace(tzinfo=None)
        if local.fold:
            # The second pass through an hour: all of its times were in the first, also those the clock shows next.
            latest += (local.replace(fold=0).utcoffset() or _NOTHING) - (local.utcoffset() or _NOTHING)
        for at in self._slots(latest, zone, backwards=True):
            if at <= after:
                return None
            if at <= until:
                return at
        return None

    def _slots(self, start: datetime, zone: ZoneInfo, *, backwards: bool = False) -> Iterator[datetime]:
        """The times in UTC from the local time `start` on, or back; what the local clock skips is left out.

        A local time that comes twice is its first, so the order of local times is that of UTC.
        """
        for naive in self._times(start, backwards):
            at = naive.replace(tzinfo=zone).astimezone(UTC)
            if at.astimezone(zone).replace(tzinfo=None) == naive:
                yield at

    def _times(self, start: datetime, backwards: bool) -> Iterator[datetime]:
        away = -_YEARS_AHEAD if backwards else _YEARS_AHEAD
        near = range(min(start.year, start.year + away), max(start.year, start.year + away) + 1)
        for year in _onwards(near if self.years is None else self.years, start.year, backwards):
            for month in _onwards(self.months, start.month if year == start.year else None, backwards):
                in_month = (year, month) == (start.year, start.month)
                for number in _onwards(self.days(year, month), start.day if in_month else None, backwards):
                    day = date(year, month, number)
                    yield from self._times_of(day, start if day == start.date() else None, backwards)

    def _times_of(self, day: date, start: datetime | None, backwards: bool) -> Iterator[datetime]:
        for hour in _onwards(self.hours, start.hour if start else None, backwards):
            in_hour = start is not None and hour == start.hour
            for minute in _onwards(self.minutes, start.minute if start and in_hour else None, backwards):
                in_minute = in_hour and start is not None and minute == start.minute
                for second in _onwards(self.seconds, start.second if start and in_minute else None, backwards):
                    yield datetime.combine(day, time(hour, minute, second))


def _onwards(numbers: Iterable[int], start: int | None, backwards: bool) -> list[int]:
    """The numbers in order from `start` on, itself included, or back from it; all of them where it is None."""
    inside = [n for n in numbers if start is None or (n <= start if backwards else n >= start)]
    return sorted(inside, reverse=backwards)


def parse_quartz(text: str) -> Quartz:
    """Raises InvalidArgument, which names the field that cannot be."""
    fields = text.upper().split()
    if len(fields) not in (6, 7):
        raise InvalidArgument(
            f"{text!r} is no quartz cron expression: it has {len(fields)} fields, not 6 or 7 (second minute hour "
            "day-of-month month day-of-week [year])"
        )
    second, minute, hour, day_of_month, month, day_of_week, *year = fields
    if (day_of_month == "?") == (day_of_week == "?"):
        raise InvalidArgument(f"{text!r}: exactly one of day-of-month and day-of-week must be '?'")
    return Quartz(
        text=" ".join(fields),
        seconds=tuple(sorted(_numbers(text, "second", second, 0, 59))),
        minutes=tuple(sorted(_numbers(text, "minute", minute, 0, 59))),
        hours=tuple(sorted(_numbers(text, "hour", hour, 0, 23))),
        months=frozenset(_numbers(text, "month", month, 1, 12, _MONTHS)),
        years=frozenset(_numbers(text, "year", year[0], 1970, _LAST_YEAR)) if year and year[0] != "*" else None,
        days=_days_of_month(text, day_of_month) if day_of_week == "?" else _days_of_week(text, day_of_week),
    )


def _numbers(text: str, field: str, value: str, least: int, most: int, names: tuple[str, ...] = ()) -> set[int]:
    found: set[int] = set()
    for part in value.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "") and (slash or span):
            low, high = least, most
        else:
            low = _number(text, field, first, least, most, names)
            high = _number(text, field, last, least, most, names) if dash else most if slash else low
        if slash and (not _is_number(step) or not 1 <= int(step) <= most):
            raise InvalidArgument(f"{text!r}: the {field} {part!r} has a step that is not from 1 to {most}")
        # FRI-MON goes over the end of the week, and 22-2 over midnight.
        size = most - least + 1
        width = (high - low) % size
        found |= {(low - least + offset) % size + least for offset in range(0, width + 1, int(step or 1))}
    return found


def _number(text: str, field: str, value: str, least: int, most: int, names: tuple[str, ...] = ()) -> int:
    if value in names:
        return names.index(value) + least
    if _is_number(value) and least <= int(value) <= most:
        return int(value)
    raise InvalidArgument(f"{text!r}: the {field} {value!r} is not from {least} to {most}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 5


def _days_of_month(text: str, value: str) -> Days:
    if value.endswith("W"):
        wanted = value[:-1]
        number = 0 if wanted == "L" else _number(text, "day-of-month", wanted, 1, 31)
        return lambda year, month: _nearest_weekday(year, month, number)
    if match := re.fullmatch(r"L(?:-(\d{1,2}))?", value):
        before = _number(text, "day-of-month", match[1], 1, 30) if match[1] else 0
        return lambda year, month: {day for day in (monthrange(year, month)[1] - before,) if day >= 1}
    wanted_days = _numbers(text, "day-of-month", value, 1, 31)
    return lambda year, month: {day for day in wanted_days if day <= monthrange(year, month)[1]}


def _nearest_weekday(year: int, month: int, number: int) -> set[int]:
    """The working day nearest to day `number` of the month, in the same month; 0 is the last day."""
    last = monthrange(year, month)[1]
    number = number or last
    if number > last:
        return set()
    weekday = date(year, month, number).isoweekday()
    if weekday == 6:
        return {number - 1 if number > 1 else number + 2}
    if weekday == 7:
        return {number + 1 if number < last else number - 2}
    return {number}


def _days_of_week(text: str, value: str) -> Days:
    if match := re.fullmatch(r"(\w+)#([1-5])", value):
        day, place = _number(text, "day-of-week", match[1], 1, 7, _DAYS), int(match[2])
        return lambda year, month: set(_on(year, month, {day})[place - 1 : place])
    if value == "L":
        return lambda year, month: set(_on(year, month, {7}))
    if match := re.fullmatch(r"(\w+)L", value):
        last = _number(text, "day-of-week", match[1], 1, 7, _DAYS)
        return lambda year, month: set(_on(year, month, {last})[-1:])
    wanted = _numbers(text, "day-of-week", value, 1, 7, _DAYS)
    return lambda year, month: set(_on(year, month, wanted))


def _on(year: int, month: int, wanted: set[int]) -> list[int]:
    """The days of the month that are on `wanted` days of the week, ascending; Sunday is 1."""
    days = range(1, monthrange(year, month)[1] + 1)
    return [day for day in days if date(year, month, day).isoweekday() % 7 + 1 in wanted]
