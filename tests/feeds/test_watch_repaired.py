"""A watcher beside a claim that waits for a person: silent, until its run was repaired in Databricks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.record import ClaimStatus, Record
from databricks_bridge.feeds.watch import Watch
from tests.core.builders import NOW, seconds, spec_of
from tests.core.driving import claim_of, running_record


class Told:
    """How the run stands, and how often that was asked."""

    def __init__(self, ending: Ending | None) -> None:
        self.ending, self.asked, self.now = ending, 0, NOW

    async def __call__(self, claim: Any) -> Ending | None:
        self.asked += 1
        return self.ending


def watch_of(record: Record, told: Told) -> Watch:
    async def read() -> Record:
        return record

    def now() -> datetime:
        return told.now

    nothing = cast("Any", None)  # nothing may be looked at
    return Watch(spec_of(), read, nothing, timedelta(seconds=60), now, lambda text: None, ending=told)


@pytest.mark.parametrize("status", [ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED])
@pytest.mark.parametrize("ending", [Ending.SUCCEEDED, Ending.ACTIVE])
async def test_a_repair_wakes_the_consumer(status: ClaimStatus, ending: Ending) -> None:
    record = running_record(status, failures=3)
    told = Told(Ending.FAILED)
    watch = watch_of(record, told)
    assert await watch.look() is None
    told.ending, told.now = ending, seconds(59)
    assert (await watch.look(), told.asked) == (None, 1), "asked once in resend_after"
    told.now = seconds(60)
    event = await watch.look()
    assert event is not None
    assert f"run {claim_of(record).run_id} of the {status} claim" in event["reason"]
    told.now = seconds(119)
    assert await watch.look() is None, "not again at once"
    told.now = seconds(125)
    assert await watch.look() is not None, "the consumer may have been lost"


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.NOTHING_RAN, None])
async def test_without_a_repair_it_is_silent(ending: Ending | None) -> None:
    told = Told(ending)
    watch = watch_of(running_record(ClaimStatus.BLOCKED, failures=3), told)
    for minute in range(5):
        told.now = seconds(60 * minute)
        assert await watch.look() is None
    assert told.asked == 5
