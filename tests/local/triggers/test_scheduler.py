"""The loop over real files and real Delta tables, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from databricks_bridge.local.triggers import TriggerScheduler
from tests.local.triggers.port import BEGINNING
from tests.local.triggers.site import FLIGHTS, URL, WEATHER, Site, on_files, on_tables


async def test_a_new_file_starts_a_run_within_a_minute_and_an_overwrite_does_not(site: Site) -> None:
    site.drop("before.json")
    site.jobs.put(1, on_files())
    await site.until(1)
    site.drop("day=1/new.json")
    await site.until(59)
    assert site.fired() == []
    await site.until(61)
    assert site.fired() == [1]
    site.drop("day=1/new.json", "other text")
    await site.until(200)
    assert site.fired() == [1]
    assert site.jobs.started[0].trigger == "FILE_ARRIVAL"
    assert site.jobs.started[0].context["file_arrival.location"] == URL


async def test_a_missing_path_fires_nothing_and_is_no_failure(site: Site) -> None:
    site.jobs.put(1, on_files())
    await site.until(120)
    assert site.fired() == []
    assert "last_failed" not in site.jobs.state(1)["history"]
    assert site.jobs.state(1)["history"]["last_not_triggered"]["description"] == f"no new files in {URL}"
    assert site.jobs.state(1)["api"] == {"file_arrival": {"using_file_events": False}}
    site.drop("first.json")
    await site.until(181)
    assert site.fired() == [1]


async def test_temporary_and_hidden_names_do_not_fire(site: Site) -> None:
    site.jobs.put(1, on_files())
    await site.until(1)
    for name in (".part-1.json.tmp", "_SUCCESS", "_temporary/0/part-1.json", ".hidden/a.json"):
        site.drop(name)
    await site.until(200)
    assert site.fired() == []


async def test_both_timers_hold_to_the_second(site: Site) -> None:
    site.jobs.put(1, on_files(min_time_between_triggers_seconds=120, wait_after_last_change_seconds=60))
    await site.until(0)
    site.drop("0.json")
    await site.until(60)  # the first look that sees it is at 60; it has settled by then
    assert site.fired() == [1]
    await site.until(65)
    site.drop("1.json")
    await site.until(175)
    site.drop("2.json")
    await site.until(234.5)
    assert site.fired() == [1]
    await site.until(241)
    assert site.fired() == [1, 1]


async def test_time_scale_shortens_everything_alike(tmp_path: Path) -> None:
    site = Site(tmp_path, time_scale=0.05)
    site.jobs.put(1, on_files(wait_after_last_change_seconds=120))
    await site.until(0)
    site.drop("a.json")
    await site.until(5.9)
    assert site.fired() == []
    await site.until(6.1)
    assert site.fired() == [1]


async def test_state_outlives_the_scheduler(site: Site) -> None:
    site.drop("old.json")
    site.jobs.put(1, on_files())
    await site.until(1)
    site.drop("while-down.json")
    site.scheduler = site.new_scheduler()
    await site.until(2)
    assert site.fired() == [1]
    site.scheduler = site.new_scheduler()
    await site.until(200)
    assert site.fired() == [1]


async def test_a_pause_collects_nothing(site: Site) -> None:
    site.jobs.put(1, on_files())
    await site.until(1)
    paused = on_files()
    paused["trigger"]["pause_status"] = "PAUSED"
    site.jobs.put(1, paused)
    await site.until(61)
    site.drop("during.json")
    await site.until(130)
    site.jobs.put(1, on_files())
    await site.until(131)
    site.drop("after.json")
    await site.until(189)
    assert site.fired() == []
    await site.until(192)
    assert site.fired() == [1]


async def test_a_data_commit_starts_a_run_that_can_name_it(site: Site) -> None:
    site.write(FLIGHTS, 1)
    site.jobs.put(1, on_tables(FLIGHTS))
    await site.until(30)
    site.write(FLIGHTS, 2)
    site.write(FLIGHTS, 3)
    await site.until(61)
    run = site.jobs.started[0]
    assert (run.job_id, run.trigger) == (1, "TABLE")
    assert run.context["type"] == "table_update"
    assert json.loads(run.context["table_update.updated_tables"]) == [FLIGHTS]
    assert run.context[f"table_update.{FLIGHTS}.version"] == "2"
    stamp = f"table_update.{FLIGHTS}.commit_timestamp."
    assert int(run.context[stamp + "timestamp_ms"]) == int((BEGINNING + 30) * 1000)
    at = datetime.fromtimestamp(BEGINNING + 30, UTC)
    assert run.context[stamp + "iso_datetime"].startswith(at.strftime("%Y-%m-%dT%H:%M:%S"))
    await site.until(300)
    assert site.fired() == [1]


def optimize(path: Path) -> None:
    from deltalake import DeltaTable

    assert DeltaTable(str(path)).optimize.compact()["numFilesAdded"] == 1


def set_property(path: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 7 days"})


def delete(path: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(path)).delete("n = 1")


@pytest.mark.parametrize(
    ("change", "every_commit", "fires"),
    [(optimize, False, 0), (optimize, True, 1), (set_property, False, 0), (delete, False, 1)],
)
async def test_which_commits_count(
    tmp_path: Path, change: Callable[[Path], None], every_commit: bool, fires: int
) -> None:
    site = Site(tmp_path, every_commit=every_commit)
    path = site.write(FLIGHTS, 1)
    site.write(FLIGHTS, 2)
    site.jobs.put(1, on_tables(FLIGHTS))
    await site.until(1)
    change(path)
    site.stamp(path)
    await site.until(121)
    assert len(site.fired()) == fires
    # What did not fire has been seen: the next data commit is one run, not two.
    site.write(FLIGHTS, 3)
    await site.until(400)
    assert len(site.fired()) == fires + 1


async def test_all_updated_shows_its_memory_and_fires_on_the_last_one(site: Site) -> None:
    site.write(FLIGHTS, 1)
    site.jobs.put(1, on_tables(FLIGHTS, WEATHER, condition="ALL_UPDATED"))
    await site.until(1)
    site.write(FLIGHTS, 2)
    await site.until(500)
    assert site.fired() == []
    assert site.jobs.state(1)["api"]["table"]["last_seen_table_states"] == [
        {"table_name": FLIGHTS, "has_seen_updates": True},
        {"table_name": WEATHER, "has_seen_updates": False},
    ]
    site.write(WEATHER, 1)
    await site.until(561)
    assert site.fired() == [1]
    assert json.loads(site.jobs.started[0].context["table_update.updated_tables"]) == [FLIGHTS, WEATHER]
    assert site.jobs.state(1)["history"]["last_triggered"]["run_id"] == site.jobs.started[0].run_id


async def test_a_table_dropped_and_made_again_between_two_looks_fires(site: Site) -> None:
    path = site.write(FLIGHTS, 1)
    for n in range(5):
        site.write(FLIGHTS, n)
    site.jobs.put(1, on_tables(FLIGHTS))
    await site.until(1)
    shutil.rmtree(path)
    site.write(FLIGHTS, 9)
    await site.until(61)
    assert site.fired() == [1]
    assert site.jobs.started[0].context[f"table_update.{FLIGHTS}.version"] == "0"


async def test_a_commit_that_is_being_written_is_looked_at_again(site: Site) -> None:
    path = site.write(FLIGHTS, 1)
    site.jobs.put(1, on_tables(FLIGHTS))
    await site.until(1)
    half = path / "_delta_log" / f"{1:020d}.json"
    half.write_text('{"add":{"path":"a.parquet","dataCh')
    os.utime(half, (site.clock.at, site.clock.at))
    await site.until(120)
    assert site.fired() == []
    half.write_text('{"add":{"path":"a.parquet","dataChange":true}}\n')
    os.utime(half, (site.clock.at, site.clock.at))
    await site.until(190)
    assert site.fired() == [1]


async def test_commits_that_log_cleanup_took_count_as_a_change(site: Site) -> None:
    path = site.write(FLIGHTS, 1)
    site.jobs.put(1, on_tables(FLIGHTS))
    await site.until(1)
    site.write(FLIGHTS, 2)
    set_property(path)
    site.stamp(path)
    (path / "_delta_log" / f"{1:020d}.json").unlink()
    await site.until(61)
    assert site.fired() == [1]


async def test_a_view_that_cannot_be_read_says_so_in_the_history(site: Site) -> None:
    site.layout.table_path("ops", FLIGHTS).parent.mkdir(parents=True)
    site.layout.table_path("ops", FLIGHTS).with_name("flights.view.json").write_text("{}")
    site.jobs.put(1, on_tables(FLIGHTS))
    site.jobs.put(2, on_files())
    await site.until(1)
    assert "the view main.silver.flights cannot be read" in site.jobs.state(1)["history"]["last_failed"]["description"]
    site.drop("a.json")
    await site.until(61)
    assert site.fired() == [2]


async def test_the_loop_goes_on_when_the_jobs_cannot_be_listed(site: Site) -> None:
    """The jobs are out of reach for the first two seconds and a half."""

    async def sleep(seconds: float) -> None:
        await site.clock.sleep(seconds)
        site.jobs.broken = site.clock.at < BEGINNING + 2.5
        if site.jobs.state(1):
            raise asyncio.CancelledError

    site.jobs.put(1, on_files())
    site.jobs.broken = True
    scheduler = TriggerScheduler(site.layout, site.jobs, now=site.clock.now, sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(scheduler.run_forever(), timeout=10)
    assert BEGINNING + 2.5 < site.clock.at < BEGINNING + 3
    assert site.jobs.state(1)["kind"] == "FileArrival"


async def test_continuous_starts_the_next_run_soon_after_one_has_ended(site: Site) -> None:
    site.jobs.put(1, {"continuous": {"pause_status": "UNPAUSED"}})
    await site.until(1)
    assert [run.trigger for run in site.jobs.started] == ["CONTINUOUS"]
    await site.until(300)
    assert len(site.jobs.started) == 1
    site.jobs.end(1, 500, "SUCCESS", site.clock.at)
    await site.until(319)
    assert len(site.jobs.started) == 1
    await site.until(321)
    assert len(site.jobs.started) == 2
    site.jobs.end(1, 501, "RUN_EXECUTION_ERROR", site.clock.at)
    await site.until(380)
    assert len(site.jobs.started) == 2
    await site.until(382)
    assert len(site.jobs.started) == 3


async def test_job_completion_hears_of_runs_in_other_workspaces(site: Site) -> None:
    jobs = [{"workspace_id": "1001", "job_id": "11"}, {"workspace_id": "1002", "job_id": "12"}]
    site.jobs.put(1, {"trigger": {"job_completion": {"jobs": jobs}}})
    await site.until(1)
    site.jobs.end(11, 700, "SUCCESS", site.clock.at)
    await site.until(2)
    states = site.jobs.state(1)["api"]["job_completion"]["monitored_job_states"]
    assert [state["has_seen_completion"] for state in states] == [True, False]
    site.jobs.end(12, 701, "SUCCESS", site.clock.at, workspace_id="1002")
    await site.until(3)
    assert [run.trigger for run in site.jobs.started] == ["JOB_COMPLETION"]
    info = site.jobs.started[0].info
    assert info is not None
    assert [done["run_id"] for done in info["job_completion"]["completed_jobs"]] == ["700", "701"]


async def test_a_job_deleted_during_its_evaluation_is_no_error(site: Site) -> None:
    site.jobs.put(1, on_files())
    await site.until(1)
    site.drop("a.json")
    del site.jobs.jobs[1]
    await site.until(120)
    assert site.fired() == []
