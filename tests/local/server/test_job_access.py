"""Who may do what with a job: given when it is made, and the one owner that it has. Over HTTP, as SDKs send it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.local_kit import Api

ME = "local-workspace"


def held(ops: Any, job_id: int) -> dict[str, str]:
    entries = ops.permissions.get("jobs", str(job_id)).access_control_list
    return {
        one.user_name or one.group_name or one.service_principal_name: one.all_permissions[0].permission_level.value
        for one in entries
        if one.group_name != "admins"
    }


def entry(name: str, level: str, kind: str = "user_name") -> dict[str, str]:
    return {kind: name, "permission_level": level}


def patch(ops: Any, job_id: int, *entries: dict[str, str], method: str = "PATCH") -> None:
    ops.api_client.do(method, f"/api/2.0/permissions/jobs/{job_id}", body={"access_control_list": list(entries)})


def test_a_job_is_made_with_its_permissions(ops: Any) -> None:
    from databricks.sdk.service import jobs

    access = [
        jobs.JobAccessControlRequest(user_name="u@x", permission_level=jobs.JobPermissionLevel.CAN_VIEW),
        jobs.JobAccessControlRequest(group_name="g", permission_level=jobs.JobPermissionLevel.CAN_MANAGE_RUN),
    ]
    job_id = ops.jobs.create(name="job", access_control_list=access).job_id
    assert held(ops, job_id) == {"u@x": "CAN_VIEW", "g": "CAN_MANAGE_RUN", ME: "IS_OWNER"}
    assert (
        "access_control_list" not in ops.api_client.do("GET", "/api/2.2/jobs/get", query={"job_id": job_id})["settings"]
    )
    owned = [
        jobs.JobAccessControlRequest(service_principal_name="sp", permission_level=jobs.JobPermissionLevel.IS_OWNER)
    ]
    assert held(ops, ops.jobs.create(name="job", access_control_list=owned).job_id) == {"sp": "IS_OWNER"}
    assert held(ops, ops.jobs.create(name="job").job_id) == {ME: "IS_OWNER"}


@pytest.mark.parametrize(
    ("access", "why"),
    [
        ("all", "access_control_list must be a list"),
        ([entry("u@x", "CAN_FLY")], "permission_level (of|is).*CAN_MANAGE_RUN"),
        ([{"permission_level": "CAN_VIEW"}], "each entry needs one of"),
        ([entry("u@x", "IS_OWNER"), entry("sp", "IS_OWNER", "service_principal_name")], "exactly one owner"),
        ([entry("g", "IS_OWNER", "group_name")], "A group cannot own a job: g"),
    ],
)
def test_permissions_that_cannot_be_make_no_job(ops: Any, api: Api, access: Any, why: str) -> None:
    from databricks.sdk.errors import BadRequest

    with pytest.raises(BadRequest, match=why):
        api.post("create", name="job", access_control_list=access)
    assert "jobs" not in api.get("list")
    job_id = api.post("create", name="job", access_control_list=None)["job_id"]
    with pytest.raises(BadRequest, match=why):
        ops.api_client.do("PATCH", f"/api/2.0/permissions/jobs/{job_id}", body={"access_control_list": access})
    assert held(ops, job_id) == {ME: "IS_OWNER"}


def test_a_job_has_one_owner_and_a_new_one_takes_its_place(ops: Any, api: Api) -> None:
    job_id = api.post("create", name="job", access_control_list=[entry("v", "CAN_VIEW")])["job_id"]
    patch(ops, job_id, entry("u@x", "IS_OWNER"))
    assert held(ops, job_id) == {"v": "CAN_VIEW", "u@x": "IS_OWNER"}
    patch(ops, job_id, entry("sp", "IS_OWNER", "service_principal_name"), entry("u@x", "CAN_MANAGE"))
    assert held(ops, job_id) == {"v": "CAN_VIEW", "sp": "IS_OWNER", "u@x": "CAN_MANAGE"}
    patch(ops, job_id, entry("v", "CAN_MANAGE_RUN"))
    assert held(ops, job_id) == {"v": "CAN_MANAGE_RUN", "sp": "IS_OWNER", "u@x": "CAN_MANAGE"}
    patch(ops, job_id, entry("v", "CAN_VIEW"), method="PUT")
    assert held(ops, job_id) == {"v": "CAN_VIEW", ME: "IS_OWNER"}


@pytest.mark.parametrize("number", ["²", "٣", "1_000", " 1 ", "+1", "1.5", "9" * 5000, "-" + "9" * 19])
def test_an_id_is_written_in_plain_digits(api: Api, number: str) -> None:
    from databricks.sdk.errors import BadRequest

    for call in (api.get, api.post):
        with pytest.raises(BadRequest, match=r"job_id:? (must be a whole number|.*is out of range)"):
            call("get" if call == api.get else "run-now", job_id=number)


def test_nulls_over_http_are_what_is_left_out(api: Api) -> None:
    given = {"name": "j", "queue": None, "max_concurrent_runs": None, "parameters": None, "schedule": None}
    job_id = api.post("create", **given)["job_id"]
    plain = api.post("create", name="j")["job_id"]
    assert api.get("get", job_id=job_id)["settings"] == api.get("get", job_id=plain)["settings"]
    api.post("update", job_id=job_id, new_settings={"queue": {"enabled": True}, "timeout_seconds": 5})
    api.post("update", job_id=job_id, new_settings={"queue": None, "timeout_seconds": None, "name": "k"})
    settings = api.get("get", job_id=job_id)["settings"]
    assert (settings["queue"], settings["timeout_seconds"], settings["name"]) == ({"enabled": True}, 5, "k")
