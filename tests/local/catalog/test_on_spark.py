"""Tables that Spark makes, as Unity Catalog and the table update trigger see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine import SparkEngine
from databricks_bridge.local.engine.jars import prepare
from tests.local.local_kit import Api, client, eventually

pytestmark = pytest.mark.spark

FLIGHTS = "main.silver.flights"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("spark") / "home"
    with deployment_in_thread(
        home, ["ops"], engine=SparkEngine(home / "engine", prepare(print)), time_scale=0.02
    ) as up:
        ops = client(up, "ops")
        ops.catalogs.create("main")
        ops.schemas.create("silver", "main")
        yield up


@pytest.fixture
def ops(spark: Deployment) -> Any:
    return client(spark, "ops")


@pytest.fixture
def sql(spark: Deployment, ops: Any) -> Callable[..., None]:
    """Run statements in one notebook, as a job of their own."""

    def run(*statements: str) -> None:
        folder = spark.layout.workspace_files("ops")
        source = "# Databricks notebook source\n" + "".join(f"spark.sql({text!r})\n" for text in statements)
        (folder / "statements.py").write_text(source)
        task = {"task_key": "main", "notebook_task": {"notebook_path": "/statements"}}
        api = Api(ops)
        run_id = api.post("runs/submit", run_name="statements", tasks=[task])["run_id"]
        eventually(lambda: api.run(run_id)["status"]["state"] == "TERMINATED", seconds=120)
        done = api.run(run_id)
        assert done["state"]["result_state"] == "SUCCESS", api.get("runs/get-output", run_id=done["tasks"][0]["run_id"])

    return run


def test_the_id_is_kept_by_create_or_replace_and_vacuum_and_lost_by_drop(ops: Any, sql: Callable[..., None]) -> None:
    sql(f"CREATE TABLE {FLIGHTS} (n BIGINT, day DATE) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    table = ops.tables.get(FLIGHTS)
    assert [(column.name, column.type_text) for column in table.columns] == [("n", "bigint"), ("day", "date")]
    assert table.properties["delta.enableChangeDataFeed"] == "true"
    sql(
        f"INSERT INTO {FLIGHTS} VALUES (1, DATE'2026-03-01')",
        f"CREATE OR REPLACE TABLE {FLIGHTS} AS SELECT 2L AS n",
        f"VACUUM {FLIGHTS}",
    )
    replaced = ops.tables.get(FLIGHTS)
    assert replaced.table_id == table.table_id
    assert replaced.properties["delta.lastUpdateVersion"] == "2"
    sql(f"DROP TABLE {FLIGHTS}")
    assert ops.tables.exists(FLIGHTS).table_exists is False
    sql(f"CREATE TABLE {FLIGHTS} AS SELECT 3L AS n", f"CREATE VIEW main.silver.days AS SELECT n FROM {FLIGHTS}")
    assert ops.tables.get(FLIGHTS).table_id != table.table_id
    view = ops.tables.get("main.silver.days")
    assert (view.table_type.value, view.view_definition) == ("VIEW", f"SELECT n FROM {FLIGHTS}")
    sql("DROP VIEW main.silver.days", f"DROP TABLE {FLIGHTS}")


def test_maintenance_does_not_fire_and_a_merge_does(spark: Deployment, ops: Any, sql: Callable[..., None]) -> None:
    api = Api(ops)
    sql(f"CREATE TABLE {FLIGHTS} AS SELECT 1L AS n", f"INSERT INTO {FLIGHTS} VALUES (2)")
    (spark.layout.workspace_files("ops") / "nothing.py").write_text("# Databricks notebook source\n")
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/nothing"}}
    trigger = {"table_update": {"table_names": [FLIGHTS]}}
    job_id = api.post("create", name="watch", tasks=[task], trigger=trigger)["job_id"]
    eventually(lambda: "table" in api.get("get", job_id=job_id, include_trigger_state="true")["trigger_state"])
    sql(
        f"OPTIMIZE {FLIGHTS}",
        f"VACUUM {FLIGHTS}",
        f"ALTER TABLE {FLIGHTS} SET TBLPROPERTIES ('reviewed' = 'yes')",
        f"MERGE INTO {FLIGHTS} USING (SELECT 9L AS n) s ON {FLIGHTS}.n = s.n WHEN MATCHED THEN DELETE",
    )
    looked = api.get("get", job_id=job_id, include_trigger_state="true")
    assert looked["trigger_state"]["table"]["last_seen_table_states"] == [
        {"table_name": FLIGHTS, "has_seen_updates": False}
    ]
    assert api.get("runs/list", job_id=job_id).get("runs", []) == []
    sql(f"MERGE INTO {FLIGHTS} USING (SELECT 2L AS n) s ON {FLIGHTS}.n = s.n WHEN MATCHED THEN DELETE")
    (run,) = eventually(lambda: api.get("runs/list", job_id=job_id).get("runs"))
    assert run["trigger"] == "TABLE"
