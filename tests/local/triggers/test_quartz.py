"""Quartz expressions against times worked out by hand with a calendar."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.triggers.quartz import Quartz, parse_quartz
from databricks_bridge.local.triggers.schedule import decide_schedule
from databricks_bridge.local.triggers.settings import Schedule

SUNDAY_NOON = "2026-03-01T12:00:00"


def times(expression: str, after: str, count: int, zone: str = "UTC") -> list[str]:
    """The next `count` times after a local time, as local times with their offset."""
    place, quartz = ZoneInfo(zone), parse_quartz(expression)
    at: datetime | None = datetime.fromisoformat(after).replace(tzinfo=place).astimezone(UTC)
    found = []
    for _ in range(count):
        assert at is not None
        at = quartz.next_after(at, place)
        found.append("never" if at is None else at.astimezone(place).isoformat())
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 12 * * ?", ["2026-03-02T12:00", "2026-03-03T12:00"]),
        ("30 15 10 ? * MON-FRI", ["2026-03-02T10:15:30", "2026-03-03T10:15:30"]),
        ("0 0/20 13 * * ?", ["2026-03-01T13:00", "2026-03-01T13:20", "2026-03-01T13:40", "2026-03-02T13:00"]),
        ("0 0 0 1,15 * ?", ["2026-03-15T00:00", "2026-04-01T00:00"]),
        ("0 0 0 L * ?", ["2026-03-31T00:00", "2026-04-30T00:00"]),
        ("0 0 0 L-2 * ?", ["2026-03-29T00:00", "2026-04-28T00:00"]),
        ("0 0 0 LW * ?", ["2026-03-31T00:00", "2026-04-30T00:00", "2026-05-29T00:00"]),
        ("0 0 0 15W * ?", ["2026-03-16T00:00", "2026-04-15T00:00"]),
        ("0 0 0 1W 8 ?", ["2026-08-03T00:00"]),
        ("0 0 0 31W * ?", ["2026-03-31T00:00", "2026-05-29T00:00"]),
        ("0 0 0 ? * 6L", ["2026-03-27T00:00", "2026-04-24T00:00"]),
        ("0 0 0 ? * FRIL", ["2026-03-27T00:00", "2026-04-24T00:00"]),
        ("0 0 0 ? * 2#1", ["2026-03-02T00:00", "2026-04-06T00:00"]),
        ("0 0 0 ? * MON#5", ["2026-03-30T00:00", "2026-06-29T00:00"]),
        ("0 0 0 ? * L", ["2026-03-07T00:00", "2026-03-14T00:00"]),
        ("0 0 0 ? * FRI-MON", ["2026-03-02T00:00", "2026-03-06T00:00", "2026-03-07T00:00", "2026-03-08T00:00"]),
        ("0 0 22-2 * * ?", ["2026-03-01T22:00", "2026-03-01T23:00", "2026-03-02T00:00"]),
        ("0 0 0 29 FEB ?", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 0 1 JAN ? 2027-2028", ["2027-01-01T00:00", "2028-01-01T00:00", "never"]),
        ("0 0 0 30 2 ?", ["never"]),
        ("0 0 0 1 1 ? 2025", ["never"]),
        ("*/20 * * * * ?", ["2026-03-01T12:00:20", "2026-03-01T12:00:40", "2026-03-01T12:01"]),
    ],
)
def test_the_next_times(expression: str, expected: list[str]) -> None:
    whole = [at if at == "never" else datetime.fromisoformat(at + "+00:00").isoformat() for at in expected]
    assert times(expression, SUNDAY_NOON, len(expected)) == whole


def test_it_is_told_in_its_own_time_zone_on_both_sides_of_the_change_of_clocks() -> None:
    assert times("0 0 8 * * ?", "2026-03-28T12:00:00", 2, "Europe/Berlin") == [
        "2026-03-29T08:00:00+02:00",
        "2026-03-30T08:00:00+02:00",
    ]
    assert times("0 0 8 * * ?", "2026-03-27T12:00:00", 1, "Europe/Berlin") == ["2026-03-28T08:00:00+01:00"]


def test_a_local_time_that_is_skipped_has_no_run_and_one_that_comes_twice_has_one() -> None:
    assert times("0 30 2 * * ?", "2026-03-28T12:00:00", 1, "Europe/Berlin") == ["2026-03-30T02:30:00+02:00"]
    assert times("0 30 2 * * ?", "2026-10-24T12:00:00", 2, "Europe/Berlin") == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


WINDOWS = [
    # The clocks go on, and back: Europe by an hour, Lord Howe by half of one; Samoa left a day out.
    ("Europe/Berlin", "2026-03-29T00:50:00", "2026-03-29T01:10:00"),
    ("Europe/Berlin", "2026-10-25T00:20:00", "2026-10-25T00:50:00"),
    ("Europe/Berlin", "2026-10-25T00:20:00", "2026-10-25T01:05:00"),
    ("Europe/Berlin", "2026-10-25T00:59:59", "2026-10-25T01:00:00"),
    ("Australia/Lord_Howe", "2026-04-04T14:45:00", "2026-04-04T15:20:00"),
    ("Pacific/Apia", "2011-12-30T09:00:00", "2011-12-30T10:30:00"),
    ("UTC", "2026-02-28T23:59:00", "2026-03-01T00:01:00"),
    ("UTC", "2025-12-31T23:30:00", "2026-01-01T00:00:00"),
    ("Asia/Kolkata", "2026-03-01T12:00:00", "2026-03-01T12:00:30"),
]


@pytest.mark.parametrize(("zone", "after", "until"), WINDOWS)
@pytest.mark.parametrize(
    "expression",
    [
        "*/7 * * * * ?", "0 0/5 * * * ?", "30 20,40 * * * ?", "0 30 2 * * ?", "0 0 0 L * ?", "0 0 0 1 1 ? 2026",
        "0 * 2 ? * SUN", "59 59 23 * * ?",
    ],
)  # fmt: skip
def test_the_last_time_is_the_one_that_walking_on_would_come_to(
    expression: str, zone: str, after: str, until: str
) -> None:
    place, quartz = ZoneInfo(zone), parse_quartz(expression)
    first, end = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (after, until))
    last, at = None, quartz.next_after(first, place)
    while at is not None and at <= end:
        last, at = at, quartz.next_after(at, place)
    assert quartz.last_between(first, end, place) == last


@pytest.mark.parametrize("expression", ["* * * * * ?", "*/10 * * * * ?", "0 * * * * ?", "0 0 12 * * ?", "0 0 0 29 2 ?"])
@pytest.mark.parametrize("missed", [timedelta(seconds=30), timedelta(hours=1), timedelta(days=1), timedelta(days=3000)])
def test_what_was_missed_costs_the_same_however_much_it_is(
    monkeypatch: pytest.MonkeyPatch, expression: str, missed: timedelta
) -> None:
    computed = 0
    times_of = Quartz._times

    def counted(self: Quartz, *given: Any) -> Iterator[datetime]:
        nonlocal computed
        for at in times_of(self, *given):
            computed += 1
            yield at

    monkeypatch.setattr(Quartz, "_times", counted)
    since = datetime(2026, 11, 1, 6, 0, 0, 500_000, tzinfo=UTC)
    schedule = Schedule(parse_quartz(expression), ZoneInfo("Europe/Berlin"))
    decide_schedule(schedule, None, since + missed, since)
    assert 1 <= computed <= 4


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("0 12 * * ?", "has 5 fields"),
        ("0 0 12 * * *", "exactly one of day-of-month and day-of-week must be"),
        ("0 0 12 ? * ?", "exactly one of"),
        ("0 60 12 * * ?", "the minute '60' is not from 0 to 59"),
        ("0 0 24 * * ?", "the hour '24'"),
        ("0 0 0 32 * ?", "the day-of-month '32'"),
        ("0 0 0 ? * 8", "the day-of-week '8' is not from 1 to 7"),
        ("0 0 0 ? * 0", "the day-of-week '0'"),
        ("0 0 0 ? FOO MON", "the month 'FOO'"),
        ("0 0/0 0 * * ?", "has a step that is not"),
        ("0 /x 0 * * ?", "has a step that is not"),
        ("0 , 0 * * ?", "the minute ''"),
        ("0 ? 0 * * ?", "the minute '?'"),
        ("0 0 0 L-31 * ?", "the day-of-month '31' is not from 1 to 30"),
        ("0 0 0 ? * 2#6", "the day-of-week '2#6'"),
        ("", "has 0 fields"),
        ("0 0 ² * * ?", "the hour '²' is not from 0 to 23"),
        ("0 0 ٣ * * ?", "the hour '٣' is not from 0 to 23"),
        ("0 0/² * * * ?", "has a step that is not"),
        ("0 0/٣ * * * ?", "has a step that is not"),
        ("0 0 12 L-² * ?", "the day-of-month 'L'"),
        ("0 0 12 L-٣ * ?", "the day-of-month '٣'"),
        ("0 0 12 ²W * ?", "the day-of-month '²'"),
        ("0 0 12 ? * ²#1", "the day-of-week '²'"),
        ("0 0 12 ? * 2#²", "the day-of-week '2#²'"),
        ("0 0 12 ? * ²L", "the day-of-week '²'"),
        ("0 0 12 * * ? ٢٠٢٦", "the year '٢٠٢٦'"),
    ],
)
def test_what_is_no_quartz_expression_says_where(expression: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why.replace("?", r"\?")):
        parse_quartz(expression)
