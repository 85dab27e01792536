"""A session of the Databricks CLI (built from its main of August 2026, direct engine), replayed by plain HTTP.

Paths, queries and bodies are those that it sent to a local workspace, in its order; only names were shortened. With the
CLI itself the second deployment said "7 unchanged", and so did the plan after each of the others.
"""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.local.local_kit import eventually

ROOT = "/Workspace/Users/local-workspace/.bundle/evidence"
UC = "/api/2.1/unity-catalog"
NOTEBOOK = "IyBEYXRhYnJpY2tzIG5vdGVib29rIHNvdXJjZQpwcmludCgxKQo="
SOURCE = b"# Databricks notebook source\nprint(1)\n"
JOB = {
    "deployment": {"kind": "BUNDLE", "metadata_file_path": f"{ROOT}/state/metadata.json"},
    "edit_mode": "UI_LOCKED",
    "format": "MULTI_TASK",
    "max_concurrent_runs": 1,
    "name": "items",
    "queue": {"enabled": True},
    "tasks": [{"notebook_task": {"notebook_path": f"{ROOT}/files/src/make"}, "task_key": "make"}],
}


def ok(answer: httpx.Response) -> Any:
    assert answer.is_success, (answer.request.method, str(answer.request.url), answer.status_code, answer.text)
    return answer.json() if answer.headers.get("content-type", "").startswith("application/json") else answer.content


def import_file(http: httpx.Client, path: str, content: bytes, *, overwrite: bool) -> httpx.Response:
    address = "/api/2.0/workspace-files/import-file/" + path.removeprefix("/").replace("/", "%2F")
    return http.post(address, params={"overwrite": str(overwrite).lower()}, content=content)


def state_file(http: httpx.Client, name: str) -> Any:
    path = f"{ROOT}/state/{name}"
    found = http.get("/api/2.0/workspace/get-status", params={"path": path, "return_export_info": "true"})
    if found.status_code == 404:
        assert found.json()["error_code"] == "RESOURCE_DOES_NOT_EXIST"
        return None
    ok(found)
    answer = http.get("/api/2.0/workspace/export", params={"direct_download": "true", "path": path})
    return json.loads(answer.raise_for_status().content)


def mkdirs(http: httpx.Client, path: str) -> None:
    ok(http.post("/api/2.0/workspace/mkdirs", json={"path": path}))


def locked(http: httpx.Client) -> None:
    """Takes the deployment's lock; the folder of the state is made when it is missing, as the CLI makes it."""
    lock = f"{ROOT}/state/deploy.lock"
    first = import_file(http, lock, b"{}", overwrite=False)
    if first.status_code == 404:
        mkdirs(http, f"{ROOT}/state")
        first = import_file(http, lock, b"{}", overwrite=False)
    ok(first)
    assert state_file(http, "deploy.lock") == {}
    again = import_file(http, lock, b"{}", overwrite=False)
    assert again.json()["error_code"] == "RESOURCE_ALREADY_EXISTS"


def unlocked(http: httpx.Client) -> None:
    ok(http.post("/api/2.0/workspace/delete", json={"path": f"{ROOT}/state/deploy.lock"}))


def folder_permissions(http: httpx.Client) -> Any:
    folder = ok(http.get("/api/2.0/workspace/get-status", params={"path": ROOT}))
    body = {"access_control_list": [{"group_name": "users", "permission_level": "CAN_READ"}]}
    ok(http.put(f"/api/2.0/permissions/directories/{folder['object_id']}", json=body))
    return ok(http.get(f"/api/2.0/permissions/directories/{folder['object_id']}"))


def plan(http: httpx.Client, job_id: int) -> dict[str, Any]:
    """What the CLI reads to say what has changed."""
    return {
        path: ok(http.get(path))
        for path in (
            f"{UC}/catalogs/bcat_c",
            f"{UC}/schemas/bcat_c.bronze",
            f"{UC}/volumes/bcat_c.bronze.landing",
            f"{UC}/permissions/catalog/bcat_c",
            f"{UC}/permissions/schema/bcat_c.bronze",
            f"/api/2.2/jobs/get?job_id={job_id}",
            f"/api/2.0/permissions/jobs/{job_id}",
        )
    }


def grants(http: httpx.Client, kind: str, name: str) -> dict[str, list[str]]:
    found = ok(http.get(f"{UC}/permissions/{kind}/{name}")).get("privilege_assignments", [])
    return {one["principal"]: sorted(one["privileges"]) for one in found}


def change(http: httpx.Client, kind: str, name: str, *changes: dict[str, Any]) -> None:
    ok(http.patch(f"{UC}/permissions/{kind}/{name}", json={"changes": list(changes)}))


def first_deployment(http: httpx.Client) -> int:
    assert state_file(http, "resources.json") is None
    locked(http)
    assert http.post(
        "/api/2.0/workspace/delete", json={"path": f"{ROOT}/artifacts/.internal", "recursive": True}
    ).json()["error_code"] == ("RESOURCE_DOES_NOT_EXIST")
    for folder in ("artifacts/.internal", "files", "files/src"):
        mkdirs(http, f"{ROOT}/{folder}")
    ok(import_file(http, f"{ROOT}/files/src/make.py", SOURCE, overwrite=True))
    folder_permissions(http)
    job_id = int(ok(http.post("/api/2.2/jobs/create", json=JOB))["job_id"])
    ok(http.post(f"{UC}/catalogs", json={"comment": "one", "name": "bcat_c"}))
    add = {"principal": "users", "remove": ["ALL_PRIVILEGES"]}
    change(http, "catalog", "bcat_c", {"add": ["USE_CATALOG"], **add})
    ok(http.post(f"{UC}/schemas", json={"catalog_name": "bcat_c", "comment": "two", "name": "bronze"}))
    volume = {"catalog_name": "bcat_c", "name": "landing", "schema_name": "bronze", "volume_type": "MANAGED"}
    ok(http.post(f"{UC}/volumes", json=volume))
    bob = {"add": ["SELECT"], "principal": "bob", "remove": ["ALL_PRIVILEGES"]}
    change(http, "schema", "bcat_c.bronze", {"add": ["SELECT", "USE_SCHEMA"], **add}, bob)
    owner = {"permission_level": "IS_OWNER", "user_name": "local-workspace"}
    view = {"group_name": "users", "permission_level": "CAN_VIEW"}
    ok(http.put(f"/api/2.0/permissions/jobs/{job_id}", json={"access_control_list": [view, owner]}))
    ok(import_file(http, f"{ROOT}/state/resources.json", json.dumps({"job": job_id}).encode(), overwrite=True))
    unlocked(http)
    return job_id


def test_a_bundle_is_deployed_redeployed_changed_and_destroyed(http: httpx.Client) -> None:
    job_id = first_deployment(http)
    deployed = plan(http, job_id)
    assert grants(http, "catalog", "bcat_c") == {"users": ["USE_CATALOG"]}, "the owner holds no grant of its own"
    assert grants(http, "schema", "bcat_c.bronze") == {"bob": ["SELECT"], "users": ["SELECT", "USE_SCHEMA"]}
    settings = deployed[f"/api/2.2/jobs/get?job_id={job_id}"]["settings"]
    assert {key: settings[key] for key in JOB if key != "tasks"} == {k: v for k, v in JOB.items() if k != "tasks"}

    # The second deployment writes its state and the folder's permissions anew, and nothing else.
    assert state_file(http, "resources.json") == {"job": job_id}
    locked(http)
    assert folder_permissions(http) == folder_permissions(http)
    unlocked(http)
    assert plan(http, job_id) == deployed

    locked(http)
    ok(http.patch(f"{UC}/catalogs/bcat_c", json={"comment": "uno"}))
    ok(http.patch(f"{UC}/schemas/bcat_c.bronze", json={"comment": "dos"}))
    users = {"add": ["SELECT", "USE_SCHEMA"], "principal": "users", "remove": ["ALL_PRIVILEGES"]}
    change(http, "schema", "bcat_c.bronze", users, {"principal": "bob", "remove": ["ALL_PRIVILEGES"]})
    unlocked(http)
    changed = plan(http, job_id)
    assert changed[f"{UC}/catalogs/bcat_c"]["comment"] == "uno"
    assert changed[f"{UC}/schemas/bcat_c.bronze"]["comment"] == "dos"
    assert grants(http, "schema", "bcat_c.bronze") == {"users": ["SELECT", "USE_SCHEMA"]}

    locked(http)
    ok(http.post("/api/2.2/jobs/delete", json={"job_id": job_id}))
    ok(http.delete(f"{UC}/volumes/bcat_c.bronze.landing"))
    ok(http.delete(f"{UC}/schemas/bcat_c.bronze?force=true"))
    ok(http.delete(f"{UC}/catalogs/bcat_c?force=true"))
    ok(http.post("/api/2.0/workspace/delete", json={"path": ROOT, "recursive": True}))
    assert state_file(http, "deploy.lock") is None
    assert http.get(f"{UC}/catalogs/bcat_c").status_code == 404
    assert http.get("/api/2.2/jobs/list").json().get("jobs", []) == []


def test_the_permissions_of_a_directory_read_back(http: httpx.Client) -> None:
    mkdirs(http, ROOT)
    kept = folder_permissions(http)["access_control_list"]
    levels = {one.get("group_name"): one["all_permissions"][0]["permission_level"] for one in kept}
    assert levels["users"] == "CAN_READ"


def test_the_verbs_of_workspace(http: httpx.Client) -> None:
    mkdirs(http, "/Shared/x")
    body = {"content": NOTEBOOK, "format": "SOURCE", "language": "PYTHON", "path": "/Shared/x/n"}
    ok(http.post("/api/2.0/workspace/import", json=body))
    assert http.post("/api/2.0/workspace/import", json=body).json()["error_code"] == "RESOURCE_ALREADY_EXISTS"
    for folder, file, content in (("d", "d/n.py", SOURCE), ("d/sub", "d/sub/f.txt", b"hi\n")):
        mkdirs(http, f"/Shared/x/{folder}")
        ok(import_file(http, f"/Shared/x/{file}", content, overwrite=False))

    def status(path: str) -> httpx.Response:
        return http.get("/api/2.0/workspace/get-status", params={"path": path})

    kinds = {
        path: ok(status(path))["object_type"] for path in ("/Shared/x/d/n", "/Shared/x/d/sub/f.txt", "/Shared/x/d")
    }
    assert list(kinds.values()) == ["NOTEBOOK", "FILE", "DIRECTORY"]
    assert ok(http.get("/api/2.0/workspace/export", params={"path": "/Shared/x/n"}))["content"] == NOTEBOOK
    not_empty = http.post("/api/2.0/workspace/delete", json={"path": "/Shared/x"})
    assert not_empty.json()["error_code"] == "DIRECTORY_NOT_EMPTY"
    ok(http.post("/api/2.0/workspace/delete", json={"path": "/Shared/x", "recursive": True}))
    assert status("/Shared/x").status_code == 404


def test_the_verbs_of_unity_catalog_and_fs(http: httpx.Client) -> None:
    volume = {"catalog_name": "k", "name": "v", "schema_name": "s", "volume_type": "MANAGED"}
    made = (
        ("catalogs", {"name": "k"}, "k"),
        ("schemas", {"catalog_name": "k", "name": "s"}, "k.s"),
        ("volumes", volume, "k.s.v"),
    )
    for kind, body, name in made:
        ok(http.post(f"{UC}/{kind}", json=body))
        assert ok(http.patch(f"{UC}/{kind}/{name}", json={"comment": f"of {name}"}))["comment"] == f"of {name}"
        assert ok(http.get(f"{UC}/{kind}/{name}"))["comment"] == f"of {name}"
    change(http, "schema", "k.s", {"principal": "bob", "add": ["SELECT", "USE_SCHEMA"]})
    assert grants(http, "schema", "k.s")["bob"] == ["SELECT", "USE_SCHEMA"]
    change(http, "schema", "k.s", {"principal": "bob", "remove": ["ALL_PRIVILEGES"]})
    assert "bob" not in grants(http, "schema", "k.s")

    folders, files = "/api/2.0/fs/directories/Volumes/k/s/v/a", "/api/2.0/fs/files/Volumes/k/s/v/a/f.txt"
    assert http.put(folders).status_code == 204
    assert http.head(f"{folders}/f.txt").status_code == http.head(files).status_code == 404
    assert http.head(folders).status_code == 200
    assert http.put(files, params={"overwrite": "false"}, content=b"hi\n").status_code == 204
    assert http.put(files, params={"overwrite": "false"}, content=b"ho\n").status_code == 409
    assert [one["name"] for one in ok(http.get(folders))["contents"]] == ["f.txt"]
    assert http.get(files).content == b"hi\n"
    assert http.delete(files).status_code == http.delete(folders).status_code == 204
    for kind, _, name in reversed(made):
        ok(http.delete(f"{UC}/{kind}/{name}"))
        assert http.get(f"{UC}/{kind}/{name}").status_code == 404


def test_the_verbs_of_jobs(http: httpx.Client) -> None:
    mkdirs(http, "/Shared/j")
    ok(http.post("/api/2.0/workspace/import", json={"content": NOTEBOOK, "language": "PYTHON", "path": "/Shared/j/n"}))
    body = {"name": "j", "tasks": [{"notebook_task": {"notebook_path": "/Shared/j/n"}, "task_key": "t"}]}
    job_id = ok(http.post("/api/2.2/jobs/create", json=body))["job_id"]
    assert ok(http.get("/api/2.2/jobs/get", params={"job_id": job_id}))["settings"]["name"] == "j"
    assert [job["job_id"] for job in ok(http.get("/api/2.2/jobs/list"))["jobs"]] == [job_id]
    run_id = ok(http.post("/api/2.2/jobs/run-now", json={"job_id": job_id}))["run_id"]

    def run() -> Any:
        return ok(http.get("/api/2.2/jobs/runs/get", params={"run_id": run_id}))

    assert eventually(lambda: run()["state"].get("result_state")) == "SUCCESS"
    assert ok(http.post("/api/2.2/jobs/runs/cancel", json={"run_id": run_id})) == {}
    assert run()["state"]["result_state"] == "SUCCESS", "what has ended stays as it ended"
    repaired = http.post("/api/2.2/jobs/runs/repair", json={"rerun_all_failed_tasks": True, "run_id": run_id})
    assert (repaired.status_code, repaired.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert "has no failed tasks" in repaired.json()["message"]
    (task,) = run()["tasks"]
    assert ok(http.get("/api/2.2/jobs/runs/export", params={"run_id": task["run_id"]}))["views"]
    access = f"/api/2.0/permissions/jobs/{job_id}"
    ok(http.put(access, json={"access_control_list": [{"group_name": "users", "permission_level": "CAN_VIEW"}]}))
    assert "users" in {one.get("group_name") for one in ok(http.get(access))["access_control_list"]}
    ok(http.post("/api/2.2/jobs/runs/delete", json={"run_id": run_id}))
    assert http.get("/api/2.2/jobs/runs/get", params={"run_id": run_id}).status_code in (400, 404)
    ok(http.post("/api/2.2/jobs/delete", json={"job_id": job_id}))
    assert http.get("/api/2.2/jobs/get", params={"job_id": job_id}).status_code in (400, 404)
