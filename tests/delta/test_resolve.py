from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.errors import BadAnswer, InvalidArgument, NotFound, NotPermitted
from databricks_bridge.delta.credentials import open_store
from databricks_bridge.delta.entries import SINGLE_CALLS, entry_of
from databricks_bridge.delta.locations import parse_location
from databricks_bridge.delta.named import RECHECK, next_check
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.workspace.client import Workspace

from .bucket import Bucket, fill, serve
from .conftest import Clock, Folder


@dataclass
class Catalog:
    """The two endpoints of Unity Catalog that are needed, over HTTP."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    credentials: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    workspace: Workspace | None = None

    def add(self, name: str, location: str, **fields: Any) -> None:
        self.tables[name] = {
            "table_id": f"id of {name}",
            "table_type": "MANAGED",
            "data_source_format": "DELTA",
            "storage_location": location,
        } | fields

    async def get_table(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.asked.append(name)
        if name not in self.tables:
            body = {"error_code": "TABLE_DOES_NOT_EXIST", "message": f"Table '{name}' does not exist."}
            return web.json_response(body, status=404)
        return web.json_response(self.tables[name])

    async def list_tables(self, request: web.Request) -> web.StreamResponse:
        schema = f"{request.query['catalog_name']}.{request.query['schema_name']}."
        start = int(request.query.get("page_token", 0))
        self.listed.append(f"{schema}{start}")
        names = [name for name in self.tables if name.startswith(schema)]
        page: dict[str, Any] = {
            "tables": [{**self.tables[name], "name": name.removeprefix(schema)} for name in names[start : start + 10]]
        }
        if start + 10 < len(names):
            page["next_page_token"] = str(start + 10)
        return web.json_response(page)

    async def vend(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"credentials of {(await request.json())['table_id']}")
        return web.json_response(self.credentials)

    async def metastore(self, request: web.Request) -> web.StreamResponse:
        self.asked.append("metastore")
        return web.json_response({"region": "eu-west-3"})


@pytest.fixture
async def catalog() -> AsyncIterator[Catalog]:
    state = Catalog()
    app = web.Application()
    app.router.add_get("/api/2.1/unity-catalog/tables", state.list_tables)
    app.router.add_get("/api/2.1/unity-catalog/tables/{name}", state.get_table)
    app.router.add_post("/api/2.0/unity-catalog/temporary-table-credentials", state.vend)
    app.router.add_get("/api/2.1/unity-catalog/metastore_summary", state.metastore)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def no_headers() -> dict[str, str]:
        return {}

    async with Workspace(f"http://127.0.0.1:{runner.addresses[0][1]}", no_headers) as workspace:
        state.workspace = workspace
        yield state
    await runner.cleanup()


async def test_a_name_is_looked_up_once_and_then_only_the_log(catalog: Catalog, folder: Folder) -> None:
    folder.commits(0, 3)
    catalog.add("main.s.t", f"file://{folder.root}")
    table = await open_table(catalog.workspace, "main.s.t")
    for _ in range(3):
        found = await table.latest(2)
        assert found is not None
        assert (found.version, found.data_version, found.table_id) == (3, 3, "id of main.s.t")
    assert [c.version async for c in table.commits(1, 3)] == [2, 3]
    assert catalog.asked == ["main.s.t"]


async def test_another_table_under_the_name_is_seen_within_the_hour(
    catalog: Catalog, folder: Folder, tmp_path: Path
) -> None:
    folder.commits(0, 3)
    catalog.add("main.s.t", f"file://{folder.root}")
    clock = Clock()
    table = await open_table(catalog.workspace, "main.s.t", now=clock)
    other = Folder(tmp_path / "other")
    other.commits(0, 1)
    catalog.add("main.s.t", f"file://{other.root}", table_id="another")
    found = await table.latest()
    assert found is not None
    assert found.table_id == "id of main.s.t"
    clock.at += timedelta(hours=1)
    found = await table.latest(3)
    assert found is not None
    assert (found.table_id, found.version) == ("another", 1)


@pytest.mark.parametrize("size", [40, 120])
async def test_many_tables_of_a_schema_are_looked_up_in_one_listing_of_it(catalog: Catalog, size: int) -> None:
    """Forty are wanted: of a schema of forty, or of one three times as large; pages hold ten."""
    for n in range(size):
        catalog.add(f"main.s.t{n}", f"file:///t{n}")
    names = [f"main.s.t{n * size // 40}" for n in range(40)]
    entries = await asyncio.gather(*(entry_of(catalog.workspace, name) for name in names))
    assert [entry["table_id"] for entry in entries] == [f"id of {name}" for name in names]
    assert len(catalog.listed) == size // 10
    assert len(catalog.asked) == SINGLE_CALLS


async def test_all_tables_of_a_schema_are_looked_up_again_at_one_time() -> None:
    now = datetime(2026, 11, 29, 12, 34, 56, tzinfo=UTC)
    moments = {next_check(now + timedelta(minutes=m), "main.silver.a") for m in range(0, 60, 7)}
    assert moments <= {next_check(now, "main.silver.b"), next_check(now, "main.silver.b") + RECHECK}
    assert next_check(now, "main.gold.a") != next_check(now, "main.silver.a")
    for name in ("main.silver.a", "main.gold.a", "x.y.z"):
        assert timedelta(0) < next_check(now, name) - now <= RECHECK


async def test_a_folder_that_went_away_is_looked_up_again_at_once(
    catalog: Catalog, folder: Folder, tmp_path: Path
) -> None:
    folder.commits(0, 3)
    catalog.add("main.s.t", f"file://{folder.root}")
    table = await open_table(catalog.workspace, "main.s.t")
    folder.root.rename(tmp_path / "moved")
    catalog.add("main.s.t", f"file://{tmp_path / 'moved'}", table_id="another")
    found = await table.latest()
    assert found is not None
    assert found.table_id == "another"
    (tmp_path / "moved").rename(tmp_path / "gone")
    with pytest.raises(NotFound, match="moved"):
        await table.latest()
    del catalog.tables["main.s.t"]
    with pytest.raises(NotFound, match=r"main\.s\.t"):
        await table.latest()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"table_type": "MATERIALIZED_VIEW"}, "materialized view"),
    ({"table_type": "STREAMING_TABLE"}, "streaming table"),
    ({"table_type": "FOREIGN", "data_source_format": "POSTGRESQL_FORMAT"}, "foreign table"),
    ({"table_type": "MANAGED", "data_source_format": "DELTASHARING"}, "read_as"),
    ({"data_source_format": "ICEBERG"}, "ICEBERG"),
    ({"storage_location": None}, "storage_location"),
    ({"storage_location": "dbfs:/mnt/x"}, "dbfs"),
    ({"storage_location": "s3://b/t", "row_filter": {"function_name": "f"}}, "row filter"),
    ({"storage_location": "s3://b/t", "columns": [{"name": "a", "mask": {"function_name": "f"}}]}, "column mask"),
]


@pytest.mark.parametrize(("fields", "why"), REFUSED)
async def test_what_has_no_log_that_we_can_read_is_refused_by_name(
    catalog: Catalog, fields: dict[str, Any], why: str
) -> None:
    catalog.add("main.s.t", "file:///nowhere", **fields)
    with pytest.raises(InvalidArgument, match=why) as caught:
        await open_table(catalog.workspace, "main.s.t")
    assert "main.s.t" in str(caught.value) or "dbfs" in str(caught.value)


async def test_the_log_of_a_catalog_managed_table_is_refused_where_it_is_asked_for(catalog: Catalog) -> None:
    catalog.add("main.s.t", "file:///nowhere", properties={"delta.feature.catalogManaged": "supported"})
    with pytest.raises(InvalidArgument, match=r"main\.s\.t .*catalog-managed.*via='catalog'"):
        await open_table(catalog.workspace, "main.s.t", via="log")


CHOICES: list[tuple[str, dict[str, Any], str]] = [
    ("main.s.t", {"via": "log", "warehouse": "w"}, "via='sql'"),
    ("main.s.t", {"via": "sql"}, "warehouse="),
    ("main.s.t", {"via": "sql", "warehouse": "w", "warehouse_id": "1"}, "one of"),
    ("main.s.t", {"via": "sharing"}, "profile="),
    ("main.s.t", {"profile": "p"}, "via='sharing'"),
    ("main.s.t", {"via": "telepathy"}, "log, catalog, sharing, sql"),
    ("/a/folder", {"via": "catalog"}, "location"),
    ("main.s.ext", {"via": "catalog"}, "EXTERNAL"),
]


@pytest.mark.parametrize(("name", "choice", "why"), CHOICES)
async def test_a_choice_that_cannot_work_is_refused(
    catalog: Catalog, name: str, choice: dict[str, Any], why: str
) -> None:
    catalog.add("main.s.ext", "s3://b/t", table_type="EXTERNAL")
    with pytest.raises(InvalidArgument, match=why):
        await open_table(catalog.workspace, name, **choice)


async def test_the_kind_of_a_table_chooses_and_the_author_may(catalog: Catalog, folder: Folder) -> None:
    folder.commits(0, 1)
    catalog.add("main.s.plain", f"file://{folder.root}")
    catalog.add("main.s.managed", "s3://b/t", properties={"delta.feature.catalogManaged": "supported"})
    kinds = [
        await open_table(catalog.workspace, "main.s.plain"),
        await open_table(catalog.workspace, "main.s.managed"),
        await open_table(catalog.workspace, "main.s.plain", via="log"),
        await open_table(catalog.workspace, "main.s.plain", via="catalog"),
        await open_table(catalog.workspace, "main.s.plain", via="sql", warehouse_id="1"),
        await open_table(None, "a.b.c", via="sharing", profile={"endpoint": "https://x", "bearerToken": "t"}),
    ]
    assert [type(kind).__name__ for kind in kinds] == [
        "NamedTable",
        "CatalogManagedTable",
        "NamedTable",
        "CatalogManagedTable",
        "SqlTable",
        "SharedTable",
    ]


async def test_a_table_that_the_catalog_does_not_have(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        await open_table(catalog.workspace, "main.s.t")


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "file:{}", "file://localhost{}"])
async def test_a_folder_is_opened_without_a_workspace(tmp_path: Path, spelling: str) -> None:
    folder = Folder(tmp_path / "a b%20c")
    folder.commits(0, 2)
    found = await (await open_table(None, spelling.format(folder.root))).latest()
    assert found is not None
    assert (found.version, found.table_id) == (2, None)


async def test_an_encoded_file_url(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a b")
    folder.commits(0, 2)
    assert await (await open_table(None, f"file://{tmp_path}/a%20b/")).latest() is not None


async def test_a_folder_that_is_not_there_is_not_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        await open_table(None, str(tmp_path / "nope"))
    assert await (await open_table(None, str(tmp_path))).latest() is None


async def test_a_name_without_a_workspace_and_a_bucket_by_url_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="no workspace"):
        await open_table(None, "main.s.t")
    with pytest.raises(InvalidArgument, match="Unity Catalog"):
        await open_table(None, "s3://b/t")


@pytest.fixture
async def bucket(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    async with serve() as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL", served.url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the environment")
        yield served


def aws(until: datetime, key: str) -> dict[str, Any]:
    return {
        "expiration_time": int(until.timestamp() * 1000),
        "aws_temp_credentials": {"access_key_id": key, "secret_access_key": "secret", "session_token": f"of {key}"},
    }


async def no_region(bucket: str) -> str | None:
    return None


async def test_credentials_of_the_catalog_open_the_bucket_and_are_renewed_in_time(
    catalog: Catalog, bucket: Bucket
) -> None:
    fill(bucket, 2)
    catalog.add("main.s.t", "s3://lake/t 1")
    clock = Clock(datetime.now(UTC))
    catalog.credentials = aws(clock.at + timedelta(minutes=60), "FIRST")
    table = await open_table(catalog.workspace, "main.s.t", now=clock, region_of=no_region)
    for minutes in (0, 1, 53):
        clock.at += timedelta(minutes=minutes)
        found = await table.latest(1)
        assert found is not None
        assert found.version == 2
    assert {h["x-amz-security-token"] for h in bucket.headers} == {"of FIRST"}
    assert all("Credential=FIRST/" in h["Authorization"] and "eu-west-3" in h["Authorization"] for h in bucket.headers)
    assert sorted(set(catalog.asked)) == ["credentials of id of main.s.t", "main.s.t", "metastore"]
    assert catalog.asked.count("credentials of id of main.s.t") == 1
    bucket.headers.clear()
    catalog.credentials = aws(clock.at + timedelta(minutes=60), "SECOND")
    clock.at += timedelta(minutes=4)
    assert await table.latest(1) is not None
    assert {h["x-amz-security-token"] for h in bucket.headers} == {"of SECOND"}


async def test_credentials_withdrawn_early_are_asked_for_again_once(catalog: Catalog, bucket: Bucket) -> None:
    fill(bucket, 2)
    catalog.add("main.s.t", "s3://lake/t 1")
    catalog.credentials = aws(datetime.now(UTC) + timedelta(hours=1), "KEY")
    table = await open_table(catalog.workspace, "main.s.t", region_of=no_region)
    await table.latest()
    catalog.asked.clear()
    bucket.refuse_list = bucket.refuse_get = (403, "AccessDenied")
    with pytest.raises(NotPermitted):
        await table.latest()
    assert catalog.asked == ["main.s.t", "credentials of id of main.s.t"]
    bucket.refuse_list = bucket.refuse_get = None
    assert await table.latest() is not None


LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "answer", "store"),
    [
        ("abfss://c@a.dfs.core.windows.net/t", {"azure_user_delegation_sas": {"sas_token": "sig=x"}}, "AzureStore"),
        ("abfss://c@a.dfs.core.windows.net/t", {"azure_aad": {"aad_token": "x"}}, "AzureStore"),
        ("gs://b/t", {"gcp_oauth_token": {"oauth_token": "x"}}, "GCSStore"),
        ("s3://b/t", aws(LATER, "K"), "S3Store"),
    ],
)
def test_each_cloud_has_its_store(text: str, answer: dict[str, Any], store: str) -> None:
    opened = open_store(parse_location(text), answer, until=LATER, region="eu-west-3")
    assert type(opened).__name__ == store
    assert "sig=x" not in repr(opened)


def test_credentials_of_the_wrong_kind_are_a_bad_answer() -> None:
    with pytest.raises(BadAnswer, match="given: gcp_oauth_token"):
        open_store(parse_location("s3://b/t"), {"gcp_oauth_token": {"oauth_token": "x"}}, until=LATER, region=None)
