"""Workspace files, with the official SDK as client."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.runs.notebooks import find_notebook

SOURCE = b"# Databricks notebook source\nprint(1)\n"


@pytest.fixture
def workspace(ops: Any) -> Any:
    ops.workspace.mkdirs("/Users/ada")
    return ops.workspace


def test_a_notebook_is_where_a_task_finds_it(workspace: Any, deployment: Deployment) -> None:
    from databricks.sdk.service.workspace import ImportFormat, Language

    content = base64.b64encode(SOURCE).decode()
    workspace.import_("/Users/ada/bronze", content=content, format=ImportFormat.SOURCE, language=Language.PYTHON)
    root = deployment.layout.workspace_files("ops")
    found = find_notebook(root, "/Users/ada/bronze")
    assert found is not None
    assert found.read_bytes() == SOURCE
    assert find_notebook(root, "/Workspace/Users/ada/bronze") == found
    status = workspace.get_status("/Workspace/Users/ada/bronze")
    assert (status.path, status.object_type.value, status.language.value) == (
        "/Workspace/Users/ada/bronze",
        "NOTEBOOK",
        "PYTHON",
    )
    assert base64.b64decode(workspace.export("/Users/ada/bronze").content) == SOURCE


def test_auto_tells_notebooks_from_files_by_extension_and_header(workspace: Any) -> None:
    from databricks.sdk.service.workspace import ImportFormat, Language

    binary = bytes(range(256)) + b"\r\n--\r\n\r\n"
    workspace.upload("/Users/ada/notebook.py", SOURCE, format=ImportFormat.AUTO)
    workspace.upload("/Users/ada/module.py", b"x = 1\n", format=ImportFormat.AUTO)
    workspace.upload("/Users/ada/data.bin", binary, format=ImportFormat.AUTO)
    workspace.upload("/Users/ada/bare", b"x = 2\n", language=Language.PYTHON)
    listed = {item.path: item.object_type.value for item in workspace.list("/Users/ada")}
    assert listed == {
        "/Users/ada/bare": "NOTEBOOK",
        "/Users/ada/data.bin": "FILE",
        "/Users/ada/module.py": "FILE",
        "/Users/ada/notebook": "NOTEBOOK",
    }
    assert workspace.download("/Users/ada/data.bin").read() == binary
    assert workspace.download("/Users/ada/bare").read() == b"# Databricks notebook source\nx = 2\n"
    assert workspace.get_status("/Users/ada/data.bin").size == len(binary)
    assert [item.path for item in workspace.list("/", recursive=True)] == sorted(listed)


def test_the_calls_of_the_command_line_client(workspace: Any, ops: Any) -> None:
    path = "/api/2.0/workspace-files/import-file/Workspace%2FUsers%2Fada%2F.bundle%2Fdeploy.lock"
    headers = {"Content-Type": "application/octet-stream"}
    from databricks.sdk.errors import NotFound

    with pytest.raises(NotFound, match=r"parent folder \(/Workspace/Users/ada/\.bundle\) does not exist"):
        ops.api_client.do("POST", path, query={"overwrite": "false"}, data=b"{}", headers=headers)
    workspace.mkdirs("/Workspace/Users/ada/.bundle")
    ops.api_client.do("POST", path, query={"overwrite": "false"}, data=b'{"locked": true}', headers=headers)
    assert workspace.download("/Users/ada/.bundle/deploy.lock").read() == b'{"locked": true}'


def test_what_is_in_the_way_and_what_is_not_there(workspace: Any) -> None:
    from databricks.sdk.core import DatabricksError
    from databricks.sdk.errors import BadRequest, NotFound
    from databricks.sdk.service.workspace import ImportFormat, Language

    workspace.upload("/Users/ada/nb", SOURCE, language=Language.PYTHON)
    with pytest.raises(DatabricksError) as caught:
        workspace.upload("/Users/ada/nb", SOURCE, language=Language.PYTHON)
    assert caught.value.error_code == "RESOURCE_ALREADY_EXISTS"
    workspace.upload("/Users/ada/nb", SOURCE + b"x\n", language=Language.PYTHON, overwrite=True)
    with pytest.raises(NotFound) as missing:
        workspace.get_status("/Users/ada/none")
    assert missing.value.error_code == "RESOURCE_DOES_NOT_EXIST"
    with pytest.raises(NotFound):
        workspace.get_status("/Users/ada/nb.py")
    with pytest.raises(NotFound):
        workspace.upload("/Users/bob/nb", SOURCE, language=Language.PYTHON)
    with pytest.raises(DatabricksError, match="not supported by the local workspace"):
        workspace.import_("/Users/ada/x", content="", format=ImportFormat.DBC)
    with pytest.raises(DatabricksError, match="base64"):
        workspace.import_("/Users/ada/x", content="%", format=ImportFormat.AUTO)
    with pytest.raises(BadRequest) as full:
        workspace.delete("/Users/ada")
    assert full.value.error_code == "DIRECTORY_NOT_EMPTY"
    workspace.delete("/Users/ada/nb")
    workspace.delete("/Users/ada")
    with pytest.raises(DatabricksError):
        workspace.get_status("/../../deployment.json")
