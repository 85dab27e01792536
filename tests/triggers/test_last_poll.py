"""When a look was last answered is shown as a metric, so that staleness can be alerted on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.observability import stats

from databricks_bridge.core.errors import NotAuthenticated, NotFound, Unavailable
from databricks_bridge.triggers import last_poll
from databricks_bridge.triggers.last_poll import note_poll
from tests.triggers.test_polling import DONE, NOW, Scripted, event_of
from tests.triggers.test_watch import NEW, Looks, events, watcher

START = int(NOW.timestamp())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[float, str]]]:
    """Value and trigger of each gauge that was sent."""
    lines: list[tuple[float, str]] = []

    def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
        if name == "databricks_bridge.poll.last":
            lines.append((value, tags["trigger"]))

    monkeypatch.setattr(stats, "gauge", gauge)
    last_poll._sent.clear()
    yield lines
    last_poll._sent.clear()


async def test_E07_each_look_that_is_answered_is_told_with_its_time(sent: list[tuple[float, str]]) -> None:
    await event_of(Scripted(None, None, DONE))
    assert sent == [(START, "Scripted"), (START + 10, "Scripted"), (START + 20, "Scripted")]


@pytest.mark.parametrize("trouble", [Unavailable("502"), NotAuthenticated("401"), RuntimeError("x")], ids=str)
async def test_E07_a_look_that_fails_leaves_the_time_as_it_was(sent: list[tuple[float, str]], trouble: Any) -> None:
    await event_of(Scripted(None, trouble, trouble, trouble, DONE))
    assert sent == [(START, "Scripted"), (START + 40, "Scripted")]


async def test_E07_an_error_that_ends_the_wait_is_no_answer(sent: list[tuple[float, str]]) -> None:
    await event_of(Scripted(NotFound("no table", status=404)))
    assert sent == []


async def test_E07_a_watcher_tells_it_too(sent: list[tuple[float, str]]) -> None:
    trigger, _, _ = watcher(Looks(Unavailable("502"), NEW))
    await events(trigger, 1)
    assert sent == [(int(trigger._now().timestamp()), "SubscriptionWatchTrigger")]
    assert sent[0][0] > START, "the look that failed came first"


def test_E07_a_thousand_answers_in_a_second_are_one_line_for_each_class(sent: list[tuple[float, str]]) -> None:
    for number in range(1000):
        note_poll("RunTrigger", NOW + timedelta(milliseconds=number))
        note_poll("PauseTrigger", NOW)
    note_poll("RunTrigger", NOW + timedelta(seconds=1))
    note_poll("RunTrigger", NOW - timedelta(seconds=5))
    assert sent == [
        (START, "RunTrigger"),
        (START, "PauseTrigger"),
        (START + 1, "RunTrigger"),
        (START - 5, "RunTrigger"),
    ]
