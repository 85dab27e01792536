"""Tables whose commits Unity Catalog manages: its Delta API over HTTP, their logs as files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.errors import BadAnswer, HistoryGap, InvalidArgument, NotPermitted, Unavailable
from databricks_bridge.delta.model import VersionSource
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.workspace.client import Workspace

from .conftest import OPTIMIZED, Folder, append, commit, metadata
from .service import Service, serve

CONFIG = "GET /api/2.1/unity-catalog/delta/v1/config"
TABLE = "GET /api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/s/tables/t"
ENTRY = "GET /api/2.1/unity-catalog/tables/main.s.t"
STAGED = "0a1b2c3d-0000-0000-0000-000000000000"
PROTOCOL: dict[str, Any] = {"protocol": {"minReaderVersion": 3, "readerFeatures": ["catalogManaged"]}}


@pytest.fixture
async def service(folder: Folder) -> AsyncIterator[Service]:
    async with serve() as served:
        served.answers[CONFIG] = {"endpoints": [], "protocol-version": "1.0"}
        served.answers[ENTRY] = entry(f"file://{folder.root}")
        yield served


@pytest.fixture
async def workspace(service: Service) -> AsyncIterator[Workspace]:
    async with service.workspace() as client:
        yield client


def entry(location: str) -> dict[str, Any]:
    return {
        "table_id": "u1",
        "table_type": "MANAGED",
        "data_source_format": "DELTA",
        "storage_location": location,
        # moves with metadata alone: never a watermark
        "properties": {"delta.feature.catalogManaged": "supported", "delta.lastUpdateVersion": "1"},
    }


def table(latest: int | None, *staged: int, uuid: str = "u1") -> dict[str, Any]:
    commits = [
        {"version": v, "timestamp": 1_700_000_000_000 + v, "file-name": f"{v:020d}.{STAGED}.json"} for v in staged
    ]
    return {
        "metadata": {"table-uuid": uuid, "last-commit-version": 1},
        "commits": sorted(commits, key=lambda one: -one["version"]),
        "latest-table-version": latest,
    }


def stage(folder: Folder, version: int, *actions: dict[str, Any]) -> None:
    folder.write(f"_staged_commits/{version:020d}.{STAGED}.json", commit(*actions))


async def test_appends_that_change_no_metadata_are_new_versions(
    service: Service, workspace: Workspace, folder: Folder
) -> None:
    source = await open_table(workspace, "main.s.t")
    assert isinstance(source, VersionSource)
    for version in (3, 4):
        folder.write(f"{version:020d}.json", commit(append(version)))
        service.answers[TABLE] = table(version)
        found = await source.latest(version - 1)
        assert found is not None
        assert (found.version, found.data_version, found.table_id) == (version, version, "u1")
    assert [asked for asked in service.asked if asked.startswith(CONFIG)] == [
        f"{CONFIG}?catalog=main&protocol-versions=1.0"
    ]


async def test_a_staged_commit_counts_when_the_catalog_names_it_and_only_then(
    service: Service, workspace: Workspace, folder: Folder
) -> None:
    folder.write(f"{0:020d}.json", commit(PROTOCOL, metadata(), append(0)))
    stage(folder, 1, *OPTIMIZED)
    stage(folder, 2, append(2))
    service.answers[TABLE] = table(1, 1)
    source = await open_table(workspace, "main.s.t")
    found = await source.latest(0)
    assert found is not None
    assert (found.version, found.data_version) == (1, None), "2 is proposed, and not ratified"
    assert found.committed_at == datetime.fromtimestamp(1_700_000_000.001, UTC)
    service.answers[TABLE] = table(2, 1, 2)
    found = await source.latest(0)
    assert found is not None
    assert (found.version, found.data_version) == (2, 2)
    assert [(c.version, c.operation, c.carries_data) async for c in source.commits(-1, 2)] == [
        (0, None, True),
        (1, "OPTIMIZE", False),
        (2, None, True),
    ]
    found = await source.latest(None)
    assert found is not None
    assert found.data_version == 2


async def test_commits_that_cannot_be_read_count_as_data(
    service: Service, workspace: Workspace, folder: Folder
) -> None:
    refusal = {"error_code": "PERMISSION_DENIED", "message": "no"}
    service.answers[ENTRY] = entry("s3://lake/t")
    service.answers["POST /api/2.0/unity-catalog/temporary-table-credentials"] = lambda: web.json_response(
        refusal, status=403
    )
    service.answers[TABLE] = table(7)
    source = await open_table(workspace, "main.s.t")
    found = await source.latest(5)
    assert found is not None
    assert (found.version, found.data_version) == (7, 7)
    found = await source.latest(7)
    assert found is not None
    assert found.data_version is None
    assert [c.carries_data async for c in source.commits(5, 7)] == [True, True]


async def test_a_row_filter_shuts_the_storage_and_not_the_catalog(service: Service, workspace: Workspace) -> None:
    service.answers[ENTRY] = entry("s3://lake/t") | {"row_filter": {"function_name": "f"}}
    service.answers[TABLE] = table(7)
    found = await (await open_table(workspace, "main.s.t")).latest(6)
    assert found is not None
    assert (found.version, found.data_version) == (7, 7)


async def test_another_table_under_the_name_has_another_id(service: Service, workspace: Workspace) -> None:
    service.answers[TABLE] = table(7)
    source = await open_table(workspace, "main.s.t")
    await source.latest(7)
    service.answers[TABLE] = table(0, uuid="u2")
    found = await source.latest(7)
    assert found is not None
    assert (found.version, found.table_id, found.data_version) == (0, "u2", None)


@pytest.mark.parametrize("told_by", ["checksum", "commit", "staged commit"])
async def test_a_replaced_table_has_another_metadata_id(
    service: Service, workspace: Workspace, folder: Folder, told_by: str
) -> None:
    folder.write(f"{0:020d}.json", commit(PROTOCOL, metadata("a"), append(0)))
    service.answers[TABLE] = table(0)
    source = await open_table(workspace, "main.s.t")
    found = await source.latest(None)
    assert found is not None
    assert found.metadata_id == "a"
    replaced = [metadata("b"), append(1)]
    if told_by == "staged commit":
        stage(folder, 1, *replaced)
    else:
        folder.write(f"{1:020d}.json", commit(*(replaced if told_by == "commit" else [append(1)])))
    if told_by == "checksum":
        folder.write(f"{2:020d}.crc", json.dumps({"metadata": {"id": "b"}, "protocol": PROTOCOL["protocol"]}))
    folder.write(f"{2:020d}.json", commit(append(2)))
    service.answers[TABLE] = table(2, *([1] if told_by == "staged commit" else []))
    found = await source.latest(0)
    assert found is not None
    assert (found.version, found.table_id, found.metadata_id) == (2, "u1", "b")
    folder.write(f"{3:020d}.json", commit(append(3)))
    service.answers[TABLE] = table(3)
    found = await source.latest(2)
    assert found is not None
    assert found.metadata_id == "b", "no commit since has changed it"


async def test_an_unread_commit_may_have_replaced_the_table(
    service: Service, workspace: Workspace, folder: Folder
) -> None:
    folder.write(f"{0:020d}.json", commit(PROTOCOL, metadata("a"), append(0)))
    service.answers[TABLE] = table(0)
    source = await open_table(workspace, "main.s.t")
    await source.latest(None)
    folder.write(f"{2:020d}.json", commit(append(2)))
    service.answers[TABLE] = table(2)
    found = await source.latest(1)
    assert found is not None
    assert found.metadata_id is None


async def test_a_workspace_without_the_api_is_a_clear_error_and_asked_once(
    service: Service, workspace: Workspace
) -> None:
    del service.answers[CONFIG]
    source = await open_table(workspace, "main.s.t")
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=r"does not serve Unity Catalog's Delta API.*via='sql'"):
            await source.latest(3)
    assert len([asked for asked in service.asked if asked.startswith(CONFIG)]) == 1


async def test_a_newer_protocol_alone_is_not_the_one_we_speak(service: Service, workspace: Workspace) -> None:
    service.answers[CONFIG] = {"protocol-version": "2.0"}
    with pytest.raises(InvalidArgument, match=r"1\.0"):
        await (await open_table(workspace, "main.s.t")).latest()


@pytest.mark.parametrize("latest", [None, "7", True])
async def test_an_answer_without_the_version_is_a_bad_answer(
    service: Service, workspace: Workspace, latest: Any
) -> None:
    service.answers[TABLE] = table(0) | {"latest-table-version": latest}
    with pytest.raises(BadAnswer, match="latest-table-version"):
        await (await open_table(workspace, "main.s.t")).latest()


async def test_an_error_in_the_form_of_this_api_is_understood(service: Service, workspace: Workspace) -> None:
    body = {"error": {"message": "no SELECT on main.s.t", "type": "PermissionDeniedException", "code": 403}}
    service.answers[TABLE] = lambda: web.json_response(body, status=403)
    with pytest.raises(NotPermitted, match=r"PermissionDeniedException: no SELECT on main\.s\.t"):
        await (await open_table(workspace, "main.s.t")).latest()


async def test_commits_that_are_cleaned_away_or_not_ratified(
    service: Service, workspace: Workspace, folder: Folder
) -> None:
    folder.write(f"{7:020d}.json", commit(append(7)))
    service.answers[TABLE] = table(7)
    source = await open_table(workspace, "main.s.t")
    with pytest.raises(HistoryGap, match=r"commit 6 .*\(5, 7\]"):
        [c async for c in source.commits(5, 7)]
    with pytest.raises(Unavailable, match="not ratified"):
        [c async for c in source.commits(6, 8)]
    found = await source.latest(4)
    assert found is not None
    assert found.data_version == 7


async def test_the_file_name_of_a_commit_reaches_no_other_file(
    service: Service, workspace: Workspace, folder: Folder
) -> None:
    folder.write("_staged_commits/x.json", commit(*OPTIMIZED))
    answer = table(3, 3)
    answer["commits"][0]["file-name"] = "../x.json"
    service.answers[TABLE] = answer
    found = await (await open_table(workspace, "main.s.t")).latest(2)
    assert found is not None
    assert found.data_version == 3
