"""Jobs under every version of their API, workspace files, volumes, and workspaces of one metastore, with the SDK."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import client, eventually, write_notebook


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_the_jobs_api_is_the_same_under_each_version(deployment: Deployment, ops: Any, version: str) -> None:
    call, base = ops.api_client.do, f"/api/{version}/jobs"
    task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "main")}}
    job_id = call("POST", f"{base}/create", body={"name": version, "tasks": [task]})["job_id"]
    assert [job["job_id"] for job in call("GET", f"{base}/list")["jobs"]] == [job_id]
    assert call("GET", f"{base}/get", query={"job_id": job_id})["settings"]["name"] == version
    run_id = call("POST", f"{base}/run-now", body={"job_id": job_id})["run_id"]
    run = eventually(lambda: ended(call, base, run_id))
    assert run["state"]["result_state"] == "SUCCESS"
    assert [one["run_id"] for one in call("GET", f"{base}/runs/list", query={"job_id": job_id})["runs"]] == [run_id]
    call("POST", f"{base}/delete", body={"job_id": job_id})
    assert call("GET", f"{base}/list").get("jobs", []) == []


def ended(call: Any, base: str, run_id: int) -> Any:
    run = call("GET", f"{base}/runs/get", query={"run_id": run_id})
    return run if run["state"]["life_cycle_state"] == "TERMINATED" else None


def test_permissions_of_a_job(deployment: Deployment, ops: Any) -> None:
    from databricks.sdk.errors import BadRequest, ResourceDoesNotExist
    from databricks.sdk.service.iam import AccessControlRequest, PermissionLevel

    task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "main")}}
    created = ops.api_client.do("POST", "/api/2.2/jobs/create", body={"name": "job", "tasks": [task]})
    job_id = str(created["job_id"])

    def held() -> dict[str, str]:
        entries = ops.permissions.get("jobs", job_id).access_control_list
        return {
            one.user_name or one.group_name: one.all_permissions[0].permission_level.value
            for one in entries
            if one.group_name != "admins"
        }

    view = AccessControlRequest(group_name="a", permission_level=PermissionLevel.CAN_VIEW)
    manage = AccessControlRequest(group_name="b", permission_level=PermissionLevel.CAN_MANAGE)
    assert held() == {"local-workspace": "IS_OWNER"}
    ops.permissions.update("jobs", job_id, access_control_list=[view])
    ops.permissions.update("jobs", job_id, access_control_list=[manage])
    assert held() == {"local-workspace": "IS_OWNER", "a": "CAN_VIEW", "b": "CAN_MANAGE"}
    ops.permissions.set("jobs", job_id, access_control_list=[view])
    assert held() == {"local-workspace": "IS_OWNER", "a": "CAN_VIEW"}
    assert "CAN_MANAGE_RUN" in {
        one.permission_level.value for one in ops.permissions.get_permission_levels("jobs", job_id).permission_levels
    }
    with pytest.raises(ResourceDoesNotExist, match="Job 1 does not exist"):
        ops.permissions.get("jobs", "1")
    with pytest.raises(BadRequest, match="not of clusters"):
        ops.permissions.get("clusters", "1")


def test_notebooks_and_files_of_a_workspace(ops: Any) -> None:
    from databricks.sdk.service.workspace import ExportFormat, ImportFormat, Language

    ops.workspace.mkdirs("/Shared/team")
    ops.workspace.upload("/Shared/team/notebook", b"print(1)", format=ImportFormat.SOURCE, language=Language.PYTHON)
    ops.workspace.upload("/Shared/team/data.csv", b"a,b\n", format=ImportFormat.RAW)
    found = {one.path: one.object_type.value for one in ops.workspace.list("/Shared/team")}
    assert found == {"/Shared/team/notebook": "NOTEBOOK", "/Shared/team/data.csv": "FILE"}
    assert {one.path for one in ops.workspace.list("/Shared", recursive=True)} >= found.keys()
    assert ops.workspace.get_status("/Workspace/Shared/team/notebook").language is Language.PYTHON
    with ops.workspace.download("/Shared/team/notebook", format=ExportFormat.SOURCE) as content:
        assert content.read() == b"# Databricks notebook source\nprint(1)"
    with ops.workspace.download("/Shared/team/data.csv", format=ExportFormat.AUTO) as content:
        assert content.read() == b"a,b\n"
    ops.workspace.delete("/Shared/team", recursive=True)
    assert list(ops.workspace.list("/Shared")) == []


def test_a_directory_is_exported_as_an_archive(ops: Any) -> None:
    from databricks.sdk.errors.base import DatabricksError
    from databricks.sdk.service.workspace import ExportFormat, ImportFormat, Language

    ops.workspace.mkdirs("/Shared/team/deep")
    ops.workspace.upload("/Shared/team/deep/n", b"print(1)", format=ImportFormat.SOURCE, language=Language.PYTHON)
    ops.workspace.upload("/Shared/team/data.csv", b"a,b\n", format=ImportFormat.RAW)

    def names(form: ExportFormat) -> dict[str, bytes]:
        found = ops.workspace.export("/Workspace/Shared/team", format=form)
        assert found.file_type == "zip"
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(found.content))) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    notebook = {"team/deep/n.py": b"# Databricks notebook source\nprint(1)"}
    assert names(ExportFormat.SOURCE) == notebook
    assert names(ExportFormat.AUTO) == {**notebook, "team/data.csv": b"a,b\n"}
    for form, said in (("DBC", "DBC is not supported"), ("HTML", "HTML is not"), ("JUPYTER", "is a directory")):
        with pytest.raises(DatabricksError, match=said):
            ops.workspace.export("/Shared/team", format=ExportFormat(form))
    with pytest.raises(DatabricksError, match="is no notebook"):
        ops.workspace.export("/Shared/team/data.csv", format=ExportFormat.JUPYTER)
    ops.workspace.upload("/Shared/team/big.bin", os.urandom(10 * 2**20), format=ImportFormat.RAW)
    with pytest.raises(DatabricksError, match="over 10 MB"):
        ops.workspace.export("/Shared", format=ExportFormat.AUTO)


def test_a_jupyter_notebook_becomes_a_notebook_and_is_one_again(ops: Any) -> None:
    from databricks.sdk.errors.base import DatabricksError
    from databricks.sdk.service.workspace import ExportFormat, ImportFormat

    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "n = 1\nprint(n)", "outputs": [{"text": "1"}]},
        {"cell_type": "code", "source": ["%sql\n", "SELECT 1"]},
    ]
    content = json.dumps({"nbformat": 4, "cells": cells}).encode()
    ops.workspace.upload("/by_format", content, format=ImportFormat.JUPYTER)
    ops.workspace.upload("/by_name.ipynb", content, format=ImportFormat.AUTO)
    source = (
        b"# Databricks notebook source\n# MAGIC %md\n# MAGIC # Title\n# MAGIC text\n\n# COMMAND ----------\n\n"
        b"n = 1\nprint(n)\n\n# COMMAND ----------\n\n# MAGIC %sql\n# MAGIC SELECT 1\n"
    )
    for path in ("/by_format", "/by_name"):
        assert ops.workspace.get_status(path).object_type.value == "NOTEBOOK"
        with ops.workspace.download(path) as kept:
            assert kept.read() == source
    with ops.workspace.download("/by_format", format=ExportFormat.JUPYTER) as kept:
        again = [(one["cell_type"], one["source"]) for one in json.load(kept)["cells"]]
    assert again == [("markdown", "# Title\ntext"), ("code", "n = 1\nprint(n)"), ("code", "%sql\nSELECT 1")]
    for broken in (b"{", b"[]", b'{"cells": 1}', b'{"cells": [1]}', b'{"cells": [{"cell_type": "code"}]}', b"\xff"):
        with pytest.raises(DatabricksError, match="not a Jupyter notebook"):
            ops.workspace.upload("/broken", broken, format=ImportFormat.JUPYTER)


def test_files_of_a_volume(ops: Any) -> None:
    from databricks.sdk.service.catalog import VolumeType

    ops.catalogs.create("main")
    ops.schemas.create("bronze", "main")
    ops.volumes.create("main", "bronze", "landing", VolumeType.MANAGED)
    folder = "/Volumes/main/bronze/landing/2026"
    ops.files.create_directory(folder)
    ops.files.upload(f"{folder}/a.json", io.BytesIO(b"{}"))
    assert [one.path for one in ops.files.list_directory_contents(folder)] == [f"{folder}/a.json"]
    assert ops.files.get_metadata(f"{folder}/a.json").content_length == 2
    assert ops.files.download(f"{folder}/a.json").contents.read() == b"{}"
    ops.files.delete(f"{folder}/a.json")
    ops.files.delete_directory(folder)
    assert list(ops.files.list_directory_contents("/Volumes/main/bronze/landing")) == []


def test_two_workspaces_of_one_metastore(deployment: Deployment, ops: Any) -> None:
    """They agree on the catalog and share neither jobs, files, tokens nor statements."""
    met = client(deployment, "met")
    ops.catalogs.create("main")
    assert [catalog.name for catalog in met.catalogs.list()] == ["main", "system"]
    assert ops.metastores.summary().metastore_id == met.metastores.summary().metastore_id
    assert ops.get_workspace_id() != met.get_workspace_id()
    ops.workspace.mkdirs("/Shared/only-here")
    assert [one.path for one in met.workspace.list("/")] == ["/Repos", "/Shared", "/Users"]
    assert next(iter(ops.warehouses.list())).id != next(iter(met.warehouses.list())).id
    assert ops.current_user.me().user_name == "local-workspace"
