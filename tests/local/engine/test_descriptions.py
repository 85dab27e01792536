"""What DESCRIBE and Spark's catalog say of a table of the workspace, and what is done by names and paths beside SELECT."""

from __future__ import annotations

import ast

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark

NOTEBOOK = """
from delta.tables import DeltaTable
from concurrent.futures import ThreadPoolExecutor
spark.sql("CREATE SCHEMA main.told__about")
spark.sql("CREATE TABLE main.told__about.t AS SELECT 1 AS x")
spark.sql("INSERT INTO main.told__about.t VALUES (2)")
name = "main.told__about.t"

def extended(words):
    found = {row.col_name: row.data_type for row in spark.sql(words + " " + name).collect()}
    return [found["Type"], " ".join(found.values())]

detail = [spark.sql("DESCRIBE DETAIL " + name).first().name, DeltaTable.forName(spark, name).detail().first().name]
history = [rows.where("version = 0").first().operationParameters["isManaged"]
    for rows in (spark.sql("DESCRIBE HISTORY " + name), DeltaTable.forName(spark, name).history())]
kinds = [spark.catalog.getTable(name).tableType, spark.catalog.listTables("main.told__about")[0].tableType]

detail.append(DeltaTable.forPath(spark, spark.sql("DESCRIBE DETAIL " + name).first().location).history().count())
spark.range(3).write.format("delta").save("/Volumes/main/told/v/by_path")
by_path = [spark.sql("SELECT * FROM delta.`/Volumes/main/told/v/by_path`").count(),
    spark.sql("SELECT * FROM delta.`dbfs:/Volumes/main/told/v/by_path` VERSION AS OF 0").count(),
    spark.sql("DESCRIBE DETAIL delta.`/Volumes/main/told/v/by_path`").first().name]

spark.sql("USE SCHEMA main.told__about")
used = [spark.sql("SELECT current_schema()").first()[0], spark.table("t").count()]
spark.sql("USE CATALOG main")
used += [spark.sql("SELECT current_catalog()").first()[0], spark.sql("SELECT current_schema()").first()[0]]
spark.sql("USE CATALOG IDENTIFIER(:c)", {"c": "main"})
spark.sql("USE SCHEMA told__about")
used.append(spark.table("t").count())

said = {}
def refused(key, act):
    try:
        act()
    except Exception as error:
        said[key] = type(error).__name__ + ": " + str(error)
refused("catalog", lambda: spark.sql("USE CATALOG nowhere"))
refused("volume", lambda: spark.sql("CREATE VOLUME main.told.v"))
for key, act in {
    "read": lambda: spark.read.load("s3://bucket/x"),
    "json": lambda: spark.read.json(["gs://bucket/x"]),
    "option": lambda: spark.range(1).write.option("path", "abfss://c@a.dfs.core.windows.net/x"),
    "save": lambda: spark.range(1).write.format("delta").save("wasbs://c@a.blob.core.windows.net/x"),
    "stream": lambda: spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id INT").load("s3://b/x"),
    "checkpoint": lambda: spark.readStream.table("t").writeStream.option("checkpointLocation", "dbfs:/x"),
    "delta": lambda: DeltaTable.forPath(spark, "s3a://bucket/x"),
    "rdd": lambda: spark.sparkContext.textFile("s3://bucket/x"),
    "location": lambda: spark.sql("CREATE TABLE main.told__about.u (id INT) LOCATION 's3://bucket/x'"),
    "sql": lambda: spark.sql("SELECT * FROM parquet.`s3://bucket/x`"),
    "batch": lambda: spark.read.format("cloudFiles"),
}.items():
    refused(key, act)

def in_thread(n):
    (spark.readStream.table("t").writeStream.option("checkpointLocation", f"/Volumes/main/told/v/_c{n}")
        .trigger(availableNow=True).toTable(f"main.told__about.t{n}").awaitTermination())
    return spark.table(f"main.told__about.t{n}").count()
with ThreadPoolExecutor(2) as pool:
    threads = list(pool.map(in_thread, [1, 2]))
dbutils.notebook.exit(repr((extended("DESCRIBE EXTENDED"), extended("DESC TABLE EXTENDED"), detail, history, kinds, by_path,
    used, threads, said)))
"""


def test_a_table_is_managed_and_has_its_own_name_and_clouds_are_refused_in_a_line(lab: Lab) -> None:
    lab.volume("main.told.v")
    lab.table("main.told").mkdir(parents=True)
    one, two, detail, history, kinds, by_path, used, threads, said = ast.literal_eval(lab.value(NOTEBOOK))
    assert one[0] == two[0] == "MANAGED"
    assert "spark_catalog" not in one[1] + two[1]
    assert detail == ["main.told__about.t", "main.told__about.t", 2]
    assert history == ["true", "true"]
    assert kinds == ["MANAGED", "MANAGED"]
    assert by_path == [3, 3, None]
    assert used == ["told__about", 2, "main", "default", 2]
    assert threads == [2, 2]
    assert "CATALOG_NOT_FOUND" in said.pop("catalog")
    assert "[VOLUME_ALREADY_EXISTS] Volume main.told.v already exists" in said.pop("volume")
    assert "use spark.readStream" in said.pop("batch")
    assert "it keeps managed tables only" in said.pop("location")
    assert len(said) == 9
    for key, error in said.items():
        assert error.startswith("NotServedHere: "), (key, error)
        assert "paths of cloud storage are not served by the local workspace" in error
        assert "\n" not in error
