"""Views: the tables under them, from the catalog, or from the SQL where the catalog is silent."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.errors import InvalidArgument, NotFound
from databricks_bridge.delta import views
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.workspace.client import Workspace

from .conftest import Folder
from .service import Service, serve


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serve() as served:
        yield served


@pytest.fixture
async def workspace(service: Service) -> AsyncIterator[Workspace]:
    async with service.workspace() as client:
        yield client


def put(service: Service, name: str, entry: dict[str, Any]) -> dict[str, Any]:
    service.answers[f"GET /api/2.1/unity-catalog/tables/{name}"] = entry
    return entry


def table(service: Service, name: str, location: str = "file:///nowhere") -> None:
    kind = {"table_type": "MANAGED", "data_source_format": "DELTA", "table_id": name, "storage_location": location}
    put(service, name, kind)


def view(service: Service, name: str, *under: str, kind: str = "VIEW") -> dict[str, Any]:
    found: list[dict[str, Any]] = [{"table": {"table_full_name": one}} for one in under]
    dependencies = [*found, {"function": {"function_full_name": "main.s.f"}}]
    return put(service, name, {"table_type": kind, "view_dependencies": {"dependencies": dependencies}})


async def test_views_over_views_are_followed_to_their_tables(service: Service, workspace: Workspace) -> None:
    for name in ("main.s.a", "main.s.b", "main.s.c"):
        table(service, name)
    view(service, "main.s.inner", "main.s.b", "main.s.c", "main.s.top")
    view(service, "main.s.metric", "main.s.a", kind="METRIC_VIEW")
    top = view(service, "main.s.top", "main.s.a", "main.s.inner", "main.s.metric")
    found = await views.tables_of(workspace, "main.s.top", top)
    assert found.tables == ("main.s.a", "main.s.b", "main.s.c")
    assert found.views == ("main.s.inner", "main.s.metric")
    with pytest.raises(InvalidArgument, match=r"reads 3 tables.*main\.s\.a, main\.s\.b, main\.s\.c"):
        await open_table(workspace, "main.s.top")


async def test_a_view_over_one_table_stands_for_it(service: Service, workspace: Workspace, folder: Folder) -> None:
    folder.commits(0, 4)
    table(service, "main.s.a", f"file://{folder.root}")
    view(service, "main.s.inner", "main.s.a")
    view(service, "main.s.top", "main.s.inner", "main.s.a")
    found = await (await open_table(workspace, "main.s.top")).latest(3)
    assert found is not None
    assert (found.version, found.data_version, found.table_id) == (4, 4, "main.s.a")


async def test_more_tables_than_databricks_takes_are_warned_about(
    service: Service, workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"main.s.t{n}" for n in range(11)]
    for name in names:
        table(service, name)
    with caplog.at_level(logging.WARNING, views.__name__):
        assert len((await views.tables_of(workspace, "main.s.v", view(service, "main.s.v", *names[:10]))).tables) == 10
        assert caplog.records == []
        assert len((await views.tables_of(workspace, "main.s.v", view(service, "main.s.v", *names))).tables) == 11
    assert "main.s.v has 11 tables" in caplog.text
    assert "takes 10" in caplog.text


async def test_a_dependency_that_is_gone_or_hidden_is_named(service: Service, workspace: Workspace) -> None:
    entry = view(service, "main.s.v", "main.s.gone")
    gone = web.json_response(
        {"error_code": "TABLE_DOES_NOT_EXIST", "message": "'main.s.gone' does not exist."}, status=404
    )
    service.answers["GET /api/2.1/unity-catalog/tables/main.s.gone"] = gone
    with pytest.raises(NotFound, match=r"main\.s\.gone"):
        await views.tables_of(workspace, "main.s.v", entry)


async def test_a_view_of_nothing_has_no_versions(service: Service, workspace: Workspace) -> None:
    view(service, "main.s.x", "main.s.v")
    with pytest.raises(InvalidArgument, match="reads no table"):
        await views.tables_of(workspace, "main.s.v", view(service, "main.s.v", "main.s.x"))
    with pytest.raises(InvalidArgument, match="neither"):
        await views.tables_of(workspace, "main.s.v", {"table_type": "VIEW"})


SQL = """
WITH recent AS (SELECT * FROM flights WHERE day > '2026-01-01'), a AS (SELECT 1 AS x)
SELECT r.*, (SELECT max(t) FROM other.weather) AS hot
FROM recent r JOIN `my cat`.`s.1`.airports p ON r.origin = p.id, a
WHERE r.id IN (SELECT id FROM main.audit.bad) UNION ALL SELECT *, 1 FROM flights
"""


async def test_the_definition_is_parsed_where_the_catalog_is_silent(service: Service, workspace: Workspace) -> None:
    pytest.importorskip("sqlglot")
    found = views.parsed_tables("main.silver.v", SQL, "main", "silver")
    assert sorted(found) == ["main.audit.bad", "main.other.weather", "main.silver.flights", "my cat.s.1.airports"]
    for wrong, why in (("SELECT FROM WHERE (", "cannot be parsed"), ("SELECT * FROM delta.`/mnt/x`", "path")):
        with pytest.raises(InvalidArgument, match=why):
            views.parsed_tables("main.s.v", wrong, "main", "s")


async def test_without_a_parser_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(views, "import_module", missing)
    with pytest.raises(InvalidArgument, match=r"with the extra \[views\], or name the tables"):
        views.parsed_tables("main.s.v", "SELECT 1", "main", "s")
