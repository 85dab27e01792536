"""The calls that the Databricks CLI makes for `dags/databricks/`, replayed: validate, deploy (direct engine), twice, run-now, fs cp.

The CLI is not to be had here. Its calls are those of its recorded acceptance files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from databricks_bridge.local.lab_bundle import Bundle, read_bundle
from databricks_bridge.local.marked_yaml import read_marked
from tests.local.local_kit import eventually

ROOT = Path(__file__).resolve().parents[3]
STATE = "/Workspace/Users/local-workspace/.bundle/databricks-bridge/ops/state"
FILES = "/api/2.0/workspace-files/import-file/"


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """The bundle of the examples, its target ops."""
    where = tmp_path / "where.yml"
    where.write_text(f"bundle: {{file: {ROOT / 'dags' / 'databricks' / 'databricks.yml'}, target: ops}}\n")
    return read_bundle(read_marked(where).fields()["bundle"])


def done(answer: httpx.Response) -> Any:
    assert answer.is_success, (answer.request.method, answer.request.url.path, answer.text)
    return answer.json() if answer.content else None


def validate(http: httpx.Client) -> None:
    done(http.get("/.well-known/databricks-config"))
    assert done(http.get("/api/2.0/preview/scim/v2/Me"))["userName"] == "local-workspace"
    for path in (STATE, STATE.rpartition("/")[0]):
        assert http.get("/api/2.0/workspace/get-status", params={"path": path}).status_code in (200, 404)
    done(http.post("/api/2.0/workspace/mkdirs", json={"path": STATE.replace("/state", "/files")}))


def put(http: httpx.Client, path: str, content: bytes, *, overwrite: bool = True) -> httpx.Response:
    headers = {"Content-Type": "application/octet-stream"}
    query = {"overwrite": "true" if overwrite else "false"}
    return http.post(FILES + quote(path.removeprefix("/"), safe=""), params=query, content=content, headers=headers)


def state(http: httpx.Client) -> Any:
    answer = http.get(
        "/api/2.0/workspace/export", params={"path": f"{STATE}/resources.json", "direct_download": "true"}
    )
    return None if answer.status_code == 404 else done(answer)


def deploy(http: httpx.Client, bundle: Bundle) -> dict[str, int]:
    """The ids of the jobs by their key."""
    done(http.post("/api/2.0/workspace/mkdirs", json={"path": STATE}))
    done(put(http, f"{STATE}/deploy.lock", b"{}", overwrite=False))
    second = put(http, f"{STATE}/deploy.lock", b"{}", overwrite=False)
    assert second.is_client_error, "somebody else deploys"
    assert second.json()["message"].endswith("deploy.lock) already exists.")
    known: dict[str, int] = state(http) or {}
    for path, file in bundle.notebooks.items():
        done(http.post("/api/2.0/workspace/mkdirs", json={"path": path.rpartition("/")[0]}))
        done(put(http, f"{path}.py", file.read_bytes()))
    for key, job in bundle.jobs.items():
        if key in known:
            assert done(http.get("/api/2.2/jobs/get", params={"job_id": known[key]}))["settings"]["name"] == job["name"]
            done(http.post("/api/2.2/jobs/reset", json={"job_id": known[key], "new_settings": job}))
        else:
            known[key] = done(http.post("/api/2.2/jobs/create", json=job))["job_id"]
    for name, content in (("resources", known), ("deployment", {"version": 1}), ("metadata", {"version": 1})):
        done(put(http, f"{STATE}/{name}.json", json.dumps(content).encode()))
    done(http.post("/api/2.0/workspace/delete", json={"path": f"{STATE}/deploy.lock"}))
    return known


def test_validate_deploy_twice_list_and_run(http: httpx.Client, bundle: Bundle) -> None:
    validate(http)
    first = deploy(http, bundle)
    assert deploy(http, bundle) == first, "the second deployment changes the jobs of the first"
    listed = done(http.get("/api/2.2/jobs/list", params={"limit": 100, "expand_tasks": "false"}))["jobs"]
    names = {job["job_id"]: job["settings"]["name"] for job in listed}
    assert names == {first[key]: job["name"] for key, job in bundle.jobs.items()}
    run_id = done(http.post("/api/2.2/jobs/run-now", json={"job_id": first["create_tables"]}))["run_id"]

    def ended() -> Any:
        run = done(http.get("/api/2.2/jobs/runs/get", params={"run_id": run_id}))
        return run["state"].get("result_state")

    assert eventually(ended) == "SUCCESS"


def test_fs_cp_up_and_down(http: httpx.Client) -> None:
    for path, body in (("catalogs", {"name": "main"}), ("schemas", {"name": "landing", "catalog_name": "main"})):
        done(http.post(f"/api/2.1/unity-catalog/{path}", json=body))
    volume = {"name": "files", "catalog_name": "main", "schema_name": "landing", "volume_type": "MANAGED"}
    done(http.post("/api/2.1/unity-catalog/volumes", json=volume))
    folder = "/Volumes/main/landing/files"
    assert http.head(f"/api/2.0/fs/directories{folder}").is_success
    assert http.head(f"/api/2.0/fs/directories{folder}/a.json").status_code == 404
    done(http.put(f"/api/2.0/fs/files{folder}/a.json", params={"overwrite": "true"}, content=b"{}"))
    assert http.head(f"/api/2.0/fs/files{folder}/a.json").headers["content-length"] == "2"
    assert http.get(f"/api/2.0/fs/files{folder}/a.json").content == b"{}"
    assert [one["name"] for one in done(http.get(f"/api/2.0/fs/directories{folder}"))["contents"]] == ["a.json"]
