"""Schedules and lists of triggers over the loop, with a clock that the test moves. It begins on a Sunday at 12:00 UTC."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.local.triggers.port import BEGINNING
from tests.local.triggers.site import FLIGHTS, URL, Site, on_files, on_tables


def schedule(expression: str, zone: str = "UTC", **more: str) -> dict[str, Any]:
    return {"schedule": {"quartz_cron_expression": expression, "timezone_id": zone, **more}}


def fired_at(site: Site) -> list[str]:
    """The scheduled times that the runs were given, without their date."""
    return [run.context["time.iso_datetime"].partition("T")[2][:8] for run in site.jobs.started]


async def test_a_schedule_fires_at_its_times_and_says_which(site: Site) -> None:
    site.jobs.put(1, schedule("0 0/5 * * * ?"))
    await site.until(299)
    assert site.fired() == []
    await site.until(301)
    assert fired_at(site) == ["12:05:00"]
    assert site.jobs.started[0].trigger == "PERIODIC"
    assert int(site.jobs.started[0].context["time.timestamp_ms"]) == round((BEGINNING + 300) * 1000)
    await site.until(1000)
    assert fired_at(site) == ["12:05:00", "12:10:00", "12:15:00"]
    history = site.jobs.state(1)["history"]
    assert history["last_not_triggered"]["description"] == "the next run is due at 2026-03-01T12:20:00+00:00"


async def test_a_schedule_is_told_in_its_time_zone(site: Site) -> None:
    site.jobs.put(1, schedule("0 1 21 ? * SUN", "Asia/Tokyo"))
    site.jobs.put(2, schedule("0 1 21 ? * SUN", "UTC"))
    await site.until(120)
    assert site.fired() == [1]


async def test_a_schedule_is_not_shortened_with_the_rest_of_time(tmp_path: Path) -> None:
    site = Site(tmp_path, time_scale=0.05)
    site.jobs.put(1, schedule("0 * * * * ?"))
    await site.until(59)
    assert site.fired() == []
    await site.until(125)
    assert fired_at(site) == ["12:01:00", "12:02:00"]


async def test_what_a_schedule_missed_is_one_run_with_the_last_of_its_times(site: Site) -> None:
    site.jobs.put(1, schedule("0 * * * * ?"))
    await site.until(61)
    site.clock.at = BEGINNING + 600.5
    site.scheduler = site.new_scheduler()
    await site.until(601)
    site.scheduler = site.new_scheduler()
    await site.until(603)
    assert fired_at(site) == ["12:01:00", "12:10:00"]


async def test_a_paused_schedule_makes_up_for_nothing(site: Site) -> None:
    site.jobs.put(1, schedule("0 * * * * ?", pause_status="PAUSED"))
    await site.until(200)
    assert site.fired() == []
    site.jobs.put(1, schedule("0 * * * * ?"))
    await site.until(239)
    assert site.fired() == []
    await site.until(241)
    assert fired_at(site) == ["12:04:00"]


async def test_C13_any_of_a_list_of_triggers_starts_a_run_that_says_which(site: Site) -> None:
    triggers = [on_files()["trigger"], schedule("0 0/10 * * * ?"), on_tables(FLIGHTS)["trigger"]]
    site.jobs.put(1, {"triggers": triggers})
    await site.until(61)
    site.drop("a.json")
    await site.until(121)
    assert [run.trigger for run in site.jobs.started] == ["FILE_ARRIVAL"]
    site.write(FLIGHTS, 1)
    await site.until(181)
    assert [run.trigger for run in site.jobs.started] == ["FILE_ARRIVAL", "TABLE"]
    await site.until(601)
    assert [run.trigger for run in site.jobs.started] == ["FILE_ARRIVAL", "TABLE", "PERIODIC"]
    assert [site.jobs.state(1, n)["kind"] for n in range(3)] == ["FileArrival", "Schedule", "TableUpdate"]
    ran = [site.jobs.state(1, n)["history"]["last_triggered"]["run_id"] for n in range(3)]
    assert ran == [500, 502, 501]


async def test_one_trigger_of_a_list_may_be_paused(site: Site) -> None:
    files = {**on_files()["trigger"], "pause_status": "PAUSED"}
    site.jobs.put(1, {"triggers": [files, {"continuous": {}, "pause_status": "UNPAUSED"}]})
    await site.until(1)
    site.drop("a.json")
    await site.until(200)
    assert [run.trigger for run in site.jobs.started] == ["CONTINUOUS"]
    assert site.jobs.state(1, 0)["forgotten"] is True


async def test_state_of_before_lists_is_read(site: Site) -> None:
    site.jobs.put(1, on_files())
    await site.until(1)
    site.jobs.save_trigger_state(1, 1, site.jobs.state(1))
    assert "triggers" not in (site.jobs.trigger_state(1) or {})
    site.scheduler = site.new_scheduler()
    site.drop("a.json")
    await site.until(62)
    assert site.fired() == [1]


@pytest.mark.parametrize("file_events", [False, True])
async def test_C12_a_path_with_more_than_10000_files_is_dead_without_file_events(
    tmp_path: Path, file_events: bool
) -> None:
    site = Site(tmp_path, file_events=file_events)
    folder = site.drop("f0").parent
    for number in range(1, 9_999):
        (folder / f"f{number}").touch()
        os.utime(folder / f"f{number}", (BEGINNING, BEGINNING))
    site.jobs.put(1, on_files())
    await site.until(1)
    assert "last_failed" not in site.jobs.state(1)["history"]
    site.drop("x1")
    site.drop("x2")
    await site.until(61)
    assert site.fired() == ([1] if file_events else [])
    assert site.jobs.state(1)["api"]["file_arrival"]["using_file_events"] is file_events
    if not file_events:
        said = site.jobs.state(1)["history"]["last_failed"]
        assert said["description"] == (
            f"{URL} holds 10001 files; without file events a file arrival trigger may watch 10000"
        )
        assert datetime.fromtimestamp(said["timestamp"] / 1000, UTC).minute == 1
