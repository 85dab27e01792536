"""Versions by SQL: the Statement Execution API over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    HistoryGap,
    InvalidArgument,
    NotFound,
    NotPermitted,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.delta.identifiers import plain, quoted, split
from databricks_bridge.delta.model import VersionSource
from databricks_bridge.delta.sql import SqlTable
from databricks_bridge.workspace.client import Workspace

from .service import Service, serve

START = "POST /api/2.0/sql/statements"
POLL = "GET /api/2.0/sql/statements/s1"
CANCEL = "POST /api/2.0/sql/statements/s1/cancel"
WAREHOUSES = "GET /api/2.0/sql/warehouses"
COLUMNS = ["version", "timestamp", "userId", "operation"]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serve() as served:
        served.answers["GET /api/2.1/unity-catalog/tables/main.s.t"] = {"table_id": "u1"}
        served.answers[START] = status("PENDING")
        served.answers[CANCEL] = {}
        yield served


@pytest.fixture
async def workspace(service: Service) -> AsyncIterator[Workspace]:
    async with service.workspace() as client:
        yield client


def status(state: str, **fields: Any) -> dict[str, Any]:
    return {"statement_id": "s1", "status": {"state": state, **fields}}


def history(*rows: tuple[int, str]) -> dict[str, Any]:
    """As the service answers: every cell is text."""
    schema = {"columns": [{"name": name, "position": at} for at, name in enumerate(COLUMNS)]}
    data = [[str(version), "2026-11-29T12:00:00.000Z", None, operation] for version, operation in rows]
    return status("SUCCEEDED") | {"manifest": {"schema": schema}, "result": {"data_array": data} if data else {}}


def table(service: Service, workspace: Workspace, **options: Any) -> SqlTable:
    chosen = {"warehouse_id": "w1", "identify": False} | options
    return SqlTable(workspace, "main.s.t", sleep=service.sleep, **chosen)


def detail(identity: str | None) -> dict[str, Any]:
    schema = {"columns": [{"name": "format", "position": 0}, {"name": "id", "position": 1}]}
    return status("SUCCEEDED") | {"manifest": {"schema": schema}, "result": {"data_array": [["delta", identity]]}}


async def test_the_metadata_id_is_asked_for_when_the_version_moved(service: Service, workspace: Workspace) -> None:
    source = table(service, workspace, identify=True)
    service.answers[START] = [
        history((50, "WRITE")),
        detail("a"),
        history((50, "WRITE")),
        history((50, "WRITE")),  # nothing moved: one statement
        history((51, "CREATE OR REPLACE TABLE AS SELECT")),
        detail("b"),
        history((51, "CREATE OR REPLACE TABLE AS SELECT")),
        history((52, "WRITE")),
        detail("b"),  # the id that is known already needs no second look at the history
    ]
    found = [await source.latest(50) for _ in range(4)]
    assert [(one.version, one.metadata_id) for one in found if one] == [(50, "a"), (50, "a"), (51, "b"), (52, "b")]
    assert len(service.bodies) == 9
    assert {body["statement"] for body in service.bodies} == {
        "DESCRIBE HISTORY `main`.`s`.`t` LIMIT 1",
        "DESCRIBE DETAIL `main`.`s`.`t`",
    }


async def test_a_table_replaced_between_the_statements_is_told_with_its_own_version(
    service: Service, workspace: Workspace
) -> None:
    service.answers[START] = [
        history((50, "WRITE")),
        detail("b"),
        history((51, "CREATE OR REPLACE TABLE")),
        detail("b"),
        history((51, "CREATE OR REPLACE TABLE")),
    ]
    found = await table(service, workspace, identify=True).latest(50)
    assert found is not None
    assert (found.version, found.metadata_id) == (51, "b")


@pytest.mark.parametrize(
    "answer", [detail(None), status("FAILED", error={"message": "not supported"}), status("FAILED", sql_state="42501")]
)
async def test_a_warehouse_that_tells_no_id_still_tells_versions(
    service: Service, workspace: Workspace, answer: dict[str, Any]
) -> None:
    service.answers[START] = [history((50, "WRITE")), answer]
    found = await table(service, workspace, identify=True).latest(49)
    assert found is not None
    assert (found.version, found.metadata_id, found.data_version) == (50, None, 50)


async def test_one_statement_is_started_without_waiting_and_polled(service: Service, workspace: Workspace) -> None:
    service.answers[POLL] = [status("PENDING"), status("RUNNING"), history((7, "WRITE"))]
    source = table(service, workspace)
    assert isinstance(source, VersionSource)
    found = await source.latest(5)
    assert found is not None
    assert (found.version, found.data_version, found.table_id) == (7, 7, "u1")
    assert found.committed_at == datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert service.bodies == [
        {
            "warehouse_id": "w1",
            "statement": "DESCRIBE HISTORY `main`.`s`.`t` LIMIT 1",
            "wait_timeout": "0s",
            "on_wait_timeout": "CONTINUE",
            "disposition": "INLINE",
            "format": "JSON_ARRAY",
        }
    ]
    assert service.pauses == [0.5, 1.0, 2.0]


async def test_maintenance_costs_a_second_statement_and_starts_nothing(service: Service, workspace: Workspace) -> None:
    service.answers[POLL] = [history((7, "OPTIMIZE")), history((7, "OPTIMIZE"), (6, "VACUUM END"))]
    found = await table(service, workspace).latest(5)
    assert found is not None
    assert (found.version, found.data_version) == (7, None)
    assert [body["statement"][-7:] for body in service.bodies] == ["LIMIT 1", "LIMIT 2"]
    service.answers[POLL] = [history((7, "OPTIMIZE")), history((7, "OPTIMIZE"), (6, "MERGE"))]
    found = await table(service, workspace).latest(5)
    assert found is not None
    assert found.data_version == 6
    service.answers[POLL] = [history((7, "OPTIMIZE")), history((7, "OPTIMIZE"), (6, "OPTIMIZE"))]
    found = await table(service, workspace).latest(3)
    assert found is not None
    assert found.data_version == 5, "what history does not reach counts as data"


async def test_a_table_without_history_has_no_version(service: Service, workspace: Workspace) -> None:
    service.answers[POLL] = history()
    assert await table(service, workspace).latest() is None


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (
            status("FAILED", error={"error_code": "BAD_REQUEST", "message": "[SYNTAX] x"}),
            WorkspaceError,
            r"FAILED: BAD_REQUEST: \[SYNTAX\]",
        ),
        (status("FAILED", error={"message": "gone"}, sql_state="42P01"), NotFound, "gone"),
        (status("FAILED", error={"message": "no right"}, sql_state="42501"), NotPermitted, "no right"),
        (status("CANCELED"), Unavailable, "canceled by someone else"),
        (status("SUCCEEDED"), BadAnswer, "cannot be read"),
    ],
)
async def test_a_failed_statement_is_http_200_and_a_clear_error(
    service: Service, workspace: Workspace, answer: dict[str, Any], kind: type[BridgeError], why: str
) -> None:
    service.answers[POLL] = answer
    with pytest.raises(BridgeError, match=why) as caught:
        await table(service, workspace).latest()
    assert type(caught.value) is kind
    assert "DESCRIBE HISTORY" in str(caught.value)
    assert service.url in str(caught.value)


async def test_a_warehouse_that_does_not_start_is_given_up_and_the_statement_cancelled(
    service: Service, workspace: Workspace
) -> None:
    service.answers[POLL] = status("PENDING")
    with pytest.raises(Unavailable, match=r"w1.*60 s.*PENDING"):
        await table(service, workspace, budget_seconds=60).latest()
    assert 60 <= sum(service.pauses) < 70
    assert service.asked[-1] == CANCEL


async def test_the_warehouse_is_found_by_its_exact_name_once(service: Service, workspace: Workspace) -> None:
    service.answers[WAREHOUSES] = {"warehouses": [{"id": "w9", "name": "BI"}, {"id": "w8", "name": "bi"}]}
    service.answers[POLL] = history((7, "WRITE"))
    source = table(service, workspace, warehouse="BI", warehouse_id=None)
    await source.latest()
    await source.latest()
    assert [body["warehouse_id"] for body in service.bodies] == ["w9", "w9"]
    assert service.asked.count(WAREHOUSES) == 1
    with pytest.raises(NotFound, match="'Bi'"):
        await table(service, workspace, warehouse="Bi", warehouse_id=None).latest()
    service.answers[WAREHOUSES] = {"warehouses": [{"id": "w9", "name": "BI"}, {"id": "w8", "name": "BI"}]}
    with pytest.raises(InvalidArgument, match="w8, w9"):
        await table(service, workspace, warehouse="BI", warehouse_id=None).latest()


async def test_commits_of_a_range_over_several_chunks(service: Service, workspace: Workspace) -> None:
    first = history((7, "OPTIMIZE"), (6, "WRITE"))
    first["result"] |= {"chunk_index": 0, "next_chunk_index": 1}
    service.answers[f"{POLL}/result/chunks/1"] = {"data_array": [["5", None, None, "MERGE"]]}
    service.answers[POLL] = [history((7, "OPTIMIZE")), first]
    source = table(service, workspace)
    found = [(c.version, c.carries_data) async for c in source.commits(4, 7)]
    assert found == [(5, True), (6, True), (7, False)]
    service.answers[POLL] = history((7, "OPTIMIZE"))
    with pytest.raises(HistoryGap, match="commit 6"):
        [c async for c in source.commits(5, 7)]
    with pytest.raises(Unavailable, match="commit 8"):
        [c async for c in source.commits(5, 8)]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("main.s.t", ("main", "s", "t")),
        ("`ma.in`.s.`t``x`", ("ma.in", "s", "t`x")),
        ("a b.é😀.t-1", ("a b", "é😀", "t-1")),
    ],
)
def test_a_name_is_taken_apart_and_quoted(name: str, parts: tuple[str, str, str]) -> None:
    assert split(name) == parts
    assert split(quoted(name)) == parts
    assert plain(name) == ".".join(parts)


@pytest.mark.parametrize("name", ["", "a.b", "a.b.c.d", "a..c", "a.b.", "a.b.`c", "a.b.c`d", "`a`b.c.d", "a. .c"])
def test_what_is_not_a_three_part_name(name: str) -> None:
    with pytest.raises(InvalidArgument, match="three-part"):
        split(name)


@given(st.lists(st.text(min_size=1, max_size=8).filter(str.strip), min_size=3, max_size=3))
def test_quoting_leaves_no_way_out(parts: list[str]) -> None:
    name = ".".join("`{}`".format(part.replace("`", "``")) for part in parts)
    assert split(name) == tuple(parts)
    assert quoted(name) == name
