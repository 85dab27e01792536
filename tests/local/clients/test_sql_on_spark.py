"""SQL statements on real Spark over real Delta tables, and what of ours depends on them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine import SparkEngine
from databricks_bridge.local.engine.jars import prepare
from tests.local.local_kit import client, eventually

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("spark") / "home"
    with deployment_in_thread(home, ["ops"], engine=SparkEngine(home / "engine", prepare(print))) as up:
        yield up


@pytest.fixture
def ops(spark: Deployment) -> Any:
    return client(spark, "ops")


def run(ops: Any, text: str, **more: Any) -> Any:
    warehouse = next(iter(ops.warehouses.list())).id
    statement = ops.statement_execution.execute_statement(text, warehouse, wait_timeout="5s", **more)
    return eventually(lambda: done(ops, statement.statement_id), seconds=120)


def done(ops: Any, statement_id: str) -> Any:
    found = ops.statement_execution.get_statement(statement_id)
    return None if found.status.state.value in ("PENDING", "RUNNING") else found


def rows(ops: Any, text: str, **more: Any) -> list[list[str | None]]:
    answer = run(ops, text, **more)
    assert answer.status.state.value == "SUCCEEDED", answer.status
    return list(answer.result.data_array or [])


def test_statements_on_delta_tables(ops: Any) -> None:
    from databricks.sdk.service.sql import StatementParameterListItem as Parameter

    assert rows(ops, "CREATE SCHEMA IF NOT EXISTS silver") == []
    rows(ops, "CREATE TABLE silver.flights (n BIGINT, at TIMESTAMP, tags MAP<STRING, INT>)")
    values = [
        Parameter(name="n", value="7", type="BIGINT"),
        Parameter(name="at", value="2026-03-01T10:00:00Z", type="TIMESTAMP"),
    ]
    rows(ops, "INSERT INTO flights SELECT :n, :at, map('a', 1)", catalog="main", schema="silver", parameters=values)
    answer = run(ops, "SELECT n, n AS n, at, tags, CAST(NULL AS DATE) AS day, true AS yes FROM main.silver.flights")
    assert answer.result.data_array == [["7", "7", "2026-03-01T10:00:00.000Z", '{"a":1}', None, "true"]]
    kinds = [(column.name, column.type_name.value, column.type_text) for column in answer.manifest.schema.columns]
    assert kinds[0] == ("n", "LONG", "BIGINT")
    assert kinds[2] == ("at", "TIMESTAMP", "TIMESTAMP")
    assert kinds[3] == ("tags", "MAP", "MAP<STRING,INT>")
    assert ops.tables.get("main.silver.flights").data_source_format.value == "DELTA"
    assert [row[0] for row in rows(ops, "DESCRIBE HISTORY main.silver.flights")] == ["1", "0"]
    limited = run(ops, "SELECT * FROM range(10)", row_limit=3)
    assert (len(limited.result.data_array), limited.manifest.truncated) == (3, True)
    ops.catalogs.create("later")
    assert ["default"] in rows(ops, "SHOW SCHEMAS IN later")


def test_errors_have_spark_s_words_and_states(ops: Any) -> None:
    for text, state, said in (
        ("SELECT * FROM main.default.nothing_there", "42P01", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELEC 1", "42601", "[PARSE_SYNTAX_ERROR]"),
        ("SELECT assert_true(false)", "P0001", "[USER_RAISED_EXCEPTION]"),
    ):
        answer = run(ops, text)
        assert answer.status.state.value == "FAILED"
        assert said in answer.status.error.message
        raw = ops.api_client.do("GET", f"/api/2.0/sql/statements/{answer.statement_id}")
        assert raw["status"]["sql_state"] == state
        assert "\tat " not in answer.status.error.message


def test_a_statement_that_is_cancelled_frees_its_place(ops: Any) -> None:
    warehouse = next(iter(ops.warehouses.list())).id
    slow = "SELECT reflect('java.lang.Thread', 'sleep', 60000L) FROM range(2)"
    statements = [
        ops.statement_execution.execute_statement(slow, warehouse, wait_timeout="0s").statement_id for _ in range(4)
    ]
    eventually(lambda: ops.statement_execution.get_statement(statements[-1]).status.state.value == "RUNNING")
    for statement in statements:
        ops.statement_execution.cancel_execution(statement)
        assert ops.statement_execution.get_statement(statement).status.state.value == "CANCELED"
    began = time.monotonic()
    assert rows(ops, "SELECT 1") == [["1"]]
    assert time.monotonic() - began < 30


def test_a_process_that_is_killed_is_started_again(spark: Deployment, ops: Any) -> None:
    rows(ops, "SELECT 1")
    runner: Any = spark.workspaces["ops"].sql.runner
    (session,) = runner._sql.values()
    warehouse = next(iter(ops.warehouses.list())).id
    slow = "SELECT reflect('java.lang.Thread', 'sleep', 60000L) FROM range(2)"
    statement = ops.statement_execution.execute_statement(slow, warehouse, wait_timeout="0s").statement_id
    os.kill(session.pid, signal.SIGKILL)
    lost = eventually(lambda: done(ops, statement))
    assert (lost.status.state.value, lost.status.error.error_code.value) == ("FAILED", "INTERNAL_ERROR")
    assert "has ended while the statement ran" in lost.status.error.message
    assert rows(ops, "SELECT 2") == [["2"]]


async def test_our_version_by_sql_and_the_control_table_ledger(spark: Deployment) -> None:
    from databricks_bridge.core.errors import NotFound, WriteLost
    from databricks_bridge.core.record import Record
    from databricks_bridge.delta.sql import SqlTable
    from databricks_bridge.ledgers.control_table import ControlTableKeep
    from databricks_bridge.workspace.client import Workspace
    from databricks_bridge.workspace.statements import Warehouse
    from tests.core.builders import NOW, at

    async def authorize() -> dict[str, str]:
        return {"Authorization": f"Bearer {spark.token('ops')}"}

    async with Workspace(spark.host("ops"), authorize) as workspace:
        warehouse = Warehouse(workspace, name="local")
        await warehouse.execute("CREATE SCHEMA IF NOT EXISTS main.bridge")
        await warehouse.execute("CREATE TABLE main.bridge.source AS SELECT 1L AS n")
        await warehouse.execute("INSERT INTO main.bridge.source VALUES (2)")
        await warehouse.execute("OPTIMIZE main.bridge.source")
        table = SqlTable(workspace, "main.bridge.source", warehouse="local")
        latest = await table.latest()
        assert latest is not None
        assert (latest.version, latest.data_version) == (2, 1)
        assert latest.committed_at is not None
        assert latest.committed_at.utcoffset() is not None
        assert [(c.version, c.carries_data) async for c in table.commits(0, 2)] == [(1, True), (2, False)]
        with pytest.raises(NotFound, match="does not exist"):
            await SqlTable(workspace, "main.bridge.none", warehouse="local").latest()

        async def same() -> Warehouse:
            return warehouse

        first = Record("delays", "consumer", {"flights": at(3)}).after(NOW, "started")
        ledger = ControlTableKeep(same, "main.bridge").ledger("delays")
        await ledger.write(first)
        second = first.after(NOW, 'it\'s "again"; :name', watermarks={"flights": at(4)})
        await ledger.write(second)
        fresh = ControlTableKeep(same, "main.bridge")
        assert await fresh.ledger("delays").read() == second
        assert await fresh.kept_watermarks("delays") == {"flights": 4}
        assert await fresh.names() == ["delays"]
        with pytest.raises(WriteLost):
            await fresh.ledger("delays").write(second)
