"""A table is there from its first commit on: a first write that does not come to it leaves the name free."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .lab import Lab, until

pytestmark = pytest.mark.spark

FAILED = """
spark.sql("CREATE SCHEMA main.first")
bad = "CAST(IF(id = 2, '2.5', '1') AS INT) AS x"

def fails(make):
    try:
        make()
    except Exception as error:
        assert "CAST_INVALID_INPUT" in str(error), error
        return True
    return False

ways = {
    "append": lambda: spark.range(3).selectExpr(bad).write.mode("append").saveAsTable("main.first.append"),
    "overwrite": lambda: spark.range(3).selectExpr(bad).write.mode("overwrite").saveAsTable("main.first.overwrite"),
    "ctas": lambda: spark.sql(f"CREATE TABLE main.first.ctas AS SELECT {bad} FROM range(3)"),
    "replaced": lambda: spark.sql(f"CREATE OR REPLACE TABLE main.first.replaced AS SELECT {bad} FROM range(3)"),
    "v2": lambda: spark.range(3).selectExpr(bad).writeTo("main.first.v2").create(),
}
failed = {name: fails(make) for name, make in ways.items()}
there = [row.tableName for row in spark.sql("SHOW TABLES IN main.first").collect()]
exists = [spark.catalog.tableExists("main.first." + name) for name in ways]
spark.sql("DROP TABLE IF EXISTS main.first.append")
good = "SELECT 7 AS x"
spark.sql(good).write.mode("append").saveAsTable("main.first.append")
spark.sql(good).write.mode("overwrite").saveAsTable("main.first.overwrite")
spark.sql("CREATE TABLE main.first.ctas (x INT)")
spark.sql("INSERT INTO main.first.ctas " + good)
spark.sql("CREATE OR REPLACE TABLE main.first.replaced AS " + good)
spark.sql("CREATE TABLE IF NOT EXISTS main.first.v2 AS " + good)
rows = [spark.table("main.first." + name).first().x for name in ways]
spark.sql("CREATE VIEW main.first.seen AS SELECT x FROM main.first.ctas")
fails(lambda: spark.range(3).selectExpr(bad).write.saveAsTable("main.first.last"))
try:
    spark.sql("DROP SCHEMA main.first")
except Exception as error:
    full = str(error).partition("]")[0]
spark.sql("DROP SCHEMA main.first CASCADE")
dbutils.notebook.exit(repr((failed, there, exists, rows, full, spark.catalog.databaseExists("main.first"))))
"""


def test_a_first_write_that_fails_leaves_the_name_free(lab: Lab) -> None:
    failed, there, exists, rows, full, schema = ast.literal_eval(lab.value(FAILED))
    assert failed == dict.fromkeys(["append", "overwrite", "ctas", "replaced", "v2"], True)
    assert (there, exists) == ([], [False] * 5)
    assert rows == [7] * 5
    assert (full, schema) == ("[SCHEMA_NOT_EMPTY", False)
    assert not lab.table("main.first").exists()


SLOW = """
import time
from pyspark.sql import functions as F
spark.sql("CREATE SCHEMA IF NOT EXISTS main.slow")
waiting = F.udf(lambda n: time.sleep(n) or n, "int")
spark.createDataFrame([(600,)], "n INT").select(waiting("n").alias("n")).write.saveAsTable("main.slow.t")
"""
BESIDE = """
names = [row.tableName for row in spark.sql("SHOW TABLES IN main.slow").collect()]
dbutils.notebook.exit(repr((names, spark.catalog.tableExists("main.slow.t"))))
"""
AGAIN = """
spark.sql("CREATE TABLE main.slow.t (n INT) USING delta")
spark.sql("INSERT INTO main.slow.t VALUES (1)")
spark.range(2).selectExpr("CAST(id AS INT) AS n").write.mode("append").saveAsTable("main.slow.t")
dbutils.notebook.exit(repr(sorted(row.n for row in spark.table("main.slow.t").collect())))
"""


def test_while_a_first_write_runs_its_schema_is_listed_and_after_its_cancel_the_name_is_free(lab: Lab) -> None:
    writing = lab.begin(SLOW)
    until(lambda: (lab.table("main.slow.t") / "_delta_log").is_dir(), 60)
    assert lab.value(BESIDE) == repr(([], False))
    writing.cancel()
    until(writing.done)
    assert lab.value(BESIDE) == repr(([], False))
    # As a JVM that was killed leaves it.
    left(lab.table("main.slow.t"))
    assert lab.value(BESIDE) == repr(([], False))
    assert lab.value(AGAIN) == "[0, 1, 1]"
    assert not (lab.table("main.slow.t") / "part-left.parquet").exists()


def left(table: Path) -> None:
    (table / "_delta_log").mkdir(parents=True, exist_ok=True)
    (table / "part-left.parquet").write_bytes(b"PAR1")


STREAM = """
spark.sql("CREATE SCHEMA IF NOT EXISTS main.slow")
def run(n):
    (spark.readStream.table("main.slow.source").selectExpr(f"IF(x = {n}, CAST(raise_error('no') AS INT), x) AS x")
        .writeStream.option("checkpointLocation", "/Volumes/main/slow/v/_c").trigger(availableNow=True)
        .toTable("main.slow.sink").awaitTermination())
spark.sql("CREATE TABLE main.slow.source AS SELECT 1 AS x")
try:
    run(1)
except Exception as error:
    assert "no" in str(error)
run(2)
dbutils.notebook.exit(str(spark.table("main.slow.sink").count()))
"""


def test_a_stream_whose_first_batch_fails_goes_on(lab: Lab) -> None:
    lab.volume("main.slow.v")
    left(lab.table("main.slow.sink"))
    assert lab.value(STREAM) == "1"


RENAME = """
spark.sql("CREATE SCHEMA main.rename")
spark.sql("CREATE SCHEMA main.elsewhere")
spark.sql("CREATE TABLE main.rename.a AS SELECT 1 AS x")
spark.sql("CREATE VIEW main.rename.v AS SELECT 2 AS x")
said = {}
def refused(name, statement):
    try:
        spark.sql(statement)
    except Exception as error:
        said[name] = str(error)
refused("catalog", "ALTER TABLE main.rename.a RENAME TO other.rename.b")
refused("schema", "ALTER TABLE main.rename.a RENAME TO main.nowhere.b")
spark.sql("ALTER TABLE main.rename.a RENAME TO main.rename.b")
spark.sql("ALTER TABLE main.rename.b RENAME TO c")
spark.sql("INSERT INTO main.rename.c VALUES (2)")
spark.sql("ALTER TABLE main.rename.c RENAME TO rename.d")
spark.sql("ALTER TABLE main.rename.d RENAME TO MAIN.elsewhere.E")
spark.sql("CREATE TABLE main.rename.a AS SELECT 9 AS x")
refused("taken", "ALTER TABLE main.rename.a RENAME TO main.elsewhere.e")
spark.sql("ALTER VIEW main.rename.v RENAME TO main.rename.w")
spark.sql("DELETE FROM main.elsewhere.e WHERE x = 1")
history = [row.operation for row in spark.sql("DESCRIBE HISTORY main.elsewhere.e").collect()]
dbutils.notebook.exit(repr((said, spark.table("main.elsewhere.e").collect()[0].x, spark.table("main.rename.a").first().x,
    spark.table("main.rename.w").first().x, sorted(row.tableName for row in spark.sql("SHOW TABLES IN main.rename").collect()),
    history)))
"""


def test_a_table_and_a_view_are_renamed_by_names_of_one_two_and_three_parts(lab: Lab) -> None:
    said, moved, new, view, names, history = ast.literal_eval(lab.value(RENAME))
    assert "stays in its catalog, which is main" in said["catalog"]
    assert "[SCHEMA_NOT_FOUND] RENAME TO nowhere.b" in said["schema"]
    assert "ALREADY_EXISTS" in said["taken"]
    assert (moved, new, view, names) == (2, 9, 2, ["a", "w"])
    assert history == ["DELETE", "WRITE", "CREATE TABLE AS SELECT"]
