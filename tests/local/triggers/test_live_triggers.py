"""Triggers of a running deployment: a file that goes up, a table that grows, and the runs that they start."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.workspace_spec import WorkspaceSpec
from tests.local.local_kit import Api, Notebooks, client, eventually, write_notebook

URL = "/Volumes/main/landing/flights/"
FLIGHTS = "main.silver.flights"


@pytest.fixture
def deployment(tmp_path: Path, notebooks: Notebooks) -> Iterator[Deployment]:
    """Two workspaces of one metastore, where time runs fifty times faster: triggers are evaluated every 1.2 s."""
    workspaces = [WorkspaceSpec("ops"), WorkspaceSpec("met", metastore="ops")]
    with deployment_in_thread(
        tmp_path / "home", workspaces, engine=InstantEngine(notebooks.run), time_scale=0.02
    ) as up:
        yield up


@pytest.fixture
def landing(ops: Any) -> Any:
    from databricks.sdk.service.catalog import VolumeType

    ops.catalogs.create("main")
    ops.schemas.create("landing", "main")
    ops.volumes.create("main", "landing", "flights", VolumeType.MANAGED)
    return ops


def make_older(deployment: Deployment) -> None:
    """Date the commits back by a second: what is at most a kernel tick older than a trigger counts as new to it."""
    for commit in (deployment.layout.table_path("ops", FLIGHTS) / "_delta_log").glob("*.json"):
        then = commit.stat().st_mtime - 1
        os.utime(commit, (then, then))


def job(deployment: Deployment, api: Api, trigger: dict[str, Any], **settings: Any) -> int:
    task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "main")}}
    make_older(deployment)
    job_id = int(api.post("create", name="triggered", tasks=[task], trigger=trigger, **settings)["job_id"])
    eventually(lambda: watched(api, job_id))
    return job_id


def watched(api: Api, job_id: int) -> Any:
    """Whether the trigger has had its first look."""
    state = api.get("get", job_id=job_id, include_trigger_state="true")["trigger_state"]
    return state if len(state) > 1 else None


def runs(api: Api, job_id: int) -> list[dict[str, Any]]:
    return list(api.get("runs/list", job_id=job_id).get("runs", []))


def append(deployment: Deployment, *values: int) -> None:
    from deltalake import write_deltalake

    path = deployment.layout.table_path("ops", FLIGHTS)
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), pa.table({"n": pa.array(values, pa.int64())}), mode="append")


def test_an_upload_starts_a_run(landing: Any, deployment: Deployment, api: Api) -> None:
    job_id = job(deployment, api, {"file_arrival": {"url": URL}}, parameters=[
        {"name": "where", "default": "{{job.trigger.file_arrival.location}}"}])  # fmt: skip
    landing.files.upload(f"{URL}a.json", io.BytesIO(b"{}"))
    (run,) = eventually(lambda: runs(api, job_id))
    done = api.ended(run["run_id"])
    assert done["trigger"] == "FILE_ARRIVAL"
    assert done["state"]["result_state"] == "SUCCESS"
    assert done["job_parameters"][0]["value"] == URL


def test_a_commit_starts_a_run_that_names_table_and_version(deployment: Deployment, api: Api) -> None:
    append(deployment, 1)
    job_id = job(deployment, api, {"table_update": {"table_names": [FLIGHTS]}}, parameters=[
        {"name": "updated", "default": "{{job.trigger.table_update.updated_tables}}"},
        {"name": "version", "default": "{{job.trigger.table_update.`main.silver.flights`.version}}"}])  # fmt: skip
    assert runs(api, job_id) == []
    append(deployment, 2)
    (run,) = eventually(lambda: runs(api, job_id))
    done = api.ended(run["run_id"])
    assert done["trigger"] == "TABLE"
    values = {item["name"]: item["value"] for item in done["job_parameters"]}
    assert json.loads(values["updated"]) == [FLIGHTS]
    assert watched(api, job_id)["table"]["last_seen_table_states"] == [
        {"table_name": FLIGHTS, "has_seen_updates": False}
    ]


def test_a_skipped_run_takes_its_commits_with_it(deployment: Deployment, api: Api, notebooks: Notebooks) -> None:
    append(deployment, 1)
    notebooks.block("main")
    job_id = job(deployment, api, {"table_update": {"table_names": [FLIGHTS]}}, max_concurrent_runs=1)
    append(deployment, 2)
    eventually(lambda: len(runs(api, job_id)) == 1)
    append(deployment, 3)
    skipped = eventually(lambda: len(runs(api, job_id)) == 2 and runs(api, job_id)[0])
    assert skipped["state"]["life_cycle_state"] == "SKIPPED"
    notebooks.unblock("main")
    first = runs(api, job_id)[1]["run_id"]
    api.ended(first)
    append(deployment, 4)
    eventually(lambda: len(runs(api, job_id)) == 3)
    assert api.ended(runs(api, job_id)[0]["run_id"])["state"]["result_state"] == "SUCCESS"
    assert len(runs(api, job_id)) == 3


def test_a_restart_forgets_nothing(tmp_path: Path, notebooks: Notebooks) -> None:
    def up() -> Any:
        return deployment_in_thread(tmp_path / "h", ["ops"], engine=InstantEngine(notebooks.run), time_scale=0.02)

    with up() as first:
        append(first, 1)
        api = Api(client(first, "ops"))
        job_id = job(first, api, {"table_update": {"table_names": [FLIGHTS]}})
    append(first, 2)
    with up() as second:
        api = Api(client(second, "ops"))
        (run,) = eventually(lambda: runs(api, job_id))
        assert api.ended(run["run_id"])["trigger"] == "TABLE"


def test_job_completion_reaches_across_workspaces(deployment: Deployment, api: Api) -> None:
    met = Api(client(deployment, "met"))
    task = {"task_key": "up", "notebook_task": {"notebook_path": write_notebook(deployment, "met", "up")}}
    upstream = met.post("create", name="upstream", tasks=[task])["job_id"]
    monitored = {"workspace_id": deployment.workspaces["met"].workspace_id, "job_id": str(upstream)}
    job_id = job(deployment, api, {"job_completion": {"jobs": [monitored]}})
    run_id = met.post("run-now", job_id=upstream)["run_id"]
    (run,) = eventually(lambda: runs(api, job_id))
    done = api.ended(run["run_id"])
    assert done["trigger"] == "JOB_COMPLETION"
    completed = done["trigger_info"]["job_completion"]["completed_jobs"]
    assert [(item["run_id"], item["termination_code"]) for item in completed] == [(str(run_id), "SUCCESS")]


def test_the_state_says_of_a_watched_job_that_it_is_deleted(deployment: Deployment, api: Api) -> None:
    met = Api(client(deployment, "met"))
    upstream = [met.post("create", name="upstream")["job_id"] for _ in range(2)]
    there, here = (deployment.workspaces[name].workspace_id for name in ("met", "ops"))
    monitored = [
        *({"workspace_id": there, "job_id": str(number)} for number in upstream),
        {"workspace_id": here, "job_id": str(upstream[0])},
        {"workspace_id": "424242", "job_id": "1"},
    ]
    job_id = job(deployment, api, {"job_completion": {"jobs": monitored}})

    def deleted() -> list[bool | None]:
        shown = api.get("get", job_id=job_id, include_trigger_state="true", include_trigger_history="true")
        assert shown["trigger_details"][0]["state"]["job_completion"] == shown["trigger_state"]["job_completion"]
        states = shown["trigger_state"]["job_completion"]["monitored_job_states"]
        assert [(one["workspace_id"], one["job_id"]) for one in states] == [tuple(one.values()) for one in monitored]
        return [one.get("is_deleted") for one in states]

    # A job of another workspace is missing in this one; of a workspace that is not here nothing is known.
    assert deleted() == [False, False, True, None]
    met.post("delete", job_id=upstream[1])
    assert deleted() == [False, True, True, None]


def test_a_continuous_job_runs_again_and_again(deployment: Deployment, api: Api, notebooks: Notebooks) -> None:
    task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "main")}}
    job_id = api.post("create", name="continuous", tasks=[task], continuous={"pause_status": "UNPAUSED"})["job_id"]
    eventually(lambda: len(runs(api, job_id)) >= 3)
    assert {run["trigger"] for run in runs(api, job_id)} == {"CONTINUOUS"}
    assert {run["state"].get("result_state") for run in runs(api, job_id)[1:]} == {"SUCCESS"}
    api.post("update", job_id=job_id, new_settings={"continuous": {"pause_status": "PAUSED"}})
    notebooks.block("main")
    eventually(lambda: all(run["status"]["state"] == "TERMINATED" for run in runs(api, job_id)))


def test_what_lands_right_after_the_job_is_made_starts_a_run(deployment: Deployment, api: Api) -> None:
    folder = deployment.layout.volume_path("ops", URL)
    folder.mkdir(parents=True)
    (folder / "before.json").write_text("{}")
    append(deployment, 1)
    notebook = {"notebook_path": write_notebook(deployment, "ops", "main")}
    task = {"task_key": "main", "notebook_task": notebook}
    made = [
        api.post("create", name="early", tasks=[task], trigger=trigger)["job_id"]
        for trigger in ({"file_arrival": {"url": URL}}, {"table_update": {"table_names": [FLIGHTS]}})
    ]
    (folder / "after.json").write_text("{}")
    append(deployment, 2)
    for job_id in made:
        details = eventually(partial(details_with_run, api, job_id))
        assert details["history"]["last_triggered"]["run_id"] == runs(api, job_id)[0]["run_id"]


def details_with_run(api: Api, job_id: int) -> Any:
    """The entry of `trigger_details` once its history names the run that was started."""
    (details,) = api.get("get", job_id=job_id, include_trigger_state="true")["trigger_details"]
    return details if "run_id" in details["history"].get("last_triggered", {}) else None


def test_trigger_details_show_the_history(deployment: Deployment, api: Api) -> None:
    job_id = job(deployment, api, {"table_update": {"table_names": [FLIGHTS]}})
    assert "trigger_details" not in api.get("get", job_id=job_id)
    (details,) = api.get("get", job_id=job_id, include_trigger_state="true")["trigger_details"]
    assert details["state"]["pause_status"] == "UNPAUSED"
    assert details["state"]["table_update"] == watched(api, job_id)["table"]
    held = details["history"]["last_not_triggered"]
    assert set(held) == {"timestamp", "description"}
    assert set(details["history"]) == {"last_not_triggered"}
    append(deployment, 1)
    fired = eventually(lambda: details_with_run(api, job_id))["history"]
    assert fired["last_triggered"]["timestamp"] > held["timestamp"]
    view = deployment.layout.table_path("ops", FLIGHTS).with_name("flights.view.json")
    view.write_text("{}")
    failed = eventually(lambda: failure_of(api, job_id))
    assert "the view main.silver.flights cannot be read" in failed["description"]


def failure_of(api: Api, job_id: int) -> Any:
    (details,) = api.get("get", job_id=job_id, include_trigger_state="true")["trigger_details"]
    return details["history"].get("last_failed")


def test_a_job_completion_trigger_stays_in_its_metastore(tmp_path: Path, notebooks: Notebooks) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    with deployment_in_thread(tmp_path / "h", ["ops", "met"], engine=InstantEngine(notebooks.run)) as up:
        api = Api(client(up, "ops"))
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(up, "ops", "main")}}
        trigger = {"job_completion": {"jobs": [{"workspace_id": up.workspaces["met"].workspace_id, "job_id": "7"}]}}
        with pytest.raises(InvalidParameterValue, match=r"of the metastore met; only jobs of .* metastore, ops"):
            api.post("create", name="j", tasks=[task], trigger=trigger)
        job_id = api.post("create", name="j", tasks=[task])["job_id"]
        for verb in ("update", "reset"):
            with pytest.raises(InvalidParameterValue, match="of the metastore met"):
                api.post(verb, job_id=job_id, new_settings={"tasks": [task], "trigger": trigger})
        assert "trigger" not in api.get("get", job_id=job_id)["settings"]
