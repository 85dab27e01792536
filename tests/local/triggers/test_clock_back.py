"""The clock goes back an hour, as when the fault `clock` is ended or a restart ends it: triggers go on at their pace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.triggers.model import ModelEvent, append_event
from tests.local.local_kit import Api, Notebooks, client, eventually, write_notebook
from tests.local.triggers.port import BEGINNING
from tests.local.triggers.site import FLIGHTS, URL, Site, on_files, on_tables

HOUR = 3600
MODEL = "main.models.delays"
UPSTREAM = {"jobs": [{"workspace_id": "1001", "job_id": "7"}], "if_status": "DONE"}
ON_MODELS = {"condition": "MODEL_VERSION_READY", "securable_name": MODEL}
EVERY_MINUTE = {"quartz_cron_expression": "0 * * * * ?", "timezone_id": "UTC"}


def write(site: Site) -> None:
    site.write(FLIGHTS, 1)


def drop(site: Site) -> None:
    site.drop(f"{site.clock.at}.csv")


def register(site: Site) -> None:
    site.layout.metastore_root("ops").mkdir(parents=True, exist_ok=True)
    append_event(site.layout, "ops", ModelEvent("MODEL_VERSION_READY", MODEL, round(site.clock.at * 1000)))


def end_upstream(site: Site) -> None:
    site.jobs.end(7, round(site.clock.at), "SUCCESS", site.clock.at)


def nothing(site: Site) -> None:
    pass


NEWS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[Site], None]]] = {
    "file arrival": (on_files, drop),
    "table update": (lambda **timers: on_tables(FLIGHTS, **timers), write),
    "model": (lambda **timers: {"trigger": {"model": {**ON_MODELS, **timers}}}, register),
}
KINDS: dict[str, tuple[dict[str, Any], Callable[[Site], None]]] = {
    **{name: (settings(), news) for name, (settings, news) in NEWS.items()},
    "periodic": ({"trigger": {"periodic": {"interval": 1, "unit": "MINUTES"}}}, nothing),
    "schedule": ({"schedule": EVERY_MINUTE}, nothing),
    "job completion": ({"trigger": {"job_completion": UPSTREAM}}, end_upstream),
}


async def after(site: Site, seconds: float) -> None:
    await site.until(site.clock.at - BEGINNING + seconds)


def go_back(site: Site, restart: bool) -> None:
    site.clock.at -= HOUR
    if restart:
        site.scheduler = site.new_scheduler()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_fires_again_at_its_pace(site: Site, kind: str, restart: bool) -> None:
    settings, news = KINDS[kind]
    site.write(FLIGHTS, 0)
    site.jobs.put(1, settings)
    await after(site, 5)
    site.clock.at += HOUR
    news(site)
    await after(site, 61)
    ahead = len(site.fired())
    assert ahead >= 1
    go_back(site, restart)
    await after(site, 1)
    assert len(site.fired()) == ahead
    said = site.jobs.state(1)["history"]
    assert said["last_triggered"]["timestamp"] < said["last_not_triggered"]["timestamp"] <= site.clock.at * 1000
    for number in (1, 2):
        news(site)
        await after(site, 61)
        assert len(site.fired()) == ahead + number


@pytest.mark.parametrize("looked_at", [False, True])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_that_was_made_ahead_of_time_fires_too(
    site: Site, kind: str, restart: bool, looked_at: bool
) -> None:
    settings, news = KINDS[kind]
    site.write(FLIGHTS, 0)
    site.clock.at += HOUR
    site.jobs.put(1, settings)
    if looked_at:
        await after(site, 5)
    go_back(site, restart)
    if not looked_at:
        await after(site, 1)
    news(site)
    site.clock.at += 0.5
    await after(site, 61)
    assert site.fired() == [1]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_came_ahead_of_time_is_no_news_for_a_job_that_is_made_afterwards(site: Site, kind: str) -> None:
    settings, news = KINDS[kind]
    site.clock.at += HOUR
    site.write(FLIGHTS, 0)
    news(site)
    await after(site, 1)
    go_back(site, restart=False)
    # Files are stamped by the machine's clock, which no fault moves.
    for file in [*site.layout.home.rglob("*.csv"), *site.layout.home.rglob("_delta_log/*.json")]:
        site.touch(file)
    await after(site, 1)
    site.jobs.put(1, settings)
    await after(site, 30)
    assert site.fired() == []
    news(site)
    await after(site, 61)
    assert site.fired() == [1]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", NEWS)
async def test_the_cooldown_is_no_longer_than_it_is(site: Site, kind: str, restart: bool) -> None:
    settings, news = NEWS[kind]
    site.write(FLIGHTS, 0)
    site.jobs.put(1, settings(min_time_between_triggers_seconds=120))
    await after(site, 1)
    site.clock.at += HOUR
    news(site)
    await after(site, 61)
    assert site.fired() == [1]
    go_back(site, restart)
    news(site)
    await after(site, 115)
    assert site.fired() == [1]
    await after(site, 10)
    assert site.fired() == [1, 1]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", NEWS)
async def test_quiet_is_no_longer_than_it_is(site: Site, kind: str, restart: bool) -> None:
    settings, news = NEWS[kind]
    site.write(FLIGHTS, 0)
    site.jobs.put(1, settings(wait_after_last_change_seconds=120))
    await after(site, 1)
    site.clock.at += HOUR
    await after(site, 60)
    news(site)
    await after(site, 61)
    go_back(site, restart)
    await after(site, 110)
    assert site.fired() == []
    await after(site, 15)
    assert site.fired() == [1]


@pytest.mark.parametrize("restart", [False, True])
async def test_the_wait_after_a_failure_is_no_longer_than_it_is(site: Site, restart: bool) -> None:
    site.jobs.put(1, {"continuous": {}})
    await after(site, 1)
    site.clock.at += HOUR
    site.jobs.end(1, 500, "RUN_EXECUTION_ERROR", site.clock.at)
    await after(site, 1)
    go_back(site, restart)
    await after(site, 50)
    assert site.fired() == [1]
    await after(site, 15)
    assert site.fired() == [1, 1]


async def test_an_end_ahead_of_time_counts_for_the_cooldown_once(tmp_path: Path) -> None:
    site = Site(tmp_path, cooldown_after_run=True)
    site.jobs.put(1, on_files(min_time_between_triggers_seconds=60))
    await after(site, 1)
    drop(site)
    await after(site, 61)
    site.clock.at += HOUR
    site.jobs.end(1, 500, "SUCCESS", site.clock.at)
    go_back(site, restart=False)
    drop(site)
    await after(site, 50)
    assert site.fired() == [1]
    await after(site, 75)
    assert site.fired() == [1, 1]
    site.jobs.end(1, 501, "SUCCESS", site.clock.at)
    # When the clock is where that end was, it is an hour old.
    await site.until(HOUR + 62 - 10)
    drop(site)
    await after(site, 62)
    assert site.fired() == [1, 1, 1]


def test_a_restart_ends_the_fault_and_its_jobs_go_on(tmp_path: Path, notebooks: Notebooks) -> None:
    starts: dict[str, dict[str, Any]] = {
        "files": {"trigger": {"file_arrival": {"url": URL, "min_time_between_triggers_seconds": 60}}},
        "periodic": {"trigger": {"periodic": {"interval": 2, "unit": "MINUTES"}}},
        "schedule": {"schedule": {**EVERY_MINUTE, "quartz_cron_expression": "* * * * * ?"}},
    }

    def up() -> AbstractContextManager[Deployment]:
        engine = InstantEngine(notebooks.run)
        return deployment_in_thread(tmp_path / "home", ["ops"], engine=engine, time_scale=0.01)

    def newest(ops: Any, job_id: int) -> int:
        return max((run.run_id for run in ops.jobs.list_runs(job_id=job_id)), default=0)

    def put(deployment: Deployment, name: str) -> None:
        file = deployment.layout.volume_path("ops", URL + name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    with up() as deployment:
        ops = client(deployment, "ops")
        api = Api(ops)
        ops.api_client.do("POST", "/local/faults", body={"kind": "clock", "seconds": HOUR})
        tasks = [{"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "main")}}]
        jobs = {
            name: int(api.post("create", name=name, tasks=tasks, **start)["job_id"]) for name, start in starts.items()
        }
        # No fault moves the times of files: what is there at the first look is older than the trigger.
        eventually(
            lambda: api.get("get", job_id=jobs["files"], include_trigger_state="true")["trigger_details"][0]["history"]
        )
        put(deployment, "a.csv")
        eventually(lambda: all(newest(ops, job_id) for job_id in jobs.values()))
    with up() as deployment:
        ops = client(deployment, "ops")
        before = {name: newest(ops, job_id) for name, job_id in jobs.items()}
        put(deployment, "b.csv")
        eventually(lambda: all(newest(ops, jobs[name]) > before[name] for name in jobs))
