"""Every setting that is taken is followed, refused by name, or declared to decide nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.refusals import Area, names
from databricks_bridge.local.request_fields.declaration import declaration
from databricks_bridge.local.runs.work import KINDS, is_serverless
from databricks_bridge.local.server.compute import CLUSTER_ID
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue
from databricks_bridge.local.server.job_settings import completed
from tests.local.local_kit import Api, Notebooks, client, write_notebook

FOLLOWED = {
    "jobs.JobSettings": "continuous format max_concurrent_runs name parameters queue run_as schedule tasks timeout_seconds "
    "trigger triggers",
    "jobs.Task": "depends_on disabled environment_key existing_cluster_id job_cluster_key max_retries "
    "min_retry_interval_millis retry_on_timeout run_if task_key timeout_seconds " + " ".join(KINDS),
}
WITHOUT_EFFECT = {
    "jobs.JobSettings": "budget_policy_id deployment description edit_mode email_notifications environments health "
    "job_clusters notification_settings parent_path performance_target tags usage_policy_id webhook_notifications",
    "jobs.Task": "description disable_auto_optimization email_notifications health libraries new_cluster "
    "notification_settings webhook_notifications",
}


@pytest.mark.parametrize("what", FOLLOWED)
def test_each_declared_setting_is_followed_refused_or_declared_to_decide_nothing(what: str) -> None:
    refused = {name.partition(".")[0] for area in (Area.SETTING, Area.TASK) for name in names(area)}
    known = {*FOLLOWED[what].split(), *WITHOUT_EFFECT[what].split(), *refused}
    assert set(declaration().objects[what]) - known == set()


def task(key: str = "main", **more: Any) -> dict[str, Any]:
    return {"task_key": key, "notebook_task": {"notebook_path": f"/Shared/{key}"}, **more}


CLUSTER = {"job_cluster_key": "small", "new_cluster": {"num_workers": 1}}
CRON = {"quartz_cron_expression": "0 0 12 * * ?", "timezone_id": "UTC"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a job cluster that is not defined": (
        {"tasks": [task(job_cluster_key="big")], "job_clusters": [CLUSTER]},
        "Job cluster 'big' is not defined in field 'job_clusters'",
    ),
    "a job cluster of a loop's task that is not defined": (
        {"tasks": [{"task_key": "l", "for_each_task": {"inputs": "[1]", "task": task("in", job_cluster_key="big")}}]},
        "Task in: Job cluster 'big' is not defined",
    ),
    "a job cluster that is defined twice": ({"job_clusters": [CLUSTER, CLUSTER]}, "a job_cluster_key of its own"),
    "an environment that is not defined": (
        {"tasks": [task(environment_key="default")]},
        "Environment 'default' is not defined in field 'environments'",
    ),
    "a relative path from Git": (
        {
            "git_source": {"git_url": "https://github.com/a/b", "git_provider": "gitHub"},
            "tasks": [{"task_key": "a", "notebook_task": {"notebook_path": "nb/a"}}],
        },
        "git_source",
    ),
    "a SQL file from Git": (
        {"tasks": [{"task_key": "a", "sql_task": {"warehouse_id": "w", "file": {"path": "a.sql", "source": "GIT"}}}]},
        "source GIT",
    ),
    "a Python file from Git": (
        {"tasks": [{"task_key": "a", "spark_python_task": {"python_file": "a.py", "source": "GIT"}}]},
        "source GIT",
    ),
    "a disabled task in a loop": (
        {"tasks": [{"task_key": "l", "for_each_task": {"inputs": "[1]", "task": task("in", disabled=True)}}]},
        "has no disabled",
    ),
    "a continuous job with dependencies": (
        {"continuous": {}, "tasks": [task("a"), task("b", depends_on=[{"task_key": "a"}])]},
        "a continuous job cannot have task dependencies",
    ),
    "a continuous job with retries": ({"continuous": {}, "tasks": [task(max_retries=1)]}, "cannot have a retry policy"),
    "a continuous job with retries without end": (
        {"continuous": {"pause_status": "PAUSED"}, "tasks": [task(max_retries=-1)]},
        "cannot have a retry policy",
    ),
    "a continuous job of two runs": ({"continuous": {}, "max_concurrent_runs": 2}, "max_concurrent_runs must be 1"),
    "a continuous trigger in a list, with retries": (
        {"triggers": [{"continuous": {}}], "tasks": [task(max_retries=1)]},
        "cannot have a retry policy",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_not_be_followed_is_refused(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises((InvalidParameterValue, FeatureDisabled), match=message):
        completed(settings)


TAKEN: dict[str, dict[str, Any]] = {
    "a job cluster that is defined": {"tasks": [task(job_cluster_key="small")], "job_clusters": [CLUSTER]},
    "an environment that is defined": {
        "tasks": [task(environment_key="default")],
        "environments": [{"environment_key": "default", "spec": {"client": "1"}}],
    },
    "a continuous job without retries": {"continuous": {}, "tasks": [task(max_retries=0)], "max_concurrent_runs": 1},
    "a scheduled job with retries": {"schedule": CRON, "tasks": [task(max_retries=2)], "max_concurrent_runs": 3},
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_is_followed_is_taken(case: str) -> None:
    assert completed(TAKEN[case])["tasks"][0]["task_key"] == "main"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tasks": [task(existing_cluster_id="0101-1-x")]}, "Cluster 0101-1-x does not exist"),
        (
            {"tasks": [{"task_key": "q", "sql_task": {"warehouse_id": "w", "file": {"path": "/q.sql"}}}]},
            "SQL warehouse w does not exist",
        ),
        ({"run_as": {"user_name": "nobody@example.com"}}, "the user 'nobody@example.com' does not exist"),
        ({"run_as": {"service_principal_name": "x"}}, "the service principal 'x' does not exist"),
        ({"run_as": {"group_name": "g"}}, "as a group"),
    ],
)
def test_names_of_what_is_not_there_are_refused_everywhere(
    http: httpx.Client, body: dict[str, Any], message: str
) -> None:
    body = {"tasks": [task()], **body}
    made = http.post("/api/2.2/jobs/create", json={"name": "j"}).json()["job_id"]
    for path, sent in (
        ("create", {"name": "x", **body}),
        ("reset", {"job_id": made, "new_settings": {"name": "x", **body}}),
        ("update", {"job_id": made, "new_settings": body}),
        ("runs/submit", body),
    ):
        answer = http.post(f"/api/2.2/jobs/{path}", json=sent)
        assert answer.status_code == 400, (path, answer.text)
        assert message in answer.json()["message"]
    assert [job["settings"]["name"] for job in http.get("/api/2.2/jobs/list").json()["jobs"]] == ["j"]
    assert "runs" not in http.get("/api/2.2/jobs/runs/list").json()


def test_what_is_there_is_taken(deployment: Deployment, api: Api) -> None:
    workspace = deployment.workspaces["ops"]
    for run_as in (
        {"user_name": workspace.user_name},
        {"service_principal_name": workspace.credentials.client_id},
    ):
        job_id = api.post("create", name="j", tasks=[task(existing_cluster_id=CLUSTER_ID)], run_as=run_as)["job_id"]
        assert api.get("get", job_id=job_id)["run_as_user_name"] == next(iter(run_as.values()))


def test_a_trigger_needs_the_grants_of_whom_the_job_runs_as(
    deployment: Deployment, ops: Any, http: httpx.Client
) -> None:
    from databricks.sdk.service.catalog import PermissionsChange, Privilege, VolumeType

    ops.catalogs.create("main")
    ops.schemas.create("s", "main")
    ops.volumes.create("main", "s", "v", VolumeType.MANAGED)
    principal = deployment.workspaces["ops"].credentials.client_id
    trigger = {"file_arrival": {"url": "/Volumes/main/s/v/"}, "pause_status": "PAUSED"}

    def reason(run_as: dict[str, str]) -> str:
        body = {"name": "j", "tasks": [task()], "trigger": trigger, "run_as": run_as}
        job_id = http.post("/api/2.2/jobs/create", json=body).json()["job_id"]
        return http.post("/local/test-trigger", json={"job_id": job_id}).text

    assert "PERMISSION_DENIED" not in reason({"user_name": "local-workspace"})
    assert "User does not have USE CATALOG" in reason({"service_principal_name": principal})
    granted = [Privilege.USE_CATALOG, Privilege.USE_SCHEMA, Privilege.READ_VOLUME]
    ops.grants.update("catalog", "main", changes=[PermissionsChange(principal=principal, add=granted)])
    assert "PERMISSION_DENIED" not in reason({"service_principal_name": principal})


DISABLED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a disabled task is not run, nor what needs its success": (
        {"a": {"disabled": True}, "b": {"depends_on": ["a"]}, "c": {}},
        {"a": "DISABLED", "b": "DISABLED", "c": "SUCCESS"},
    ),
    "what wants all done runs": (
        {"a": {"disabled": True}, "b": {"depends_on": ["a"], "run_if": "ALL_DONE"}},
        {"a": "DISABLED", "b": "SUCCESS"},
    ),
    "one other success is enough for at least one": (
        {"a": {"disabled": True}, "c": {}, "b": {"depends_on": ["a", "c"], "run_if": "AT_LEAST_ONE_SUCCESS"}},
        {"a": "DISABLED", "c": "SUCCESS", "b": "SUCCESS"},
    ),
    "none failed, beside one that ran": (
        {"a": {"disabled": True}, "c": {}, "b": {"depends_on": ["a", "c"], "run_if": "NONE_FAILED"}},
        {"a": "DISABLED", "c": "SUCCESS", "b": "SUCCESS"},
    ),
    "none failed, of disabled ones alone": (
        {"a": {"disabled": True}, "b": {"depends_on": ["a"], "run_if": "NONE_FAILED"}},
        {"a": "DISABLED", "b": "DISABLED"},
    ),
    "a disabled task has not failed": (
        {"a": {"disabled": True}, "b": {"depends_on": ["a"], "run_if": "AT_LEAST_ONE_FAILED"}},
        {"a": "DISABLED", "b": "DISABLED"},
    ),
    "all failed is not met by a disabled one": (
        {"a": {"disabled": True}, "b": {"depends_on": ["a"], "run_if": "ALL_FAILED"}},
        {"a": "DISABLED", "b": "DISABLED"},
    ),
}


@pytest.mark.parametrize("case", DISABLED)
def test_disabled_tasks(case: str, deployment: Deployment, api: Api, notebooks: Notebooks) -> None:
    tasks, ends = DISABLED[case]
    body = []
    for key, more in tasks.items():
        write_notebook(deployment, "ops", key)
        above = [{"task_key": other} for other in more.get("depends_on", ())]
        body.append(task(key, **{**more, **({"depends_on": above} if above else {})}))
    job_id = api.post("create", name="j", tasks=body)["job_id"]
    run = api.ended(api.post("run-now", job_id=job_id)["run_id"])
    assert {one["task_key"]: one["state"]["result_state"] for one in run["tasks"]} == ends
    assert sorted({request.task_key for request in notebooks.seen}) == sorted(
        key for key, end in ends.items() if end == "SUCCESS"
    )
    assert run["state"]["result_state"] == "SUCCESS"
    codes = {one["task_key"]: one["status"]["termination_details"]["code"] for one in run["tasks"]}
    assert codes["a"] == "DISABLED"


def test_the_location_of_a_managed_volume_is_refused(ops: Any, http: httpx.Client) -> None:
    ops.catalogs.create("main")
    body = {"catalog_name": "main", "schema_name": "default", "name": "v", "volume_type": "MANAGED"}
    refused = http.post("/api/2.1/unity-catalog/volumes", json={**body, "storage_location": "s3://bucket/path"})
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "CreateVolume storage_location can not be provided.",
    )
    assert list(ops.volumes.list("main", "default")) == []


def test_a_submitted_run_takes_the_settings_of_a_job(deployment: Deployment, api: Api) -> None:
    write_notebook(deployment, "ops", "main")
    environments = [{"environment_key": "default", "spec": {"client": "1"}}]
    run_id = api.post("runs/submit", tasks=[task(environment_key="default")], environments=environments)["run_id"]
    assert api.ended(run_id)["state"]["result_state"] == "SUCCESS"


@pytest.mark.parametrize(
    ("more", "serverless"),
    [
        ({}, True),
        ({"environment_key": "default"}, True),
        ({"new_cluster": {"num_workers": 1}}, False),
        ({"existing_cluster_id": CLUSTER_ID}, False),
        ({"job_cluster_key": "small"}, False),
        ({"job_cluster_key": "none"}, True),
    ],
)
def test_a_task_without_a_cluster_is_serverless(more: dict[str, Any], serverless: bool) -> None:
    clusters = [CLUSTER, {"job_cluster_key": "none", "serverless_compute": {}}]
    assert is_serverless({"job_clusters": clusters}, task(**more)) is serverless


def test_the_engine_is_told_whether_a_task_is_serverless(
    deployment: Deployment, api: Api, notebooks: Notebooks
) -> None:
    write_notebook(deployment, "ops", "main")
    for more in ({}, {"existing_cluster_id": CLUSTER_ID}):
        api.ended(api.post("runs/submit", tasks=[task(**more)])["run_id"])
    assert [request.serverless for request in notebooks.seen] == [True, False]
    assert client(deployment, "ops").current_user.me().user_name == "local-workspace"
