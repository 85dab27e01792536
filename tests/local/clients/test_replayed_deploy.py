"""What the Databricks CLI (direct engine) sends for a `bundle deploy`, recorded with it, and what it reads before the next one.

A field that it reads and that nobody gave is a change to it: of a catalog's storage root it makes the catalog anew (T73).
"""

from __future__ import annotations

import httpx

JOB = {
    "deployment": {
        "kind": "BUNDLE",
        "metadata_file_path": "/Workspace/Users/me/.bundle/replayed/prod/state/metadata.json",
    },
    "edit_mode": "UI_LOCKED",
    "format": "MULTI_TASK",
    "max_concurrent_runs": 1,
    "name": "nightly",
    "queue": {"enabled": True},
    "tasks": [{"notebook_task": {"notebook_path": "/Workspace/Shared/nb"}, "task_key": "main"}],
}
CATALOG = {"comment": "one", "name": "bcat_c"}
SCHEMA = {"catalog_name": "bcat_c", "comment": "two", "name": "bronze"}
VOLUME = {"catalog_name": "bcat_c", "name": "landing", "schema_name": "bronze", "volume_type": "MANAGED"}
CATALOGS = "/api/2.1/unity-catalog/catalogs"
IMMUTABLE = {"storage_root", "connection_name", "provider_name", "share_name"}


def test_a_deployed_bundle_reads_back_as_it_was_sent(http: httpx.Client) -> None:
    made = http.post("/api/2.2/jobs/create", json=JOB)
    assert made.status_code == 200, made.text
    job_id = made.json()["job_id"]
    http.put(
        f"/api/2.0/permissions/jobs/{job_id}",
        json={
            "access_control_list": [
                {"group_name": "users", "permission_level": "CAN_VIEW"},
                {"permission_level": "IS_OWNER", "user_name": "local-workspace"},
            ]
        },
    ).raise_for_status()
    for kind, body in (("catalogs", CATALOG), ("schemas", SCHEMA), ("volumes", VOLUME)):
        created = http.post(f"/api/2.1/unity-catalog/{kind}", json=body)
        assert created.status_code == 200, created.text
        name = ".".join(body[key] for key in ("catalog_name", "schema_name", "name") if key in body)
        for answer in (created.json(), http.get(f"/api/2.1/unity-catalog/{kind}/{name}").json()):
            assert body.items() <= answer.items()
            assert not IMMUTABLE & answer.keys()
    (listed,) = [one for one in http.get(CATALOGS).json()["catalogs"] if one["name"] == "bcat_c"]
    assert not IMMUTABLE & listed.keys()
    settings = http.get("/api/2.2/jobs/get", params={"job_id": job_id}).json()["settings"]
    for key, value in JOB.items():
        if key != "tasks":
            assert settings[key] == value
    access = http.get(f"/api/2.0/permissions/jobs/{job_id}").json()["access_control_list"]
    levels = {
        one.get("group_name") or one.get("user_name"): one["all_permissions"][0]["permission_level"] for one in access
    }
    assert levels["users"] == "CAN_VIEW"
    assert levels["local-workspace"] == "IS_OWNER"


def test_a_storage_root_that_would_not_be_followed_is_refused(http: httpx.Client) -> None:
    for path, body in ((CATALOGS, CATALOG), ("/api/2.1/unity-catalog/schemas", {**SCHEMA, "catalog_name": "main"})):
        http.post(CATALOGS, json={"name": "main"})
        answer = http.post(path, json={**body, "storage_root": "s3://bucket/path"})
        assert answer.status_code == 400
        assert "storage_root: the local workspace, which is not Databricks" in answer.json()["message"]
