"""Small things that real clients ask for and Databricks answers: permissions of folders, zero timers, cancels of one task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import Api, Notebooks, eventually, failure, write_notebook

MakeJob = Callable[..., int]
ADMINS = {
    "group_name": "admins",
    "all_permissions": [{"permission_level": "CAN_MANAGE", "inherited": True, "inherited_from_object": ["/%s/"]}],
}


def named(ops: Any, path: str) -> str:
    return str(ops.workspace.get_status(path).object_id)


@pytest.mark.parametrize(
    ("kind", "path"), [("directories", "/Shared"), ("notebooks", "/Shared/main"), ("files", "/Shared/f.txt")]
)
def test_permissions_of_what_is_in_the_workspace(deployment: Deployment, ops: Any, kind: str, path: str) -> None:
    """As `databricks bundle deploy` sets them for a top-level `permissions:`."""
    import io

    from databricks.sdk.service.iam import AccessControlRequest, PermissionLevel
    from databricks.sdk.service.workspace import ImportFormat

    write_notebook(deployment, "ops", "main")
    ops.workspace.upload("/Shared/f.txt", io.BytesIO(b"x"), format=ImportFormat.RAW)
    number = named(ops, path)
    given = [
        AccessControlRequest(user_name="local-workspace", permission_level=PermissionLevel.CAN_MANAGE),
        AccessControlRequest(group_name="analysts", permission_level=PermissionLevel.CAN_READ),
    ]
    ops.permissions.set(kind, number, access_control_list=given)
    shown = ops.permissions.get(kind, number).as_dict()
    assert (shown["object_id"], shown["object_type"] in ("directory", "notebook", "file")) == (
        f"/{kind}/{number}",
        True,
    )
    levels = {
        one.get("user_name") or one.get("group_name"): one["all_permissions"][0] for one in shown["access_control_list"]
    }
    assert levels["local-workspace"] == {"permission_level": "CAN_MANAGE", "inherited": False}
    assert levels["analysts"] == {"permission_level": "CAN_READ", "inherited": False}
    assert levels["admins"]["inherited_from_object"] == [f"/{kind}/"]
    more = [AccessControlRequest(user_name="ann", permission_level=PermissionLevel.CAN_RUN)]
    after = ops.permissions.update(kind, number, access_control_list=more).access_control_list
    assert {one.user_name or one.group_name for one in after} == {"local-workspace", "analysts", "ann", "admins"}
    assert [
        one.permission_level.value for one in ops.permissions.get_permission_levels(kind, number).permission_levels
    ] == [
        "CAN_READ",
        "CAN_RUN",
        "CAN_EDIT",
        "CAN_MANAGE",
    ]


def test_permissions_of_what_is_not_there(deployment: Deployment, ops: Any) -> None:
    from databricks.sdk.errors import NotFound

    write_notebook(deployment, "ops", "main")
    for kind, number in (("directories", "1"), ("notebooks", named(ops, "/Shared")), ("jobs", "1")):
        with pytest.raises(NotFound):
            ops.permissions.get(kind, number)


def test_admins_manage_each_job_by_inheritance(api: Api, ops: Any) -> None:
    job_id = api.post("create", name="j")["job_id"]
    shown = ops.api_client.do("GET", f"/api/2.0/permissions/jobs/{job_id}")["access_control_list"]
    assert [one for one in shown if one.get("group_name") == "admins"] == [
        {
            "group_name": "admins",
            "all_permissions": [
                {"permission_level": "CAN_MANAGE", "inherited": True, "inherited_from_object": ["/jobs/"]}
            ],
        }
    ]


@pytest.mark.parametrize("timer", ["min_time_between_triggers_seconds", "wait_after_last_change_seconds"])
@pytest.mark.parametrize("zero", [0, "0", 0.0])
def test_a_timer_of_zero_is_not_given(api: Api, timer: str, zero: Any) -> None:
    for kind, body in (
        ("table_update", {"table_names": ["a.b.c"]}),
        ("file_arrival", {"url": "/Volumes/main/s/v/"}),
        ("model", {"condition": "MODEL_CREATED"}),
    ):
        job_id = api.post("create", name="j", trigger={kind: {**body, timer: zero}})["job_id"]
        assert api.get("get", job_id=job_id)["settings"]["trigger"][kind] == body


def test_a_task_that_is_named_twice_is_not_repaired(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    notebooks.functions["main"] = lambda request: failure("ValueError: no")
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    api.ended(run_id)
    with pytest.raises(InvalidParameterValue, match="names main more than once"):
        api.post("runs/repair", run_id=run_id, rerun_tasks=["main", "main"])


def task_runs(api: Api, run_id: int) -> dict[str, int]:
    return {task["task_key"]: task["run_id"] for task in api.run(run_id)["tasks"]}


def results(run: dict[str, Any]) -> dict[str, str]:
    return {task["task_key"]: task["state"]["result_state"] for task in run["tasks"]}


def test_one_task_is_cancelled_and_the_others_go_on(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    for name in ("a", "b"):
        notebooks.block(name)
    below = {"depends_on": [{"task_key": "a"}]}
    job_id = make_job({"a": {"max_retries": 3}, "b": {}, "c": below, "d": {**below, "run_if": "ALL_DONE"}})
    run_id = api.post("run-now", job_id=job_id)["run_id"]
    eventually(lambda: len(notebooks.seen) == 2)
    api.post("runs/cancel", run_id=task_runs(api, run_id)["a"])
    eventually(lambda: notebooks.killed)
    assert [request.task_key for request in notebooks.killed] == ["a"]
    eventually(lambda: notebooks.runs_of("d"))
    notebooks.unblock("b")
    ended = api.ended(run_id)
    assert results(ended) == {"a": "CANCELED", "b": "SUCCESS", "c": "UPSTREAM_CANCELED", "d": "SUCCESS"}
    api.post("runs/cancel", run_id=task_runs(api, run_id)["a"])  # it has ended
    assert results(api.run(run_id)) == results(ended)


def test_a_task_that_waits_is_cancelled_when_its_turn_comes(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("a")
    run_id = api.post("run-now", job_id=make_job({"a": {}, "b": {"depends_on": [{"task_key": "a"}]}}))["run_id"]
    eventually(lambda: notebooks.seen)
    api.post("runs/cancel", run_id=task_runs(api, run_id)["b"])
    notebooks.unblock("a")
    ended = api.ended(run_id)
    assert results(ended) == {"a": "SUCCESS", "b": "CANCELED"}
    assert notebooks.runs_of("b") == []
    assert ended["state"]["result_state"] == "CANCELED"


def test_the_only_task_of_a_run_is_cancelled(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    eventually(lambda: notebooks.seen)
    api.post("runs/cancel", run_id=task_runs(api, run_id)["main"])
    assert api.ended(run_id)["state"]["result_state"] == "CANCELED"


def test_run_now_restarts_an_active_continuous_job(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job(continuous={})
    (first,) = eventually(lambda: api.get("runs/list", job_id=job_id, active_only="true").get("runs"))
    eventually(lambda: notebooks.seen)
    for _ in range(2):  # the second is the same request again
        assert api.post("run-now", job_id=job_id, idempotency_token="once") == {}
    assert api.ended(first["run_id"])["state"]["result_state"] == "CANCELED"
    (second,) = eventually(lambda: api.get("runs/list", job_id=job_id, active_only="true").get("runs"))
    assert second["trigger"] == "CONTINUOUS_RESTART"
    assert len(api.get("runs/list", job_id=job_id)["runs"]) == 2
    api.post("update", job_id=job_id, new_settings={"continuous": {"pause_status": "PAUSED"}})
    notebooks.unblock("main")
    api.ended(second["run_id"])
    assert "run_id" in api.post("run-now", job_id=job_id)


def test_a_job_is_shown_as_databricks_shows_it(api: Api, make_job: MakeJob) -> None:
    trigger = {"table_update": {"table_names": ["a.b.c"]}, "pause_status": "PAUSED"}
    job = api.get("get", job_id=make_job(trigger=trigger))
    settings = job["settings"]
    assert settings["run_as"] == {"user_name": "local-workspace"}
    assert job["run_as_user_name"] == "local-workspace"
    assert settings["trigger"] == trigger
    assert (settings["tasks"][0]["timeout_seconds"], settings["tasks"][0]["email_notifications"]) == (0, {})
    listed = api.get("list", expand_tasks="true")["jobs"][0]["settings"]
    assert listed == settings
    every = {"table_update": {"table_names": ["a.b.c"], "condition": "ALL_UPDATED"}, "pause_status": "PAUSED"}
    assert api.get("get", job_id=make_job(trigger=every))["settings"]["trigger"] == every
    empty = api.get("get", job_id=api.post("create", name="empty")["job_id"])["settings"]
    assert "tasks" not in empty
