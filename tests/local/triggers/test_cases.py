"""Faults that users of neighbouring projects reported, against the local workspace's own triggers."""

from __future__ import annotations

import os

from tests.local.triggers.port import BEGINNING
from tests.local.triggers.site import FLIGHTS, Site, on_files, on_tables


async def test_D11_one_file_that_is_told_with_two_times_is_one_arrival(site: Site) -> None:
    """It is known by its path alone: Databricks' own trigger takes an overwrite for no arrival, whatever its size is then."""
    site.jobs.put(1, on_files())
    await site.until(60)
    file = site.drop("a.csv")
    await site.until(120)
    assert site.fired() == [1]
    os.utime(file, (site.clock.at + 2, site.clock.at + 2))
    await site.until(300)
    file.write_text("another content, of another size")
    await site.until(600)
    assert site.fired() == [1]
    site.drop("b.csv")
    await site.until(700)
    assert site.fired() == [1, 1]


async def test_C01_the_cooldown_comes_first_and_quiet_is_counted_from_the_last_change(site: Site) -> None:
    """Timers of 120 s and 60 s, changes at 5 s and 115 s after the last run: the next is at 175 s."""
    site.write(FLIGHTS, 1)
    site.jobs.put(1, on_tables(FLIGHTS, min_time_between_triggers_seconds=120, wait_after_last_change_seconds=60))
    await site.until(1)
    site.write(FLIGHTS, 2)
    while not site.fired():
        await site.until(site.clock.at - BEGINNING + 0.25)
    fired = site.clock.at - BEGINNING
    for after in (5, 115):
        await site.until(fired + after)
        site.write(FLIGHTS, after)
    await site.until(fired + 174)
    assert site.fired() == [1]
    # A look that sees the change of 115 s knows when quiet will have come, and looks again then.
    await site.until(fired + 185)
    assert site.fired() == [1, 1]
    history = site.jobs.state(1)["history"]["last_triggered"]
    assert fired + 175 <= history["timestamp"] / 1000 - BEGINNING <= fired + 176


async def test_C01_a_table_that_is_never_quiet_holds_and_says_why(site: Site) -> None:
    site.write(FLIGHTS, 1)
    site.jobs.put(1, on_tables(FLIGHTS, wait_after_last_change_seconds=60))
    await site.until(1)
    for second in range(10, 610, 50):
        await site.until(second)
        site.write(FLIGHTS, second)
    assert site.fired() == []
    assert "wait_after_last_change holds until" in site.jobs.state(1)["history"]["last_not_triggered"]["description"]
    await site.until(560 + 62)
    assert site.fired() == [1]


async def test_C02_only_a_new_name_is_an_arrival_and_one_that_was_seen_gone_is_new_again(site: Site) -> None:
    site.jobs.put(1, on_files())
    await site.until(1)
    file = site.drop("a.csv")
    await site.until(61)
    assert site.fired() == [1]
    site.drop("a.csv", "overwritten")
    await site.until(125)
    assert site.fired() == [1]
    # Gone and back between two looks: it cannot be told from an overwrite.
    file.unlink()
    site.drop("a.csv", "once more")
    await site.until(190)
    assert site.fired() == [1]
    file.unlink()
    await site.until(255)
    site.drop("a.csv", "after a look")
    await site.until(320)
    assert site.fired() == [1, 1]
    site.drop("b.csv")
    await site.until(500)
    assert site.fired() == [1, 1, 1]


async def test_C11_a_file_without_content_is_an_arrival_and_its_content_is_none(site: Site) -> None:
    site.jobs.put(1, on_files())
    await site.until(1)
    site.drop("part-1", "")
    await site.until(61)
    assert site.fired() == [1]
    site.drop("part-1", "its true content")
    await site.until(125)
    assert site.fired() == [1]
    # A writer that renames a temporary name is one arrival.
    draft = site.drop("_part-2.tmp")
    await site.until(190)
    assert site.fired() == [1]
    draft.rename(draft.with_name("part-2"))
    await site.until(400)
    assert site.fired() == [1, 1]


async def test_C05_a_pause_ends_no_run_and_a_resume_waits_for_it(site: Site) -> None:
    paused = {"continuous": {"pause_status": "PAUSED"}}
    resumed = {"continuous": {"pause_status": "UNPAUSED"}}
    site.jobs.put(1, resumed)
    await site.until(1)
    assert site.jobs.active_runs(1) == [500]
    site.jobs.put(1, paused)
    await site.until(70)
    assert (site.jobs.active_runs(1), len(site.fired())) == ([500], 1)
    site.jobs.put(1, resumed)
    await site.until(140)
    assert len(site.fired()) == 1
    assert site.jobs.state(1)["history"]["last_not_triggered"]["description"] == "run 500 is active"
    site.jobs.end(1, 500, "SUCCESS", site.clock.at)
    await site.until(150)
    assert len(site.fired()) == 1, "a continuous job pauses between its runs"
    await site.until(170)
    assert len(site.fired()) == 2
