"""What a wait tells of the trigger behind it, and when: from readings given in the test."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from databricks_bridge.core.errors import NotFound, Throttled, TriggerPaused
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.feeds.trigger_watch import READ_EVERY, TriggerWatch
from tests.core.builders import NOW

WANTED = TriggeredRuns(job_id=7, triggers=frozenset({"FILE_ARRIVAL"}))
BY_NAME = TriggeredRuns(job_name="bronze", triggers=frozenset({"FILE_ARRIVAL"}))
SECOND = timedelta(seconds=1)


def job(pause_status: str) -> dict[str, Any]:
    trigger = {"file_arrival": {"url": "/Volumes/main/landing/files/"}, "pause_status": pause_status}
    return {"job_id": 7, "settings": {"name": "bronze", "trigger": trigger}}


class Readings:
    """A workspace that answers `jobs/get` from a script; an error is raised. The last one stays."""

    def __init__(self, *script: Any) -> None:
        self.script, self.asked = list(script), 0

    async def get_job(self, job_id: int, **flags: bool) -> Any:
        assert (job_id, flags) == (7, {"include_trigger_state": True, "include_trigger_history": True})
        self.asked += 1
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def test_a_job_is_read_every_ten_minutes_and_each_state_told_once(caplog: pytest.LogCaptureFixture) -> None:
    readings: Any = Readings(*[job("PAUSED")] * 2, job("UNPAUSED"), job("PAUSED"))
    watch, told = TriggerWatch(WANTED, "warn"), []
    for at in (0 * SECOND, SECOND, READ_EVERY - SECOND, READ_EVERY, 2 * READ_EVERY, 3 * READ_EVERY):
        await watch.look(readings, 7, (), NOW + at)
        told.append((readings.asked, len(caplog.messages)))
    assert told == [(1, 1), (1, 1), (1, 1), (2, 1), (3, 1), (4, 2)]


async def test_what_the_worker_has_told_is_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    first = TriggerWatch(WANTED, "warn")
    first.judge(job("PAUSED"), ())
    TriggerWatch(WANTED, "warn", sorted(first.told)).judge(job("PAUSED"), ())
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "failure",
    [Throttled("429"), RuntimeError("new to us"), TimeoutError(), KeyError("x")],
    ids=lambda one: type(one).__name__,
)
async def test_a_look_that_fails_is_only_logged_and_comes_again_later(
    caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    caplog.set_level(logging.INFO)
    readings: Any = Readings(failure, job("PAUSED"))
    watch = TriggerWatch(WANTED, "fail")
    await watch.look(readings, 7, (), NOW)
    await watch.look(readings, 7, (), NOW + SECOND)
    assert (readings.asked, len(caplog.messages)) == (1, 1)
    with pytest.raises(TriggerPaused, match="is paused"):
        await watch.look(readings, 7, (), NOW + READ_EVERY)


async def test_a_job_that_is_gone_ends_a_wait_by_id_and_not_one_by_name() -> None:
    """By name it is looked up anew, and may be another job by now."""
    gone: Any = Readings(NotFound("job 7 does not exist"))
    with pytest.raises(NotFound):
        await TriggerWatch(WANTED, "warn").look(gone, 7, (), NOW)
    await TriggerWatch(BY_NAME, "fail").look(gone, 7, (), NOW)


async def test_before_a_wait_is_failed_for_an_old_reading_the_job_is_read_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old, other = job("PAUSED"), job("PAUSED")
    readings: Any = Readings(Throttled("429"), job("UNPAUSED"), job("PAUSED"))
    watch = TriggerWatch(WANTED, "fail")
    await watch.confirm(readings, 7, old, under_way=(11,))
    assert readings.asked == 0
    for _ in range(4):
        await watch.confirm(readings, 7, old, ())
    assert readings.asked == 2, "once it could not be read; what was read then is believed"
    with pytest.raises(TriggerPaused):
        await watch.confirm(readings, 7, other, ())
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 2


async def test_the_last_words_fall_back_on_the_last_look() -> None:
    readings: Any = Readings(job("PAUSED"), Throttled("429"))
    watch = TriggerWatch(WANTED, "warn")
    assert watch.known_words() == ""
    await watch.look(readings, 7, (), NOW)
    assert "is paused" in await watch.last_words(readings, 7)
    assert readings.asked == 2
