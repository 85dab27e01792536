"""What a trigger counts from when it is set, set again during its look, or looked at after a crash."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.local.triggers.evaluation import Evaluator
from databricks_bridge.local.triggers.outcome import Outcome
from tests.local.triggers.port import BEGINNING
from tests.local.triggers.site import FLIGHTS, URL, Site, on_files, on_tables


async def test_what_comes_between_the_making_of_a_job_and_the_first_look_is_not_lost(site: Site) -> None:
    site.drop("before.json")
    site.write(FLIGHTS, 1)
    site.jobs.put(1, on_files())
    site.jobs.put(2, on_tables(FLIGHTS))
    site.jobs.put(3, {"trigger": {"job_completion": {"jobs": [{"workspace_id": "1001", "job_id": "11"}]}}})
    site.jobs.put(4, on_files())
    site.jobs.put(5, on_tables(FLIGHTS))
    await site.until(1)
    assert site.fired() == []
    for job_id, settings in ((1, on_files()), (2, on_tables(FLIGHTS)), (3, site.jobs.jobs[3].settings)):
        site.jobs.put(job_id, settings)
    site.clock.at += 0.02
    site.drop("early.json")
    site.write(FLIGHTS, 2)
    site.jobs.end(11, 700, "SUCCESS", site.clock.at)
    # Made after them: for these they are what was there before.
    site.jobs.put(4, on_files())
    site.jobs.put(5, on_tables(FLIGHTS))
    await site.scheduler.tick()
    assert site.fired() == [1, 2, 3]
    await site.until(200)
    assert site.fired() == [1, 2, 3]


async def test_a_resumed_trigger_does_not_lose_what_comes_before_its_first_look(site: Site) -> None:
    paused = on_files()
    paused["trigger"]["pause_status"] = "PAUSED"
    site.jobs.put(1, paused)
    await site.until(1)
    site.drop("during.json")
    site.jobs.put(1, on_files())
    await site.scheduler.tick()
    assert site.fired() == []
    site.jobs.put(1, paused)
    site.jobs.put(1, on_files())
    site.clock.at += 0.02
    site.drop("resumed.json")
    await site.scheduler.tick()
    assert site.fired() == [1]


@pytest.mark.parametrize("fires", [True, False])
async def test_a_trigger_replaced_during_its_look_starts_from_its_own_baseline(
    site: Site, monkeypatch: pytest.MonkeyPatch, fires: bool
) -> None:
    """It is taken away and set back to the very same while the files are listed."""
    site.jobs.put(1, on_files())
    await site.until(1)
    if fires:
        site.drop("old.json")
    evaluate = Evaluator.evaluate

    async def slowly(self: Evaluator, *arguments: Any) -> Outcome:
        outcome = await evaluate(self, *arguments)
        site.jobs.put(1, on_files(wait_after_last_change_seconds=60))
        site.jobs.put(1, on_files())
        monkeypatch.undo()
        return outcome

    monkeypatch.setattr(Evaluator, "evaluate", slowly)
    site.clock.at = BEGINNING + 62
    await site.scheduler.tick()
    assert site.fired() == []
    assert site.jobs.trigger_state(1) is None
    site.clock.at += 0.02
    site.drop("new.json")
    await site.scheduler.tick()
    assert site.fired() == [1]
    assert site.jobs.state(1)["history"]["last_triggered"]["description"] == f"1 new file(s) in {URL}"


async def test_completions_in_another_metastore_are_not_heard(site: Site) -> None:
    jobs = [{"workspace_id": "1002", "job_id": "11"}]
    site.jobs.put(1, {"trigger": {"job_completion": {"jobs": jobs}}})
    await site.until(1)
    site.jobs.end(11, 700, "SUCCESS", site.clock.at, workspace_id="1002", metastore="met")
    await site.until(90)
    assert site.fired() == []
    site.jobs.end(11, 701, "SUCCESS", site.clock.at, workspace_id="1002", metastore="ops")
    await site.until(91)
    assert site.fired() == [1]


async def test_an_end_that_a_crash_kept_from_being_told_is_heard_once_after_it(site: Site) -> None:
    site.jobs.put(1, {"trigger": {"job_completion": {"jobs": [{"workspace_id": "1001", "job_id": "11"}]}}})
    await site.until(1)
    site.jobs.end(11, 700, "SUCCESS", site.clock.at)
    await site.until(2)
    site.jobs.end(11, 701, "SUCCESS", site.clock.at, heard=False)
    site.scheduler = site.new_scheduler()
    await site.until(3)
    assert site.fired() == [1, 1]
    site.scheduler = site.new_scheduler()
    await site.until(300)
    assert site.fired() == [1, 1]
