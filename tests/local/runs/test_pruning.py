"""Old runs go after 60 days by the service's clock, and of one job no more than a bound are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.runs.pruning import prune
from tests.local.local_kit import Api

DAY_MS = 24 * 3600 * 1000


def ran(api: Api, job_id: int, **more: Any) -> dict[str, Any]:
    return api.ended(api.post("run-now", job_id=job_id, **more)["run_id"])


def ids(api: Api) -> set[int]:
    return {run["run_id"] for run in api.get("runs/list").get("runs", ())}


def test_runs_go_after_sixty_days_with_their_folders(
    deployment: Deployment, api: Api, make_job: Callable[..., int]
) -> None:
    job_id = make_job()
    run = ran(api, job_id, idempotency_token="once")
    workspace = deployment.workspaces["ops"]
    folder = workspace.layout.run_folder("ops", run["tasks"][0]["run_id"])
    assert folder.is_dir()
    store, end = workspace.store, run["end_time"]
    assert prune(store, deployment.workspaces, end + 60 * DAY_MS - 1) == []
    assert prune(store, deployment.workspaces, end + 60 * DAY_MS + 1) == [run["run_id"]]
    assert ids(api) == set()
    assert not folder.exists()
    assert store.query("SELECT * FROM run_ends") == []
    again = api.post("run-now", job_id=job_id, idempotency_token="once")["run_id"]
    assert again != run["run_id"]
    assert api.get("get", job_id=job_id)["job_id"] == job_id


def test_of_one_job_the_newest_are_kept(deployment: Deployment, api: Api, make_job: Callable[..., int]) -> None:
    busy, quiet = make_job(), make_job({"other": {}})
    runs = [ran(api, busy)["run_id"] for _ in range(4)]
    other = ran(api, quiet)["run_id"]
    workspace = deployment.workspaces["ops"]
    assert sorted(prune(workspace.store, deployment.workspaces, int(workspace.now() * 1000), most=2)) == runs[:2]
    assert ids(api) == {*runs[2:], other}


def test_what_is_under_way_stays(
    deployment: Deployment, api: Api, notebooks: Any, make_job: Callable[..., int]
) -> None:
    notebooks.block("main")
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    api.running(run_id)
    workspace = deployment.workspaces["ops"]
    assert prune(workspace.store, deployment.workspaces, int(workspace.now() * 1000) + 100 * DAY_MS, most=0) == []
    notebooks.unblock("main")
    api.ended(run_id)
