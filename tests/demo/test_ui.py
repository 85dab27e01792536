"""Progress where there is no terminal: plain lines, and never a long silence."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from demo.ui import PLAIN_SILENCE, Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def progress(clock: Clock) -> tuple[Progress, io.StringIO]:
    output = io.StringIO()
    return Progress(Console(file=output, width=100), clock), output


def test_a_leg_is_announced_and_timed(clock: Clock) -> None:
    shown, output = progress(clock)
    with shown.leg("bronze"):
        clock.now = 2.5
    assert output.getvalue() == "   0.0 ... bronze\n   2.5  ok bronze  (2.5 s)\n"
    assert shown.legs == [("bronze", 2.5)]


def test_unchanged_detail_is_repeated_so_that_no_minute_is_silent(clock: Clock) -> None:
    shown, output = progress(clock)
    with shown.leg("airflow"):
        for second in range(61):
            clock.now = float(second)
            shown.now("waiting")
    lines = [line for line in output.getvalue().splitlines() if line.endswith("waiting")]
    assert len(lines) == 1 + 60 // int(PLAIN_SILENCE)


def test_a_leg_that_failed_says_so_and_is_not_timed(clock: Clock) -> None:
    shown, output = progress(clock)
    with pytest.raises(ValueError, match="no"), shown.leg("gold"):
        raise ValueError("no")
    assert "  x gold" in output.getvalue()
    assert shown.legs == []


def test_brackets_are_text_not_markup(clock: Clock) -> None:
    shown, output = progress(clock)
    with shown.leg("a [b] c"):
        shown.now("(1, 2] [red]")
    assert "a [b] c" in output.getvalue()
    assert "(1, 2] [red]" in output.getvalue()
