"""What the other APIs answer, here and on Databricks: who calls, files, Unity Catalog, SQL statements."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.contract.conftest import WAREHOUSE, Contract, unique


@pytest.fixture
def volume(workspace: Contract) -> str:
    """A new managed volume, as a path."""
    from databricks.sdk.service.catalog import VolumeType

    catalog, schema = workspace.schema.split(".")
    made = workspace.client.volumes.create(catalog, schema, unique(), VolumeType.MANAGED)
    workspace.later(lambda: workspace.client.volumes.delete(made.full_name))
    return f"/Volumes/{catalog}/{schema}/{made.name}"


@pytest.fixture
def warehouse(workspace: Contract) -> str:
    if workspace.warehouse is None:
        pytest.skip(f"no SQL warehouse is named: set {WAREHOUSE}")
    return workspace.warehouse


def test_a_wrong_token_is_forbidden(workspace: Contract) -> None:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.core import Config
    from databricks.sdk.errors import PermissionDenied

    config = Config(host=workspace.client.config.host, token="dapi" + "0" * 32, auth_type="pat")
    with pytest.raises(PermissionDenied, match="Invalid access token"):
        WorkspaceClient(config=config).current_user.me()


def test_it_tells_where_its_tokens_come_from(workspace: Contract) -> None:
    found = workspace.call("GET", "/.well-known/databricks-config")
    assert found["oidc_endpoint"].startswith("http")
    assert workspace.client.get_workspace_id() > 0


def test_notebooks_and_files_of_the_workspace(workspace: Contract) -> None:
    from databricks.sdk.errors import NotFound
    from databricks.sdk.errors.base import DatabricksError
    from databricks.sdk.service.workspace import ExportFormat, ImportFormat, Language

    files, folder = workspace.client.workspace, f"{workspace.folder}/{unique()}"
    files.mkdirs(folder)
    workspace.later(lambda: files.delete(folder, recursive=True))
    files.upload(f"{folder}/notebook", b"print(1)", format=ImportFormat.SOURCE, language=Language.PYTHON)
    files.upload(f"{folder}/data.csv", b"a,b\n", format=ImportFormat.RAW)
    found = {one.path.removeprefix("/Workspace"): one.object_type.value for one in files.list(folder)}
    plain = folder.removeprefix("/Workspace")
    assert found == {f"{plain}/notebook": "NOTEBOOK", f"{plain}/data.csv": "FILE"}
    assert files.get_status(f"{folder}/notebook").language is Language.PYTHON
    with files.download(f"{folder}/notebook", format=ExportFormat.SOURCE) as content:
        assert content.read().rstrip() == b"# Databricks notebook source\nprint(1)"
    with pytest.raises(DatabricksError, match="already exists"):
        files.upload(f"{folder}/notebook", b"print(2)", format=ImportFormat.SOURCE, language=Language.PYTHON)
    with pytest.raises(DatabricksError) as full:
        files.delete(folder)
    assert full.value.error_code == "DIRECTORY_NOT_EMPTY"
    with pytest.raises(NotFound) as missing:
        files.get_status(f"{folder}/none")
    assert missing.value.error_code == "RESOURCE_DOES_NOT_EXIST"


def test_files_of_a_volume(workspace: Contract, volume: str) -> None:
    from databricks.sdk.errors import NotFound

    files = workspace.client.files
    files.create_directory(f"{volume}/2026")
    files.upload(f"{volume}/2026/a.json", io.BytesIO(b"{}"))
    assert [one.path for one in files.list_directory_contents(f"{volume}/2026")] == [f"{volume}/2026/a.json"]
    assert files.get_metadata(f"{volume}/2026/a.json").content_length == 2
    assert files.download(f"{volume}/2026/a.json").contents.read() == b"{}"
    files.upload(f"{volume}/2026/a.json", io.BytesIO(b"[1]"), overwrite=True)
    assert files.download(f"{volume}/2026/a.json").contents.read() == b"[1]"
    files.delete(f"{volume}/2026/a.json")
    with pytest.raises(NotFound):
        files.get_metadata(f"{volume}/2026/a.json")


def test_a_table_that_is_not_there(workspace: Contract) -> None:
    from databricks.sdk.errors import NotFound

    name = f"{workspace.schema}.{unique()}"
    with pytest.raises(NotFound, match=rf"Table '{name}' does not exist") as missing:
        workspace.client.tables.get(name)
    assert missing.value.error_code == "TABLE_DOES_NOT_EXIST"
    assert workspace.client.tables.exists(name).table_exists is False


def test_the_latest_version_of_a_table_that_is_not_there(workspace: Contract) -> None:
    from databricks.sdk.errors import NotFound

    catalog, schema = workspace.schema.split(".")
    path = f"/api/2.1/unity-catalog/delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{unique()}"
    with pytest.raises(NotFound):
        workspace.call("GET", path)


def test_a_statement_and_its_result(workspace: Contract, warehouse: str) -> None:
    from databricks.sdk.service.sql import StatementParameterListItem as Parameter

    answer = workspace.client.statement_execution.execute_statement(
        "SELECT CAST(:n AS BIGINT) AS n, :name AS name, NULL AS nothing",
        warehouse,
        wait_timeout="50s",
        parameters=[Parameter(name="n", value="41", type="BIGINT"), Parameter(name="name", value="Graz")],
    )
    done = ended(workspace, answer.statement_id)
    assert done.status.state.value == "SUCCEEDED"
    assert done.result.data_array == [["41", "Graz", None]]
    assert [column.name for column in done.manifest.schema.columns] == ["n", "name", "nothing"]
    assert done.manifest.schema.columns[0].type_name.value == "LONG"
    assert (done.manifest.total_row_count, done.manifest.truncated) == (1, False)


def test_a_statement_that_fails_is_an_answer(workspace: Contract, warehouse: str) -> None:
    answer = workspace.client.statement_execution.execute_statement(f"SELECT * FROM {unique()}", warehouse)
    done = ended(workspace, answer.statement_id)
    assert done.status.state.value == "FAILED"
    assert "TABLE_OR_VIEW_NOT_FOUND" in done.status.error.message
    assert done.result is None


def test_links_are_fetched_without_a_token(workspace: Contract, warehouse: str) -> None:
    import httpx
    from databricks.sdk.service.sql import Disposition, Format

    answer = workspace.client.statement_execution.execute_statement(
        "SELECT 1 AS n, CAST(NULL AS STRING) AS t",
        warehouse,
        disposition=Disposition.EXTERNAL_LINKS,
        format=Format.JSON_ARRAY,
        wait_timeout="50s",
    )
    (link,) = ended(workspace, answer.statement_id).result.external_links
    assert (link.row_count, link.next_chunk_index) == (1, None)
    assert httpx.get(link.external_link).json() == [["1", None]]


def ended(workspace: Contract, statement_id: str) -> Any:
    def look() -> Any:
        found = workspace.client.statement_execution.get_statement(statement_id)
        return None if found.status.state.value in ("PENDING", "RUNNING") else found

    return workspace.until(look)
