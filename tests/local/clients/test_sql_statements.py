"""The SQL Statement Execution API, with the official SDK as client and a declared fake as engine."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.clients.fake_sql import FakeSql
from tests.local.local_kit import eventually


@pytest.fixture
def warehouse(ops: Any) -> str:
    return str(next(iter(ops.warehouses.list())).id)


def test_a_statement_answers_its_rows_as_text(ops: Any, warehouse: str) -> None:
    from databricks.sdk.service.sql import StatementParameterListItem

    answer = ops.statement_execution.execute_statement(
        "SELECT :n AS n, :name AS name, NULL AS nothing",
        warehouse,
        parameters=[
            StatementParameterListItem(name="n", value="41", type="BIGINT"),
            StatementParameterListItem(name="name", value="Graz"),
        ],
    )
    assert answer.status.state.value == "SUCCEEDED"
    assert [column.name for column in answer.manifest.schema.columns] == ["n", "name", "nothing"]
    assert [column.position for column in answer.manifest.schema.columns] == [0, 1, 2]
    assert answer.result.data_array == [["41", "Graz", None]]
    assert (answer.manifest.total_row_count, answer.manifest.truncated) == (1, False)
    again = ops.statement_execution.get_statement(answer.statement_id)
    assert again.as_dict() == answer.as_dict()


def test_a_result_comes_in_chunks(deployment: Deployment, ops: Any, warehouse: str) -> None:
    deployment.workspaces["ops"].sql.chunk_rows = 4
    answer = ops.statement_execution.execute_statement("SELECT range AS n FROM range(10)", warehouse)
    assert [(c.chunk_index, c.row_offset, c.row_count) for c in answer.manifest.chunks] == [
        (0, 0, 4),
        (1, 4, 4),
        (2, 8, 2),
    ]
    rows, chunk = list(answer.result.data_array), answer.result
    while chunk.next_chunk_index is not None:
        chunk = ops.statement_execution.get_statement_result_chunk_n(answer.statement_id, chunk.next_chunk_index)
        rows += chunk.data_array
    assert rows == [[str(n)] for n in range(10)]
    with pytest.raises(Exception, match="has no chunk 3"):
        ops.statement_execution.get_statement_result_chunk_n(answer.statement_id, 3)


def test_a_row_limit_truncates(ops: Any, warehouse: str) -> None:
    answer = ops.statement_execution.execute_statement("SELECT range FROM range(10)", warehouse, row_limit=3)
    assert (len(answer.result.data_array), answer.manifest.truncated) == (3, True)


def test_a_statement_without_rows_has_an_empty_result(deployment: Deployment, ops: Any, warehouse: str) -> None:
    body = {"warehouse_id": warehouse, "statement": "SELECT 1 AS n WHERE false"}
    answer = ops.api_client.do("POST", "/api/2.0/sql/statements", body=body)
    assert (answer["result"], answer["manifest"]["total_row_count"]) == ({}, 0)


def test_a_statement_that_fails_is_an_answer_and_not_an_error(ops: Any, warehouse: str) -> None:
    answer = ops.statement_execution.execute_statement("SELECT * FROM nothing_there", warehouse)
    assert answer.status.state.value == "FAILED"
    assert answer.status.error.error_code.value == "BAD_REQUEST"
    assert "TABLE_OR_VIEW_NOT_FOUND" in answer.status.error.message
    raw = ops.api_client.do("GET", f"/api/2.0/sql/statements/{answer.statement_id}")
    assert raw["status"]["sql_state"] == "42P01"
    assert "result" not in raw


def test_wait_timeout_goes_on_or_cancels(ops: Any, warehouse: str, fake_sql: FakeSql) -> None:
    from databricks.sdk.service.sql import ExecuteStatementRequestOnWaitTimeout as OnTimeout

    run = ops.statement_execution
    at_once = run.execute_statement("SELECT 1 AS n -- WAIT", warehouse, wait_timeout="0s")
    assert at_once.status.state.value in ("PENDING", "RUNNING")
    assert at_once.result is None
    began = time.monotonic()
    given_up = run.execute_statement("SELECT 2 -- WAIT", warehouse, wait_timeout="5s", on_wait_timeout=OnTimeout.CANCEL)
    assert time.monotonic() - began >= 5
    assert given_up.status.state.value == "CANCELED"
    eventually(lambda: fake_sql.cancelled == [given_up.statement_id])
    fake_sql.go.set()
    eventually(lambda: run.get_statement(at_once.statement_id).status.state.value == "SUCCEEDED")
    assert run.get_statement(given_up.statement_id).status.state.value == "CANCELED"


def test_cancel(ops: Any, warehouse: str, fake_sql: FakeSql) -> None:
    run = ops.statement_execution
    statement = run.execute_statement("SELECT 1 -- WAIT", warehouse, wait_timeout="0s").statement_id
    run.cancel_execution(statement)
    assert run.get_statement(statement).status.state.value == "CANCELED"
    eventually(lambda: fake_sql.cancelled == [statement])
    done = run.execute_statement("SELECT 1", warehouse).statement_id
    run.cancel_execution(done)
    assert run.get_statement(done).status.state.value == "SUCCEEDED"


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"warehouse_id": None}, "INVALID_PARAMETER_VALUE", "warehouse_id"),
    ({"warehouse_id": "other"}, "RESOURCE_DOES_NOT_EXIST", "SQL warehouse other does not exist"),
    ({"statement": " "}, "INVALID_PARAMETER_VALUE", "statement"),
    ({"wait_timeout": "3s"}, "INVALID_PARAMETER_VALUE", "0s, or from 5s to 50s"),
    ({"wait_timeout": "60s"}, "INVALID_PARAMETER_VALUE", "0s, or from 5s to 50s"),
    ({"wait_timeout": "0s", "on_wait_timeout": "CANCEL"}, "INVALID_PARAMETER_VALUE", "CANCEL"),
    ({"disposition": "ELSEWHERE"}, "MALFORMED_REQUEST", "ELSEWHERE"),
    ({"format": "ARROW_STREAM"}, "INVALID_PARAMETER_VALUE", "ARROW_STREAM"),
    ({"parameters": [{"value": "1"}]}, "INVALID_PARAMETER_VALUE", "parameter"),
    ({"row_limit": 0}, "INVALID_PARAMETER_VALUE", "row_limit"),
]


def test_requests_that_are_refused(deployment: Deployment, warehouse: str) -> None:
    headers = {"Authorization": f"Bearer {deployment.token('ops')}"}
    for change, code, said in REFUSED:
        body = {"warehouse_id": warehouse, "statement": "SELECT 1", **change}
        answer = httpx.post(f"{deployment.host('ops')}/api/2.0/sql/statements", json=body, headers=headers)
        assert answer.status_code in (400, 404), change
        assert answer.json()["error_code"] == code
        assert said in answer.json()["message"]


def test_an_unknown_statement_and_one_of_another_workspace(deployment: Deployment, ops: Any, warehouse: str) -> None:
    from databricks.sdk.errors import NotFound

    from tests.local.local_kit import client

    statement = ops.statement_execution.execute_statement("SELECT 1", warehouse).statement_id
    with pytest.raises(NotFound, match="was not found"):
        client(deployment, "met").statement_execution.get_statement(statement)


def test_a_stopped_warehouse_is_started_by_a_statement(ops: Any, warehouse: str) -> None:
    ops.warehouses.stop(warehouse)
    assert ops.warehouses.get(warehouse).state.value == "STOPPED"
    ops.statement_execution.execute_statement("SELECT 1", warehouse)
    assert ops.warehouses.get(warehouse).state.value == "RUNNING"


def test_without_a_runner_every_statement_fails_and_says_why(tmp_path: Any) -> None:
    from databricks_bridge.local.deployment import deployment_in_thread
    from databricks_bridge.local.engine.instant import InstantEngine
    from tests.local.local_kit import Notebooks, client

    with deployment_in_thread(tmp_path / "home", ["ops"], engine=InstantEngine(Notebooks().run)) as up:
        ops = client(up, "ops")
        answer = ops.statement_execution.execute_statement("SELECT 1", next(iter(ops.warehouses.list())).id)
    assert answer.status.state.value == "FAILED"
    assert "runs no SQL" in answer.status.error.message
