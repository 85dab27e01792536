from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databricks_bridge.core import errors
from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    HistoryGap,
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    RunFailed,
    Throttled,
    Unavailable,
)
from databricks_bridge.triggers.polling import REFUSALS_BORNE, PollingTrigger, raise_for

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOMORROW = (NOW + timedelta(days=1)).isoformat()
DONE = {"run_id": 1}


class Scripted(PollingTrigger):
    """Polls what the script says: a payload, None, or an error; at its end nothing more happens. Time is counted."""

    def __init__(self, *script: Any, poll_interval: Any = 10.0, deadline: Any = TOMORROW) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.script = list(script)
        self.polls = 0
        self.slept: list[float] = []
        self._now: Callable[[], datetime] = lambda: NOW + timedelta(seconds=sum(self.slept))
        self._sleep = self.pause

    async def pause(self, seconds: float) -> None:
        self.slept.append(seconds)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("scripted", {})

    async def _poll(self) -> dict[str, Any] | None:
        self.polls += 1
        now = self.script.pop(0) if self.script else None
        if isinstance(now, Exception):
            raise now
        return now if now is None else dict(now)


async def event_of(trigger: Scripted) -> dict[str, Any]:
    events = [event.payload async for event in trigger.run()]
    assert len(events) == 1
    payload: dict[str, Any] = events[0]
    return payload


async def test_the_first_payload_ends_the_wait() -> None:
    trigger = Scripted(None, None, DONE, DONE)
    assert await event_of(trigger) == {"status": "ready", "deadline": trigger.deadline, "run_id": 1}
    assert (trigger.polls, trigger.slept) == (3, [10.0, 10.0])


@pytest.mark.parametrize(
    "trouble",
    [
        [Unavailable("502")] * 10,
        [Throttled("429", retry_after=7)] * 10,
        [NotAuthenticated("401")],
        [NotPermitted("403")],
        [NotAuthenticated("401"), NotPermitted("403"), None] * 5,
        [RuntimeError("new to us"), KeyError("x"), OSError(), TypeError("y")] * 3,
        [Unavailable("502"), NotAuthenticated("401"), ValueError("z")],
        [BadAnswer("a log-in page")] * (REFUSALS_BORNE - 1),
    ],
    ids=["unavailable", "throttled", "one 401", "one 403", "refusals apart", "unexpected", "mixed", "bad answers"],
)
async def test_a_wait_outlives_trouble(trouble: list[Any]) -> None:
    trigger = Scripted(*trouble, DONE)
    assert (await event_of(trigger))["status"] == "ready"
    assert trigger.polls == len(trouble) + 1


@pytest.mark.parametrize(
    "error",
    [NotFound("no table", status=404), InvalidArgument("no connection"), HistoryGap("cut")],
)
async def test_an_error_that_waiting_cannot_mend_ends_it_at_once(error: BridgeError) -> None:
    trigger = Scripted(error, DONE)
    event = await event_of(trigger)
    assert (event["status"], event["error"], event["message"]) == ("error", type(error).__name__, str(error))
    assert trigger.polls == 1
    with pytest.raises(type(error)):
        raise_for(event)


@pytest.mark.parametrize("error", [NotAuthenticated("401"), NotPermitted("403"), BadAnswer("a log-in page")])
async def test_refusals_in_a_row_end_it(error: BridgeError) -> None:
    trigger = Scripted(*[error] * 20)
    event = await event_of(trigger)
    assert (event["status"], event["error"]) == ("error", type(error).__name__)
    assert trigger.polls == REFUSALS_BORNE


@pytest.mark.parametrize(
    "trouble", [[], [Unavailable("502")] * 100, [RuntimeError("x")] * 100], ids=["nothing", "unavailable", "unexpected"]
)
async def test_the_deadline_is_absolute(trouble: list[Any]) -> None:
    trigger = Scripted(*trouble, deadline=(NOW + timedelta(seconds=25)).isoformat())
    assert await event_of(trigger) == {"status": "deadline", "deadline": trigger.deadline}
    assert trigger.slept == [10.0, 10.0, 5.0]
    assert trigger.polls == 4


async def test_after_a_restart_beyond_the_deadline_there_is_one_more_look() -> None:
    past = (NOW - timedelta(hours=1)).isoformat()
    assert (await event_of(Scripted(DONE, deadline=past)))["status"] == "ready"
    assert (await event_of(Scripted(deadline=past)))["status"] == "deadline"


async def test_a_look_that_hangs_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databricks_bridge.triggers.polling.LAST_LOOK_SECONDS", 0.05)

    class Hanging(Scripted):
        async def _poll(self) -> dict[str, Any] | None:
            await asyncio.Event().wait()
            return None

    assert (await event_of(Hanging(deadline=NOW.isoformat())))["status"] == "deadline"


@pytest.mark.parametrize("deadline", [None, "", "soon", 5, [], "2026-01-02T00:00:00"], ids=str)
async def test_a_deadline_that_is_no_time_ends_the_wait_and_never_raises(deadline: Any) -> None:
    assert (await event_of(Scripted(deadline=deadline)))["status"] == "deadline"


@pytest.mark.parametrize("interval", [0, -5, None, "often"], ids=str)
async def test_an_interval_that_is_none_neither_raises_nor_spins(interval: Any) -> None:
    """Arguments stored by another release must not kill the trigger, nor make it ask without a pause."""
    trigger = Scripted(None, None, DONE, poll_interval=interval)
    assert (await event_of(trigger))["status"] == "ready"
    assert all(seconds > 0 for seconds in trigger.slept)


ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BridgeError)]


def made(kind: type[BridgeError]) -> BridgeError:
    return RunFailed("what happened", run_id=11) if kind is RunFailed else kind("what happened")


@pytest.mark.parametrize("kind", ALL)
async def test_every_error_is_rebuilt_as_its_own_type(kind: type[BridgeError]) -> None:
    error = made(kind)
    event = await event_of(Scripted(*[error] * 10, deadline=(NOW + timedelta(seconds=55)).isoformat()))
    if issubclass(kind, Unavailable):
        assert event["status"] == "deadline"
        return
    with pytest.raises(kind, match="what happened") as raised:
        raise_for(event)
    assert type(raised.value) is kind


@pytest.mark.parametrize("name", ["Exception", "annotations", "SystemExit", "NoSuchError", "", None, 5])
def test_a_name_that_is_no_error_of_ours_is_a_bridge_error(name: Any) -> None:
    with pytest.raises(BridgeError, match="what happened"):
        raise_for({"status": "error", "error": name, "message": "what happened"})


def test_other_events_raise_nothing() -> None:
    for status in ("ready", "deadline"):
        raise_for({"status": status})


@pytest.mark.parametrize("text", ["cut in an emoji \ud83d", "NUL \0", "long " + "x" * 200_000, "\ud83d" * 200_000])
async def test_whatever_an_error_says_its_event_can_be_written(text: str) -> None:
    """The triggerer hands events on as UTF-8 (msgspec): half a character would end the process of all triggers."""
    event = await event_of(Scripted(NotFound(f"no table: {text}", status=404), DONE))
    written = json.dumps(event, ensure_ascii=False).encode()
    assert len(written) < 5000
    assert b"\\u0000" not in written
    with pytest.raises(NotFound, match="no table"):
        raise_for(event)
