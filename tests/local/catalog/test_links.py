"""A link leads nowhere that its volume, or the workspace's files, do not hold: what is outside is not there, by any way."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.layout import LeadsOutside
from databricks_bridge.local.triggers.file_arrival import list_files
from tests.local.local_kit import Api, Notebooks

VOLUME = "/Volumes/main/landing/flights"
SOURCE = "# Databricks notebook source\nprint('secret')\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is none of the deployment's."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    (folder / "secret.py").write_text(SOURCE)
    return folder


@pytest.fixture
def volume(ops: Any, deployment: Deployment, outside: Path) -> Path:
    """A volume with a file, a link to another place of it, and links that lead out of it."""
    from databricks.sdk.service.catalog import VolumeType

    ops.catalogs.create("main")
    ops.schemas.create("landing", "main")
    for name in ("flights", "other"):
        ops.volumes.create("main", "landing", name, VolumeType.MANAGED)
    folder = deployment.layout.volume_path("ops", VOLUME)
    (folder / "day").mkdir()
    (folder / "day" / "a.json").write_text("{}")
    (folder / "newest").symlink_to("day")
    (folder / "secret").symlink_to(outside / "secret.txt")
    (folder / "up").symlink_to(outside)
    (folder / "gone").symlink_to(outside / "not-there")
    (folder / "other").symlink_to(folder.parent / "other")
    (folder / "round").symlink_to("round")
    return folder


@pytest.fixture
def files(deployment: Deployment, outside: Path) -> Path:
    """The workspace's files, with links that lead out of them."""
    folder = deployment.layout.workspace_files("ops") / "Shared"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.py").write_text(SOURCE)
    (folder / "twin.py").symlink_to("mine.py")
    (folder / "secret.py").symlink_to(outside / "secret.py")
    (folder / "secret.txt").symlink_to(outside / "secret.txt")
    (folder / "up").symlink_to(outside)
    (folder / "round").symlink_to("round")
    return folder


LEADS_OUT = ("secret", "up", "up/secret.txt", "up/new.txt", "gone", "other", "other/new.txt")


def test_the_files_api_finds_nothing_there(http: httpx.Client, volume: Path, outside: Path) -> None:
    before = sorted(volume.parent.parent.rglob("*")), sorted(outside.rglob("*"))
    for path, kind, method in product(LEADS_OUT, ("files", "directories"), ("GET", "HEAD", "PUT", "DELETE")):
        answer = http.request(method, f"/api/2.0/fs/{kind}{VOLUME}/{path}", content=b"x")
        assert answer.status_code == 404, (method, kind, path, answer.text)
        assert method == "HEAD" or answer.json()["error_code"] == "NOT_FOUND"
    assert (sorted(volume.parent.parent.rglob("*")), sorted(outside.rglob("*"))) == before
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_link_within_a_volume_is_followed_and_others_are_not_listed(ops: Any, volume: Path) -> None:
    assert [entry.name for entry in ops.files.list_directory_contents(VOLUME)] == ["day", "newest"]
    assert ops.files.download(f"{VOLUME}/newest/a.json").contents.read() == b"{}"


def test_a_catalog_a_schema_a_volume_and_a_table_are_no_links(
    ops: Any, http: httpx.Client, deployment: Deployment, volume: Path, outside: Path
) -> None:
    (outside / "landing" / "flights" / "_delta_log").mkdir(parents=True)
    (outside / "landing" / "flights" / "_delta_log" / f"{0:020}.json").write_text("{}\n")
    for root in (deployment.layout.volumes_root("ops"), deployment.layout.metastore_root("ops")):
        (root / "linked").symlink_to(outside)
        (root / "main").mkdir(exist_ok=True)
        (root / "main" / "linked").symlink_to(outside / "landing")
        (root / "main" / "landing").mkdir(exist_ok=True)
        (root / "main" / "landing" / "linked").symlink_to(outside / "landing" / "flights")
    assert "linked" not in [catalog.name for catalog in ops.catalogs.list()]
    assert "linked" not in [schema.name for schema in ops.schemas.list("main")]
    assert {one.name for one in ops.volumes.list("main", "landing")} == {"flights", "other"}
    assert list(ops.tables.list("main", "landing")) == []
    for path in ("tables/main.landing.linked", "schemas/main.linked", "catalogs/linked", "volumes/main.landing.linked"):
        assert http.get(f"/api/2.1/unity-catalog/{path}").status_code == 404, path
    for path in ("linked/landing/flights", "main/linked/flights", "main/landing/linked"):
        assert http.get(f"/api/2.0/fs/directories/Volumes/{path}").status_code == 404, path


def test_workspace_files_hold_nothing_of_it(http: httpx.Client, files: Path, outside: Path) -> None:
    def asked(name: str, path: str) -> int:
        return http.get(f"/api/2.0/workspace/{name}", params={"path": path}).status_code

    before = sorted(files.rglob("*")), sorted(outside.rglob("*"))
    for path in ("/Shared/secret", "/Shared/secret.txt", "/Shared/up", "/Shared/up/secret.txt", "/Shared/up/secret"):
        assert [asked(name, path) for name in ("export", "get-status", "list")] == [404, 404, 404], path
        assert http.get(f"/api/2.0/workspace-files{path}").status_code == 404, path
        body = {"path": path, "recursive": True, "overwrite": True, "content": "", "format": "RAW"}
        assert http.post("/api/2.0/workspace/delete", json=body).status_code == 404, path
        if path != "/Shared/secret":  # a notebook's name is free for a folder or a file here
            assert http.post("/api/2.0/workspace/mkdirs", json=body).status_code == 404, path
            assert http.post("/api/2.0/workspace/import", json=body).status_code == 404, path
            assert http.post(f"/api/2.0/workspace-files/import-file{path}?overwrite=true").status_code == 404, path
    notebook = {"path": "/Shared/secret", "language": "PYTHON", "overwrite": True, "content": ""}
    assert http.post("/api/2.0/workspace/import", json=notebook).status_code == 404
    assert (sorted(files.rglob("*")), sorted(outside.rglob("*"))) == before

    listed = http.get("/api/2.0/workspace/list", params={"path": "/Shared"}).json()["objects"]
    assert [one["path"] for one in listed] == ["/Shared/mine", "/Shared/twin"]
    whole = {"path": "/Shared", "format": "AUTO", "direct_download": "true"}
    archive = zipfile.ZipFile(io.BytesIO(http.get("/api/2.0/workspace/export", params=whole).content))
    assert archive.namelist() == ["Shared/mine.py", "Shared/twin.py"]
    assert http.post("/api/2.0/workspace/delete", json={"path": "/Shared/twin"}).status_code == 200
    assert (files / "mine.py").exists()


def test_no_task_runs_it(
    api: Api, notebooks: Notebooks, make_job: Callable[..., int], files: Path, volume: Path
) -> None:
    (volume / "task.py").symlink_to(files / "secret.py")
    for task in (
        {"notebook_task": {"notebook_path": "/Shared/secret"}},
        {"notebook_task": {"notebook_path": "/Shared/up/secret"}},
        {"spark_python_task": {"python_file": f"dbfs:{VOLUME}/task.py"}},
    ):
        run_id = api.post("runs/submit", tasks=[{"task_key": "main", **task}])["run_id"]
        assert "Unable to access" in api.ended(run_id)["state"]["state_message"]
    assert notebooks.seen == []


def test_no_trigger_looks_there(http: httpx.Client, deployment: Deployment, volume: Path, files: Path) -> None:
    assert list(list_files(volume)) == ["day/a.json"]
    with pytest.raises(LeadsOutside, match="up/deeper leads out of flights by a link"):
        deployment.layout.volume_path("ops", f"{VOLUME}/up/deeper/")
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/mine"}}
    trigger = {"file_arrival": {"url": f"{VOLUME}/up/"}}
    answer = http.post("/api/2.2/jobs/create", json={"name": "j", "tasks": [task], "trigger": trigger})
    assert answer.status_code == 404, answer.text
    assert "up leads out of flights by a link" in answer.json()["message"]


def test_links_above_the_home_are_nobody_s_business(tmp_path: Path) -> None:
    from databricks_bridge.local.layout import Layout

    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    path = Layout(tmp_path / "home").volume_path("ops", f"{VOLUME}/a")
    assert path == tmp_path / "home" / "volumes" / "ops" / "main" / "landing" / "flights" / "a"
