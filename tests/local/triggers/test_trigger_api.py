"""Triggers over HTTP: schedules, lists of triggers, switches, limits, and the look that starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.server.trigger_limits import MOST_JOBS
from tests.local.local_kit import Api, Notebooks, eventually, write_notebook

EVERY_SECOND = {"quartz_cron_expression": "* * * * * ?", "timezone_id": "Europe/Berlin"}
FILES = {"file_arrival": {"url": "/Volumes/main/landing/flights/"}}


@pytest.fixture
def deployment(tmp_path: Path, notebooks: Notebooks) -> Iterator[Deployment]:
    engine = InstantEngine(notebooks.run)
    with deployment_in_thread(tmp_path / "home", ["ops"], engine=engine, time_scale=0.02) as up:
        yield up


@pytest.fixture
def make(deployment: Deployment, api: Api) -> Any:
    path = write_notebook(deployment, "ops", "main")
    tasks = [{"task_key": "main", "notebook_task": {"notebook_path": path}}]
    return lambda **settings: api.post("create", **{"name": "j", "tasks": tasks, **settings})["job_id"]


def local(ops: Any, method: str, path: str, **body: Any) -> dict[str, Any]:
    return dict(ops.api_client.do(method, f"/local/{path}", body=body or None))


def runs(api: Api, job_id: int) -> list[dict[str, Any]]:
    return list(api.get("runs/list", job_id=job_id).get("runs", []))


def test_the_sdk_schedules_a_job_and_pauses_it(ops: Any, api: Api, make: Any) -> None:
    from databricks.sdk.service import jobs

    job_id = make(schedule=EVERY_SECOND, parameters=[{"name": "at", "default": "{{job.trigger.time.iso_datetime}}"}])
    run = eventually(lambda: runs(api, job_id) and runs(api, job_id)[-1])
    assert run["trigger"] == "PERIODIC"
    assert run["schedule"] == {**EVERY_SECOND, "pause_status": "UNPAUSED"}
    assert run["job_parameters"][0]["value"].endswith(":" + run["job_parameters"][0]["value"][-9:])
    paused = jobs.CronSchedule("* * * * * ?", "Europe/Berlin", pause_status=jobs.PauseStatus.PAUSED)
    ops.jobs.update(job_id, new_settings=jobs.JobSettings(schedule=paused))
    state = eventually(lambda: api.get("get", job_id=job_id, include_trigger_state="true")["trigger_state"])
    assert state == {"pause_status": "PAUSED"}
    count = len(runs(api, job_id))
    # Run-now works all the same, and does not resume it (C05).
    assert api.ended(api.post("run-now", job_id=job_id)["run_id"])["trigger"] == "ONE_TIME"
    assert len(runs(api, job_id)) == count + 1


def test_C13_every_shape_of_triggers_is_taken_and_two_slots_are_not(ops: Any, api: Api, make: Any) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    paused = {"pause_status": "PAUSED"}
    shapes: list[dict[str, Any]] = [
        {},
        {"schedule": {**EVERY_SECOND, **paused}},
        {"trigger": {**FILES, **paused}},
        {"continuous": paused},
        {"triggers": [{**FILES, **paused}, {"schedule": EVERY_SECOND, **paused}]},
    ]
    for shape in shapes:
        shown = api.get("get", job_id=make(**shape), include_trigger_history="true")
        assert {name: shown["settings"][name] for name in shape} == shape
        assert len(shown.get("trigger_details", [])) == len(shape.get("triggers", shape))
        assert ("trigger_state" in shown) == (bool(shape) and "triggers" not in shape)
    with pytest.raises(InvalidParameterValue, match="one of trigger, schedule, continuous and triggers"):
        make(trigger=FILES, schedule=EVERY_SECOND)
    with pytest.raises(InvalidParameterValue, match="one of"):
        make(trigger=FILES, triggers=[FILES])
    # A kind that came after the first SDKs is known, one that nobody knows is refused and not passed over.
    model = {"model": {"condition": "MODEL_CREATED", "securable_name": "main.s.m"}, **paused}
    assert api.get("get", job_id=make(trigger=model))["settings"]["trigger"] == model
    unknown: dict[str, Any]
    for unknown in ({"trigger": {"moon_phase": {}}}, {"triggers": [FILES, {"moon_phase": {}}]}):
        with pytest.raises(InvalidParameterValue, match=r"needs exactly one of .*model.*; it has none"):
            make(**unknown)


def test_C13_each_way_to_start_says_its_word_and_none_says_continuous_restart(api: Api, make: Any) -> None:
    """Databricks says CONTINUOUS_RESTART after "Restart run", for which there is no call: the next run says CONTINUOUS."""
    job_id = make(continuous={})
    first = eventually(lambda: runs(api, job_id))[0]
    api.ended(first["run_id"])
    eventually(lambda: len(runs(api, job_id)) > 1)
    assert {run["trigger"] for run in runs(api, job_id)} == {"CONTINUOUS"}
    api.post("delete", job_id=job_id)
    by_hand = make()
    api.post("run-now", job_id=by_hand)
    assert [run["trigger"] for run in runs(api, by_hand)] == ["ONE_TIME"]


def test_the_history_says_why_a_trigger_of_a_list_did_not_fire(api: Api, make: Any) -> None:
    job_id = make(triggers=[FILES, {"schedule": {**EVERY_SECOND, "quartz_cron_expression": "0 0 0 1 1 ? 2099"}}])

    def why() -> list[str]:
        details = api.get("get", job_id=job_id, include_trigger_history="true")["trigger_details"]
        return [item["history"].get("last_not_triggered", {}).get("description", "") for item in details]

    eventually(lambda: all(why()))
    assert why() == [
        "no new files in /Volumes/main/landing/flights/",
        "the next run is due at 2098-12-31T23:00:00+00:00",
    ]


def test_a_trigger_is_tested_without_a_run(deployment: Deployment, ops: Any, api: Api, make: Any) -> None:
    job_id = make(trigger={**FILES, "pause_status": "PAUSED"})
    before = local(ops, "POST", "test-trigger", job_id=job_id)
    assert before["triggers"] == [
        {
            "would_fire": False,
            "pause_status": "PAUSED",
            "description": "no new files in /Volumes/main/landing/flights/",
        }
    ]
    folder = deployment.layout.volume_path("ops", "/Volumes/main/landing/flights")
    folder.mkdir(parents=True)
    (folder / "a.csv").touch()
    for _ in range(2):
        (after,) = local(ops, "POST", "test-trigger", job_id=job_id)["triggers"]
        assert (after["would_fire"], after["description"]) == (
            True,
            "1 new file(s) in /Volumes/main/landing/flights/",
        )
    assert runs(api, job_id) == []


def commit(deployment: Deployment, table: str, version: int) -> Path:
    log = deployment.layout.table_path("ops", table) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    draft = log / ".draft"
    draft.write_text('{"add":{"path":"a.parquet","dataChange":true}}\n')
    return draft.rename(log / f"{version:020d}.json")


def test_C07_a_missing_table_is_waited_for_or_refused_as_the_service_does(
    deployment: Deployment, ops: Any, api: Api, make: Any
) -> None:
    from databricks.sdk.errors import InvalidParameterValue, ResourceDoesNotExist

    trigger = {"table_update": {"table_names": ["main.silver.nowhere"]}}
    assert local(ops, "GET", "switches")["refuse_missing_tables"] is False
    waiting = make(trigger=trigger)
    eventually(lambda: len(api.get("get", job_id=waiting, include_trigger_state="true")["trigger_state"]) > 1)
    assert runs(api, waiting) == []

    assert local(ops, "POST", "switches", refuse_missing_tables=True)["refuse_missing_tables"] is True
    before = len(list(ops.jobs.list()))
    for refused in ({"trigger": trigger}, {"triggers": [FILES, trigger]}):
        with pytest.raises(ResourceDoesNotExist, match=r"The table 'main\.silver\.nowhere' does not exist") as told:
            make(**refused)
        assert told.value.error_code == "RESOURCE_DOES_NOT_EXIST"
    assert len(list(ops.jobs.list())) == before

    # Its first data is an update for the job that waits, and the other is taken now.
    commit(deployment, "main.silver.nowhere", 0)
    assert eventually(lambda: runs(api, waiting))[0]["trigger"] == "TABLE"
    make(trigger=trigger)
    assert not any(local(ops, "POST", "switches", refuse_missing_tables=False).values())
    with pytest.raises(InvalidParameterValue, match="there is no switch moon"):
        local(ops, "POST", "switches", moon=True)


def test_C12_wildcards_and_paths_that_hold_a_table_are_refused_at_creation(
    deployment: Deployment, ops: Any, make: Any
) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    before = len(list(ops.jobs.list()))
    table = deployment.layout.volume_path("ops", "/Volumes/main/landing/flights/delays") / "_delta_log"
    table.mkdir(parents=True)
    (table / f"{0:020d}.json").write_text('{"protocol":{}}\n')
    managed = commit(deployment, "main.silver.delays", 0).parent.parent
    for url, why in {
        "/Volumes/main/landing/flights/2026-*/": "without wildcards",
        "/Volumes/main/landing/flights/2026-0[1-3]/": "without wildcards",
        "/Volumes/main/landing/flights/day=?/": "without wildcards",
        f"file://{managed}/": "watches /Volumes",
        f"{managed}/": "watches /Volumes",
        "/Volumes/main/landing/flights/delays/": "where there is a table",
        "/Volumes/Main/Landing/flights/delays/part=1": "where there is a table",
    }.items():
        with pytest.raises(InvalidParameterValue, match=why):
            make(trigger={"file_arrival": {"url": url}})
    assert len(list(ops.jobs.list())) == before
    make(trigger={"file_arrival": {"url": "/Volumes/main/landing/flights/other/"}})


def test_limits_of_number_are_lifted_by_file_events(ops: Any, make: Any) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    eleven = {"table_update": {"table_names": [f"main.s.t{n}" for n in range(11)]}}
    with pytest.raises(InvalidParameterValue, match="lists 11 tables; at most 10"):
        make(trigger=eleven)
    for _ in range(MOST_JOBS["file_arrival"]):
        last = make(trigger={**FILES, "pause_status": "PAUSED"})
    with pytest.raises(InvalidParameterValue, match="50 jobs of this workspace have one"):
        make(trigger=FILES)
    ops.api_client.do("POST", "/api/2.2/jobs/update", body={"job_id": last, "new_settings": {"name": "changed"}})
    local(ops, "POST", "switches", file_events=True)
    make(trigger=FILES)
    make(trigger=eleven)


def test_a_thousand_jobs_of_a_workspace_may_watch_tables(ops: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    assert MOST_JOBS == {"file_arrival": 50, "table_update": 1000}
    monkeypatch.setitem(MOST_JOBS, "table_update", 3)
    trigger = {"table_update": {"table_names": ["main.s.t"]}, "pause_status": "PAUSED"}
    for start in ({"trigger": trigger}, {"triggers": [trigger, trigger, trigger]}, {"trigger": trigger}):
        last = make(**start)
    with pytest.raises(InvalidParameterValue, match=r"trigger\.table_update: 3 jobs of this workspace have one"):
        make(triggers=[FILES, trigger])
    make(trigger=FILES)
    ops.api_client.do("POST", "/api/2.2/jobs/update", body={"job_id": last, "new_settings": {"name": "changed"}})
    local(ops, "POST", "switches", file_events=True)
    make(trigger=trigger)


def test_a_run_of_a_list_s_schedule_shows_that_schedule(api: Api, make: Any) -> None:
    job_id = make(triggers=[{"schedule": EVERY_SECOND}])
    run = eventually(lambda: runs(api, job_id) and runs(api, job_id)[-1])
    assert run["trigger"] == "PERIODIC"
    assert run["schedule"]["timezone_id"] == "Europe/Berlin"


def test_a_revoked_select_holds_the_trigger_and_only_its_history_says_so(
    deployment: Deployment, ops: Any, api: Api, make: Any
) -> None:
    def history(job_id: int) -> dict[str, Any]:
        shown = api.get("get", job_id=job_id, include_trigger_history="true")
        return dict(shown["trigger_details"][0]["history"])

    # What is only milliseconds older than a trigger counts as news for it.
    os.utime(commit(deployment, "main.silver.flights", 0), (1_700_000_000, 1_700_000_000))
    job_id = make(trigger={"table_update": {"table_names": ["main.silver.flights"]}})
    eventually(lambda: "last_not_triggered" in history(job_id))
    fault = local(ops, "POST", "faults", kind="revoke", privilege="SELECT", securable="main.silver.flights")
    commit(deployment, "main.silver.flights", 1)
    eventually(lambda: "last_failed" in history(job_id))
    said = "PERMISSION_DENIED: User does not have SELECT on Table 'main.silver.flights'."
    assert history(job_id)["last_failed"]["description"] == said
    (tested,) = local(ops, "POST", "test-trigger", job_id=job_id)["triggers"]
    assert tested == {"would_fire": False, "pause_status": "UNPAUSED", "description": said}
    assert runs(api, job_id) == []
    ops.api_client.do("DELETE", f"/local/faults/{fault['fault_id']}")
    run = eventually(lambda: runs(api, job_id))[0]
    assert run["trigger"] == "TABLE"


@pytest.mark.parametrize(
    ("privilege", "securable", "said"),
    [
        ("READ_VOLUME", "main.landing.flights", "READ VOLUME on Volume 'main.landing.flights'"),
        ("USE_SCHEMA", "main.landing", "USE SCHEMA on Schema 'main.landing'"),
        ("USE_CATALOG", "main", "USE CATALOG on Catalog 'main'"),
    ],
)
def test_a_volume_that_may_not_be_read_holds_the_trigger_and_only_its_history_says_so(
    deployment: Deployment, ops: Any, api: Api, make: Any, privilege: str, securable: str, said: str
) -> None:
    folder = deployment.layout.volumes_root("ops") / "main" / "landing" / "flights"
    folder.mkdir(parents=True)

    def history() -> dict[str, Any]:
        shown = api.get("get", job_id=job_id, include_trigger_history="true")
        return dict(shown["trigger_details"][0]["history"])

    job_id = make(trigger={"file_arrival": {"url": "/Volumes/Main/landing/flights/"}})
    eventually(lambda: "last_not_triggered" in history())
    fault = local(ops, "POST", "faults", kind="revoke", privilege=privilege, securable=securable)
    eventually(lambda: "last_failed" in history())
    (folder / "a.json").write_text("{}")
    looked_at = history()["last_failed"]["timestamp"]
    eventually(lambda: history()["last_failed"]["timestamp"] > looked_at)
    assert history()["last_failed"]["description"] == f"PERMISSION_DENIED: User does not have {said}."
    (tested,) = local(ops, "POST", "test-trigger", job_id=job_id)["triggers"]
    assert tested["would_fire"] is False
    assert said in tested["description"]
    assert runs(api, job_id) == []
    ops.api_client.do("DELETE", f"/local/faults/{fault['fault_id']}")
    assert eventually(lambda: runs(api, job_id))[0]["trigger"] == "FILE_ARRIVAL"
