"""SQL statements on real Spark over real Delta tables, and what of ours depends on them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine import SparkEngine
from databricks_bridge.local.engine.jars import prepare
from databricks_bridge.local.runs.records import get_run, put_run
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


FRESHNESS = """
WITH watched AS (
  SELECT workspace_id, job_id, name, trigger.table_update.table_names AS tables
  FROM system.lakeflow.jobs
  QUALIFY row_number() OVER (PARTITION BY workspace_id, job_id ORDER BY change_time DESC) = 1
    AND delete_time IS NULL AND trigger_type = 'TABLE_UPDATE'
), fired AS (
  SELECT workspace_id, job_id, max(period_end_time) AS last_end, max_by(result_state, period_end_time) AS result
  FROM system.lakeflow.job_run_timeline
  WHERE trigger_type = 'TABLE' AND period_start_time >= now() - INTERVAL 7 DAYS
  GROUP BY workspace_id, job_id
)
SELECT name, tables, result, unix_millis(last_end), timestampdiff(MINUTE, last_end, now()) < 5 AS fresh
FROM watched LEFT JOIN fired USING (workspace_id, job_id) ORDER BY name
"""
"""Which jobs wait for tables, and when each was last started by them."""


def test_the_freshness_query_over_the_system_tables(spark: Deployment, ops: Any) -> None:
    def job(name: str, **more: Any) -> int:
        task = {"task_key": "m", "condition_task": {"op": "EQUAL_TO", "left": "1", "right": "1"}}
        body = {"name": name, "tasks": [task], **more}
        return int(ops.api_client.do("POST", "/api/2.2/jobs/create", body=body)["job_id"])

    on_table = {"trigger": {"table_update": {"table_names": ["main.silver.t"]}, "pause_status": "PAUSED"}}
    fired, silent, gone = job("fired", **on_table), job("silent", **on_table), job("gone", **on_table)
    job("by hand")
    store = spark.workspaces["ops"].store
    for job_id in (fired, gone):
        run_id = ops.jobs.run_now(job_id).run_id
        ended_at(ops, run_id)
        run = get_run(store, run_id)
        assert run is not None
        put_run(store, replace(run, trigger="TABLE"))  # as a commit would have started it
    ops.jobs.delete(gone)
    ended = ended_at(ops, run_id_of(ops, fired))
    assert rows(ops, FRESHNESS) == [
        ["fired", '["main.silver.t"]', "SUCCEEDED", str(ended), "true"],
        ["silent", '["main.silver.t"]', None, None, None],
    ]
    assert [row[0] for row in rows(ops, "SELECT DISTINCT job_id FROM system.lakeflow.job_tasks")] != []
    assert rows(ops, "SELECT task_key FROM job_task_run_timeline", catalog="system", schema="lakeflow") == [
        ["m"],
        ["m"],
    ]
    assert [silent] == [
        int(str(row[0])) for row in rows(ops, "SELECT job_id FROM system.lakeflow.jobs WHERE name = 'silent'")
    ]


def ended_at(ops: Any, run_id: int) -> int:
    return int(eventually(lambda: ops.jobs.get_run(run_id).end_time))


def run_id_of(ops: Any, job_id: int) -> int:
    (run,) = ops.jobs.list_runs(job_id=job_id)
    return int(run.run_id)


def test_the_system_tables_are_read_only(ops: Any) -> None:
    for text in (
        "DROP VIEW system.lakeflow.jobs",
        "CREATE TABLE system.lakeflow.mine (n INT)",
        "CREATE SCHEMA system.mine",
        "INSERT INTO system.lakeflow.jobs SELECT * FROM system.lakeflow.jobs",
    ):
        assert run(ops, text).status.state.value == "FAILED", text
    assert [row[1] for row in rows(ops, "SHOW TABLES IN system.lakeflow")] == [
        "job_run_timeline",
        "job_task_run_timeline",
        "job_tasks",
        "jobs",
    ]


@pytest.mark.parametrize("location", ["file:/x", "file:///x", "/x", "s3://b/x", "dbfs:/x", "/Volumes/c/s/v/x", "x"])
def test_F02_a_location_of_one_s_own_is_refused_and_never_joined_with_anything(
    spark: Deployment, ops: Any, location: str
) -> None:
    answer = run(ops, f"CREATE TABLE main.default.elsewhere (n INT) LOCATION '{location}'")
    assert answer.status.state.value == "FAILED"
    assert "managed tables only" in answer.status.error.message
    assert ops.tables.exists("main.default.elsewhere").table_exists is False
    assert not spark.layout.table_path("ops", "main.default.elsewhere").exists()


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
    tables: Any = spark.workspaces["ops"].sql.runner
    (session,) = tables.runner._sql.values()
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


WRITTEN = """
WITH written AS (
  SELECT target_table_full_name AS name, max(event_time) AS at,
    max_by(entity_id, event_time) AS job_id, max_by(entity_run_id, event_time) AS run_id
  FROM system.access.table_lineage
  WHERE target_table_catalog = 'main' AND target_table_schema = 'fresh' AND entity_type = 'JOB'
    AND event_date >= current_date() - INTERVAL 1 DAY
  GROUP BY target_table_full_name
)
SELECT name, written.job_id, written.run_id, result_state, at BETWEEN period_start_time AND period_end_time AS within
FROM written JOIN system.lakeflow.job_run_timeline AS runs ON runs.run_id = written.run_id
ORDER BY name
"""
"""When each table was last written, and by which run of which job."""
UPSTREAM = """
SELECT DISTINCT source_table_full_name, source_path, source_type, statement_id IS NOT NULL AS warehouse
FROM system.access.table_lineage WHERE entity_metadata.job_info.job_run_id = :run AND target_table_name = 'totals'
ORDER BY ALL
"""


def test_which_run_of_which_job_last_wrote_a_table(spark: Deployment, ops: Any) -> None:
    from databricks.sdk.service.sql import StatementParameterListItem as Parameter

    rows(ops, "CREATE SCHEMA main.fresh")
    files = spark.layout.workspace_files("ops") / "Shared"
    files.mkdir(parents=True, exist_ok=True)
    (spark.layout.volumes_root("ops") / "main" / "fresh" / "land").mkdir(parents=True)
    (spark.layout.volumes_root("ops") / "main" / "fresh" / "land" / "1.json").write_text('{"n": 1}')
    (files / "orders.py").write_text(
        "# Databricks notebook source\n"
        "spark.read.schema('n INT').json('/Volumes/main/fresh/land').write.mode('append').saveAsTable('main.fresh.orders')"
    )
    (files / "totals.sql").write_text(
        "CREATE OR REPLACE TABLE main.fresh.totals AS SELECT count(*) AS n FROM main.fresh.orders;"
    )
    warehouse = next(iter(ops.warehouses.list())).id

    def job(name: str, task: dict[str, Any]) -> int:
        body = {"name": name, "tasks": [{"task_key": "m", **task}]}
        return int(ops.api_client.do("POST", "/api/2.2/jobs/create", body=body)["job_id"])

    def ran(job_id: int) -> int:
        run_id = int(ops.jobs.run_now(job_id).run_id)
        ended_at(ops, run_id)
        return run_id

    orders = job("orders", {"notebook_task": {"notebook_path": "/Shared/orders"}})
    totals = job("totals", {"sql_task": {"warehouse_id": warehouse, "file": {"path": "/Shared/totals.sql"}}})
    ran(orders)
    of_orders, of_totals = ran(orders), ran(totals)
    assert rows(ops, WRITTEN) == [
        ["main.fresh.orders", str(orders), str(of_orders), "SUCCEEDED", "true"],
        ["main.fresh.totals", str(totals), str(of_totals), "SUCCEEDED", "true"],
    ]
    of_run = [Parameter(name="run", value=str(of_totals))]
    location = spark.layout.table_path("ops", "main.fresh.orders").absolute().as_uri()
    assert rows(ops, UPSTREAM, parameters=of_run) == [["main.fresh.orders", location, "TABLE", "true"]]
    mine = run(ops, "INSERT INTO main.fresh.orders SELECT n FROM main.fresh.totals").statement_id
    assert rows(
        ops,
        "SELECT entity_type, source_table_name, target_table_name FROM system.access.table_lineage "
        "WHERE statement_id = :run",
        parameters=[Parameter(name="run", value=mine)],
    ) == [[None, "totals", "orders"]]
    assert rows(
        ops,
        "SELECT source_path, source_type, count(*), count(DISTINCT event_id) FROM system.access.table_lineage "
        "WHERE target_table_name = 'orders' AND entity_type = 'JOB' GROUP BY ALL",
    ) == [["/Volumes/main/fresh/land", "PATH", "2", "2"]]
    assert rows(ops, "SELECT * FROM system.access.table_lineage WHERE source_table_catalog = 'system'") == []


DOOR = """
spark.sql("CREATE CATALOG IF NOT EXISTS made COMMENT 'by SQL'")
spark.sql("CREATE SCHEMA made.s")
spark.sql("CREATE TABLE made.s.t (id INT NOT NULL, name STRING)")
spark.sql("CREATE VOLUME made.s.v COMMENT 'files'")
spark.sql("GRANT SELECT, MODIFY ON TABLE made.s.t TO `bob@example.com`")
jobs = spark.table("system.lakeflow.jobs").where("name = 'door'").count()
tables = [row.table_name for row in spark.table("made.information_schema.tables").collect()]
dbutils.notebook.exit(f"{jobs} {tables} {sorted({'made', 'main', 'system', 'spark_catalog'} & {row.catalog for row in spark.sql('SHOW CATALOGS').collect()})}")
"""


def test_catalogs_volumes_grants_and_the_information_schema_by_sql(spark: Deployment, ops: Any) -> None:
    """The same statements in a notebook and of a warehouse; the API shows what they did."""
    (spark.layout.workspace_files("ops") / "door.py").write_text(DOOR)
    task = {"task_key": "m", "notebook_task": {"notebook_path": "/door"}}
    job_id = ops.api_client.do("POST", "/api/2.2/jobs/create", body={"name": "door", "tasks": [task]})["job_id"]
    run_id = int(ops.jobs.run_now(job_id).run_id)
    eventually(lambda: ops.jobs.get_run(run_id).end_time, seconds=120)
    task_run = ops.jobs.get_run(run_id).tasks[0].run_id
    output = ops.jobs.get_run_output(task_run)
    assert output.notebook_output.result == "1 ['t'] ['made', 'main', 'system']", output
    assert ops.catalogs.get("made").comment == "by SQL"
    assert ops.volumes.read("made.s.v").comment == "files"

    assert rows(ops, "SHOW CATALOGS LIKE 'ma*'") == [["made"], ["main"]]
    assert rows(ops, "SHOW VOLUMES IN made.s") == [["s", "v"]]
    assert rows(ops, "DESCRIBE VOLUME made.s.v")[0][:3] == ["v", "made", "s"]
    assert rows(ops, "DESCRIBE CATALOG made")[:2] == [["Catalog Name", "made"], ["Comment", "by SQL"]]
    assert rows(ops, "SHOW GRANTS `bob@example.com` ON TABLE made.s.t") == [
        ["bob@example.com", "SELECT", "TABLE", "made.s.t"],
        ["bob@example.com", "MODIFY", "TABLE", "made.s.t"],
    ]
    rows(ops, "GRANT USE SCHEMA ON SCHEMA made.s TO bob")
    rows(ops, "REVOKE MODIFY ON TABLE made.s.t FROM `bob@example.com`")
    assert rows(ops, "SHOW GRANTS bob ON TABLE t", catalog="made", schema="s") == [
        ["bob", "USE SCHEMA", "SCHEMA", "made.s"]
    ]
    assert rows(ops, "SHOW GRANTS `bob@example.com` ON made.s.t") == [
        ["bob@example.com", "SELECT", "TABLE", "made.s.t"]
    ]
    columns = (
        "SELECT column_name, ordinal_position, is_nullable FROM made.information_schema.columns WHERE table_name = 't'"
    )
    assert rows(ops, columns + " ORDER BY 2") == [["id", "0", "NO"], ["name", "1", "YES"]]
    assert rows(ops, "SELECT volume_name FROM system.information_schema.volumes WHERE volume_catalog = 'made'") == [
        ["v"]
    ]
    both = "SELECT count(*) FROM information_schema.schemata a JOIN information_schema.schemata b USING (schema_name)"
    assert rows(ops, both, catalog="made", schema="s") == [["2"]]
    assert rows(ops, "SELECT current_user()") == [[ops.current_user.me().user_name]]
    for statement, word in {
        "SELECT * FROM nowhere.information_schema.tables": "nowhere",
        "CREATE CATALOG made": "[CATALOG_ALREADY_EXISTS]",
        "DROP VOLUME made.s.nothing": "does not exist",
        "GRANT FLY ON TABLE made.s.t TO bob": "FLY",
        "GRANT SELECT ON EXTERNAL LOCATION x TO bob": "grants are kept on CATALOG",
        "SELECT * FROM main.information_schema.routines": "is not served by the local workspace",
        "DROP CATALOG made": "not empty",
        "ALTER TABLE made.s.t SET TAGS ('a' = 'b')": "tags are not served by the local workspace",
    }.items():
        failed = run(ops, statement)
        assert failed.status.state.value == "FAILED", statement
        assert word in failed.status.error.message, failed.status.error.message
        assert "\n" not in failed.status.error.message
    rows(ops, "DROP VOLUME IF EXISTS made.s.v")
    rows(ops, "DROP VOLUME IF EXISTS made.s.v")
    rows(ops, "DROP CATALOG made CASCADE")
    rows(ops, "DROP CATALOG IF EXISTS made")
    assert "made" not in [catalog.name for catalog in ops.catalogs.list()]
