"""What a new workspace has, and what cannot lie at one path of it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.local.local_kit import Api

ME = "local-workspace"
PYTHON, SQL = b"# Databricks notebook source\nprint(1)\n", b"-- Databricks notebook source\nSELECT 1\n"


def upload(ops: Any, path: str, content: bytes = b"print(1)", form: str = "SOURCE", **more: Any) -> None:
    from databricks.sdk.service.workspace import ImportFormat

    ops.workspace.upload(path, io.BytesIO(content), format=ImportFormat(form), **more)


@pytest.mark.parametrize("path", [f"/Users/{ME}", "/Shared", f"/Repos/{ME}"])
def test_a_new_workspace_has_the_folders_that_every_workspace_has(ops: Any, path: str) -> None:
    assert ops.workspace.get_status(path).object_type.value == "DIRECTORY"
    assert ops.workspace.get_status(f"/Workspace{path}").path == f"/Workspace{path}"


def test_the_path_is_told_as_it_was_asked_for(ops: Any) -> None:
    upload(ops, f"/Users/{ME}/a.py", PYTHON, "AUTO")
    assert ops.workspace.get_status(f"/Users/{ME}/a").path == f"/Users/{ME}/a"
    asked = ops.workspace.get_status(f"/Workspace/Users/{ME}/a")
    assert asked.path == f"/Workspace/Users/{ME}/a"
    assert asked.object_id == ops.workspace.get_status(f"/Users/{ME}/a").object_id


@pytest.mark.parametrize("below", ["", "/x", "/x/y"])
@pytest.mark.parametrize(("suffix", "content"), [(".py", PYTHON), (".sql", SQL)])
def test_no_directory_is_made_where_a_notebook_is(ops: Any, below: str, suffix: str, content: bytes) -> None:
    from databricks.sdk.errors import ResourceAlreadyExists

    upload(ops, f"/Shared/n1{suffix}", content, "AUTO")
    with pytest.raises(ResourceAlreadyExists):
        ops.workspace.mkdirs(f"/Shared/n1{below}")
    (found,) = ops.workspace.list("/Shared")
    assert (found.path, found.object_type.value) == ("/Shared/n1", "NOTEBOOK")


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("name", "form"), [("d.py", "AUTO"), ("d.sql", "AUTO"), ("d", "RAW")])
def test_nothing_is_imported_where_a_directory_is(ops: Any, overwrite: bool, name: str, form: str) -> None:
    from databricks.sdk.errors import ResourceAlreadyExists

    ops.workspace.mkdirs("/Shared/d/e")
    content = SQL if name.endswith(".sql") else PYTHON
    with pytest.raises(ResourceAlreadyExists):
        upload(ops, f"/Shared/{name}", content, form, overwrite=overwrite)
    assert [found.object_type.value for found in ops.workspace.list("/Shared")] == ["DIRECTORY"]


def test_a_sql_file_with_the_header_is_a_notebook_and_without_it_a_file(ops: Any) -> None:
    from databricks.sdk.service.workspace import ExportFormat

    upload(ops, "/Shared/with.sql", SQL, "AUTO")
    upload(ops, "/Shared/without.sql", b"SELECT 1\n", "AUTO")
    notebook = ops.workspace.get_status("/Shared/with")
    assert (notebook.object_type.value, notebook.language.value) == ("NOTEBOOK", "SQL")
    assert ops.workspace.get_status("/Shared/without.sql").object_type.value == "FILE"
    assert ops.workspace.download("/Shared/with", format=ExportFormat.SOURCE).read() == SQL
    ops.workspace.delete("/Shared/with")
    assert [found.path for found in ops.workspace.list("/Shared")] == ["/Shared/without.sql"]


def test_a_sql_notebook_as_a_task_fails_with_its_real_cause(ops: Any) -> None:
    upload(ops, "/Shared/q.sql", SQL, "AUTO")
    tasks = [{"task_key": "q", "notebook_task": {"notebook_path": "/Shared/q"}}]
    run_id = ops.api_client.do("POST", "/api/2.2/jobs/runs/submit", body={"tasks": tasks})["run_id"]
    run = Api(ops).ended(run_id)
    assert run["state"]["result_state"] == "FAILED"
    assert "'/Shared/q' is a SQL notebook" in run["state"]["state_message"]


@pytest.mark.parametrize(("name", "content"), [("q.scala", b"// Databricks notebook source\n1"), ("q.R", PYTHON)])
def test_notebooks_of_other_languages_are_kept_as_notebooks_and_fail_with_their_real_cause(
    ops: Any, name: str, content: bytes
) -> None:
    upload(ops, f"/Shared/{name}", content, "AUTO")
    found = ops.workspace.get_status("/Shared/q")
    language = {"q.scala": "Scala", "q.R": "R"}[name]
    assert (found.object_type.value, found.language.value) == ("NOTEBOOK", language.upper())
    tasks = [{"task_key": "q", "notebook_task": {"notebook_path": "/Shared/q"}}]
    run = Api(ops).ended(ops.api_client.do("POST", "/api/2.2/jobs/runs/submit", body={"tasks": tasks})["run_id"])
    assert f"{language} notebook" in run["state"]["state_message"]


def test_a_notebook_of_another_language_replaces_the_one_at_its_path(ops: Any) -> None:
    from databricks.sdk.errors import ResourceAlreadyExists

    upload(ops, "/Shared/n.py", PYTHON, "AUTO")
    upload(ops, "/Shared/n.py.sql", SQL, "AUTO")
    with pytest.raises(ResourceAlreadyExists):
        upload(ops, "/Shared/n.sql", SQL, "AUTO")
    upload(ops, "/Shared/n.sql", SQL, "AUTO", overwrite=True)
    found = {one.path: one.language.value for one in ops.workspace.list("/Shared")}
    assert found == {"/Shared/n": "SQL", "/Shared/n.py": "SQL"}
    upload(ops, "/Shared/n.py", PYTHON, "AUTO", overwrite=True)
    found = {one.path: one.language.value for one in ops.workspace.list("/Shared")}
    assert found == {"/Shared/n": "PYTHON", "/Shared/n.py": "SQL"}


@pytest.mark.parametrize(("first", "second"), [(("n.py", "AUTO"), ("n", "RAW")), (("n", "RAW"), ("n.py", "AUTO"))])
def test_a_file_and_a_notebook_do_not_share_a_path(ops: Any, first: tuple[str, str], second: tuple[str, str]) -> None:
    from databricks.sdk.errors import ResourceAlreadyExists

    upload(ops, f"/Shared/{first[0]}", PYTHON, first[1])
    with pytest.raises(ResourceAlreadyExists):
        upload(ops, f"/Shared/{second[0]}", PYTHON, second[1], overwrite=True)
    assert [one.path for one in ops.workspace.list("/Shared")] == ["/Shared/n"]


@pytest.mark.parametrize("path", [f"/Users/{ME}", "/Workspace/Shared/", f"/Repos/{ME}", "/Users", "/"])
def test_what_every_workspace_has_is_not_deleted(ops: Any, path: str) -> None:
    from databricks.sdk.errors import BadRequest

    with pytest.raises(BadRequest, match="is protected"):
        ops.workspace.delete(path, recursive=True)
    assert ops.workspace.get_status(path).object_type.value == "DIRECTORY"
