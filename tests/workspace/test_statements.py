"""SQL statements over HTTP: how they are sent, polled, read in chunks, given up, and what a failed one raises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    InvalidArgument,
    NotFound,
    NotPermitted,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.workspace.client import Workspace
from databricks_bridge.workspace.statements import Warehouse

from .conftest import Server, Time, json_answer

PATH = "/api/2.0/sql/statements"


def status(state: str, **fields: Any) -> dict[str, Any]:
    return {"statement_id": "s/1", "status": {"state": state, **fields}}


def rows(*data: list[str | None], **chunk: Any) -> dict[str, Any]:
    schema = {"columns": [{"name": "a", "position": 0}, {"name": "b", "position": 1}]}
    return status("SUCCEEDED") | {"manifest": {"schema": schema}, "result": {"data_array": list(data), **chunk}}


def answers(server: Server, *bodies: dict[str, Any]) -> None:
    server.script[:] = [json_answer(body) for body in bodies]


async def test_a_statement_is_sent_with_typed_parameters_and_answered_at_once(
    server: Server, workspace: Workspace, time: Time
) -> None:
    answers(server, rows(["1", None], ["x", "y"]))
    warehouse = Warehouse(workspace, "w1", wait_seconds=10, sleep=time.sleep)
    assert await warehouse.execute("SELECT :n, :t", n=5, t="it's") == [{"a": "1", "b": None}, {"a": "x", "b": "y"}]
    assert server.requests == [("POST", PATH)]
    assert server.bodies == [
        {
            "warehouse_id": "w1",
            "statement": "SELECT :n, :t",
            "wait_timeout": "10s",
            "on_wait_timeout": "CONTINUE",
            "disposition": "INLINE",
            "format": "JSON_ARRAY",
            "parameters": [
                {"name": "n", "value": "5", "type": "BIGINT"},
                {"name": "t", "value": "it's", "type": "STRING"},
            ],
        }
    ]
    assert time.pauses == []


async def test_it_is_polled_with_growing_pauses_and_read_in_chunks(
    server: Server, workspace: Workspace, time: Time
) -> None:
    last = {"data_array": [["3", "4"]]}
    answers(server, status("PENDING"), status("RUNNING"), rows(["1", "2"], next_chunk_index=1), last)
    found = await Warehouse(workspace, "w1", sleep=time.sleep).execute("SELECT 1")
    assert found == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    polled = f"{PATH}/s%2F1"
    assert [path for _, path in server.requests] == [PATH, polled, polled, f"{polled}/result/chunks/1"]
    assert server.bodies[0]["wait_timeout"] == "0s"
    assert time.pauses == [0.5, 1.0]


@pytest.mark.parametrize(
    ("manifest", "chunk", "why"),
    [
        ({"total_chunk_count": 3}, {}, "its manifest tells 3 chunks, and 1 came"),
        ({"total_row_count": 2}, {}, "its manifest tells 2 rows, and 1 came"),
        ({"total_row_count": "2"}, {}, "its manifest tells 2 rows, and 1 came"),
        ({"truncated": True}, {}, "the service cut the result"),
        ({}, {"next_chunk_index": 2}, "chunk 2 follows where chunk 1 was due"),
        ({}, {"next_chunk_index": 0}, "chunk 0 follows where chunk 1 was due"),
    ],
)
async def test_a_part_of_the_rows_is_never_taken_for_all(
    server: Server, workspace: Workspace, manifest: dict[str, Any], chunk: dict[str, Any], why: str
) -> None:
    answer = rows(["1", "2"], **chunk)
    answer["manifest"] |= manifest
    answers(server, answer)
    with pytest.raises(BadAnswer, match=f"SELECT 1.*a part of its rows: {why}"):
        await Warehouse(workspace, "w1").execute("SELECT 1")


@pytest.mark.parametrize("manifest", [{"total_chunk_count": 1, "total_row_count": 0}, {"total_chunk_count": 0}])
async def test_a_result_without_rows_is_whole(server: Server, workspace: Workspace, manifest: dict[str, Any]) -> None:
    answer = rows()
    answer["manifest"] |= manifest | {"truncated": False}
    answers(server, answer)
    assert await Warehouse(workspace, "w1").execute("SELECT 1") == []


async def test_a_statement_without_columns_has_no_rows(server: Server, workspace: Workspace) -> None:
    answers(server, status("SUCCEEDED") | {"manifest": {"schema": {"column_count": 0}}, "result": {}})
    assert await Warehouse(workspace, "w1").execute("CREATE TABLE t (a INT)") == []


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (status("FAILED", error={"error_code": "BAD", "message": "[SYNTAX] x"}), WorkspaceError, r"BAD: \[SYNTAX\]"),
        (status("FAILED", error={"message": "gone"}, sql_state="42P01"), NotFound, "gone"),
        (status("FAILED", error={"message": "no right", "sql_state": "42501"}), NotPermitted, "no right"),
        (status("FAILED"), WorkspaceError, "no message"),
        (status("CANCELED"), Unavailable, "canceled by someone else"),
        (status("SUCCEEDED"), BadAnswer, "cannot be read"),
        ({}, WorkspaceError, "ended as None"),
    ],
)
async def test_what_a_failed_statement_raises(
    server: Server, workspace: Workspace, answer: dict[str, Any], kind: type[BridgeError], why: str
) -> None:
    answers(server, answer)
    with pytest.raises(BridgeError, match=why) as caught:
        await Warehouse(workspace, "w1").execute("SELECT " + "x" * 500)
    assert type(caught.value) is kind
    assert "on SQL warehouse w1 in http://127.0.0.1" in str(caught.value)
    assert len(str(caught.value)) < 400, "a long statement is cut"


async def test_one_that_does_not_end_is_given_up_and_cancelled(
    server: Server, workspace: Workspace, time: Time
) -> None:
    answers(server, status("PENDING"))
    with pytest.raises(Unavailable, match=r"did not end in 60 s \(state PENDING\)"):
        await Warehouse(workspace, "w1", budget_seconds=60, sleep=time.sleep).execute("SELECT 1")
    assert 60 <= sum(time.pauses) < 70
    assert server.requests[-1] == ("POST", f"{PATH}/s%2F1/cancel")


async def test_whoever_stops_waiting_cancels_it(server: Server, workspace: Workspace) -> None:
    answers(server, status("PENDING"))
    asleep = asyncio.Event()

    async def for_ever(seconds: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Warehouse(workspace, "w1", sleep=for_ever).execute("SELECT 1"))
    await asyncio.wait_for(asleep.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.requests[-1] == ("POST", f"{PATH}/s%2F1/cancel")


async def test_a_name_is_looked_up_once_and_exactly(server: Server, workspace: Workspace) -> None:
    answers(server, {"warehouses": [{"id": "w9", "name": "BI"}, {"id": "w8", "name": "bi"}]}, rows())
    warehouse = Warehouse(workspace, name="BI")
    await warehouse.execute("SELECT 1")
    await warehouse.execute("SELECT 2")
    assert [path for _, path in server.requests] == ["/api/2.0/sql/warehouses", PATH, PATH]
    assert server.bodies[-1]["warehouse_id"] == "w9"
    assert repr(warehouse).startswith("Warehouse('w9', 'http://127.0.0.1:")


def test_a_warehouse_has_to_be_named(workspace: Workspace) -> None:
    with pytest.raises(InvalidArgument, match="no SQL warehouse is named"):
        Warehouse(workspace)
