"""The usual gold stream over the change feed of a silver table, proved by its checkpoint, on real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from databricks_bridge import CheckpointReached, DeltaTable, Subscription
from databricks_bridge.core.parameter_names import names_of
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine import SparkEngine
from databricks_bridge.local.engine.jars import prepare
from tests.local.local_kit import Api, Notebooks, client, eventually
from tests.operators.conftest import Bench

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SILVER, GOLD = "main.silver.orders", "main.gold.orders"
CHECKPOINT = "/Volumes/main/gold/checkpoints/orders"
SOURCE = DeltaTable(SILVER, "gold", alias="orders")
ORDERS = Subscription("gold_orders", SOURCE, start="earliest")

STREAM = f"""# Databricks notebook source
from delta.tables import DeltaTable
from pyspark.sql import functions as F, Window

spark.sql("CREATE TABLE IF NOT EXISTS {GOLD} (id BIGINT, amount BIGINT)")

def merge(changes, batch):
    newest = Window.partitionBy("id").orderBy(F.desc("_commit_version"), F.col("_change_type") == "delete")
    last = (changes.where("_change_type != 'update_preimage'").withColumn("n", F.row_number().over(newest)).where("n = 1"))
    (DeltaTable.forName(changes.sparkSession, "{GOLD}").alias("t").merge(last.alias("s"), "t.id = s.id")
        .whenMatchedDelete("s._change_type = 'delete'")
        .whenMatchedUpdate(set={{"amount": "s.amount"}})
        .whenNotMatchedInsert("s._change_type != 'delete'", values={{"id": "s.id", "amount": "s.amount"}}).execute())

(spark.readStream.option("readChangeFeed", "true").option("startingVersion", "0").table("{SILVER}")
    .writeStream.foreachBatch(merge).option("checkpointLocation", "{CHECKPOINT}").trigger(availableNow=True)
    .start().awaitTermination())
"""

MERGE = f"""MERGE INTO {SILVER} t USING (SELECT explode(sequence(3, 9)) AS id) s ON t.id = s.id
WHEN MATCHED AND t.id = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET amount = t.amount * 10
WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, 1)"""

STEPS = {
    "INSERT": (f"INSERT INTO {SILVER} SELECT id, 1 FROM range(6)",),
    "UPDATE": (f"UPDATE {SILVER} SET amount = 2 WHERE id IN (1, 5)",),
    "DELETE": (f"DELETE FROM {SILVER} WHERE id = 0",),
    "MERGE": (MERGE,),
    "UPDATE with deletion vectors, which adds more files than it has change files": (
        f"ALTER TABLE {SILVER} SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
        f"UPDATE {SILVER} SET amount = amount + 1 WHERE id = 2",
    ),
}
GOLD_ROWS = [(1, 2), (2, 2), (3, 10), (5, 20), (6, 1), (7, 1), (8, 1), (9, 1)]


@dataclass
class Lake:
    bench: Bench
    sql: Callable[..., None]

    def gold(self) -> list[tuple[int, int]]:
        from deltalake import DeltaTable as Delta

        found = Delta(str(self.bench.deployment.layout.table_path("ops", GOLD))).to_pyarrow_table().to_pylist()
        return sorted((one["id"], one["amount"]) for one in found)

    def version(self) -> int:
        log = self.bench.deployment.layout.table_path("ops", SILVER) / "_delta_log"
        return max(int(path.stem) for path in log.glob("[0-9]*.json"))

    def mark(self) -> TablePosition:
        found = self.bench.record().watermarks["orders"]
        assert isinstance(found, TablePosition)
        return found


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with deployment_in_thread(
        tmp_path, ["ops"], engine=SparkEngine(tmp_path / "engine", prepare(print)), time_scale=0.02
    ) as up:
        connection = {"conn_type": "databricks", "host": up.host("ops"), "password": up.token("ops")}
        monkeypatch.setenv("AIRFLOW_CONN_GOLD", json.dumps(connection))
        official = client(up, "ops")
        official.catalogs.create("main")
        for schema in ("silver", "gold"):
            official.schemas.create(schema, "main")
        up.layout.volume_path("ops", CHECKPOINT.rpartition("/")[0] + "/").mkdir(parents=True)
        api, folder = Api(official), up.layout.workspace_files("ops")
        folder.mkdir(parents=True, exist_ok=True)

        def sql(*statements: str) -> None:
            source = "# Databricks notebook source\n" + "".join(f"spark.sql({text!r})\n" for text in statements)
            (folder / "statements.py").write_text(source)
            task = {"task_key": "main", "notebook_task": {"notebook_path": "/statements"}}
            run_id = api.post("runs/submit", run_name="statements", tasks=[task])["run_id"]
            eventually(lambda: api.run(run_id)["status"]["state"] == "TERMINATED", seconds=120)
            assert api.run(run_id)["state"]["result_state"] == "SUCCESS"

        (folder / "stream.py").write_text(STREAM)
        task = {"task_key": "main", "notebook_task": {"notebook_path": "/stream"}}
        declared = [{"name": name, "default": ""} for name in sorted(names_of([SOURCE], []))]
        job = api.post("create", name="gold", tasks=[task], parameters=declared, queue={"enabled": True})
        yield Lake(Bench(up, Notebooks(), api, int(job["job_id"])), sql)


def test_T02_each_kind_of_change_is_committed_at_the_first_try(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE {SILVER} (id BIGINT, amount BIGINT) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    for count, (kind, statements) in enumerate(STEPS.items(), start=1):
        lake.sql(*statements)
        task = lake.bench.operator(
            subscription=ORDERS, inlets=[ORDERS.asset], postcondition=CheckpointReached(CHECKPOINT)
        )
        lake.bench.run(task, run_id=f"manual__{count}")
        assert (lake.mark().version, len(lake.bench.runs())) == (lake.version(), count), kind
    assert lake.gold() == GOLD_ROWS
