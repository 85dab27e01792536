"""What a notebook sees, and how it ends."""

from __future__ import annotations

import json

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark


def test_cells_of_the_source_format(lab: Lab) -> None:
    result = lab.run(
        """# Databricks notebook source
# MAGIC %md
# MAGIC # Title

# COMMAND ----------

dbutils.widgets.text("day", "monday")
seen = dbutils.widgets.get("day")
print("seen", seen)

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMP VIEW days AS SELECT 'friday' AS day;
# MAGIC SELECT upper(day) AS loud FROM days WHERE day = :day -- not; a statement

# COMMAND ----------

dbutils.notebook.exit(seen + _sqldf.first().loud)
""",
        day="friday",
    )
    assert result.exit_value == "fridayFRIDAY", result.error_trace
    assert "seen friday" in lab.last_log
    assert "|FRIDAY|" in lab.last_log


def test_an_exception_is_a_result_with_the_notebooks_own_lines(lab: Lab) -> None:
    result = lab.run("# Databricks notebook source\nx = 1\n\n# COMMAND ----------\n\nprint('before')\nx / 0\n")
    assert not result.succeeded
    assert result.error == "ZeroDivisionError: division by zero"
    assert result.error_trace is not None
    assert '.py", line 7, in <module>' in result.error_trace
    assert "databricks_bridge" not in result.error_trace
    assert "before" in lab.last_log


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ('dbutils.widgets.get("x")', "InputWidgetNotDefined: No input widget named x is defined"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("# Databricks notebook source\n# MAGIC %pip install x", "NotServedHere: line 2: the local workspace does not serve"),
    ],
)  # fmt: skip
def test_failures_have_a_name(lab: Lab, source: str, error: str) -> None:
    result = lab.run(source)
    assert not result.succeeded
    assert result.error is not None
    assert result.error.startswith(error)


def test_what_is_not_served_is_refused_by_name(lab: Lab) -> None:
    refusals = {
        "spark.stop()": "NotServedHere: stop() is not served",
        'spark.read.text("/Volumes/main/landing/nothing/x")': "VolumeNotFound: /Volumes/main/landing/nothing/x: volume",
        "spark.sql(\"SELECT * FROM read_files('/x')\")": "NotServedHere: read_files: read_files and cloud_files are not served",
        'spark.sql("COPY INTO a FROM b")': "NotServedHere: COPY INTO is not served",
        'dbutils.fs.ls("/tmp")': "NotServedHere: /tmp: dbutils.fs of the local workspace serves /Volumes/... paths only",
        'display(spark.readStream.format("rate").load())': "NotServedHere: display of a stream is not served",
    }
    errors = json.loads(
        lab.value(f"""
import json
errors = []
for source in {list(refusals)!r}:
    try:
        exec(source)
    except Exception as error:
        errors.append(type(error).__name__ + ": " + str(error))
dbutils.notebook.exit(json.dumps(errors))
""")
    )
    assert [error[: len(start)] for error, start in zip(errors, refusals.values(), strict=True)] == [*refusals.values()]


def test_exit_is_not_caught_and_a_process_that_dies_is_named(lab: Lab) -> None:
    assert lab.value("try:\n    dbutils.notebook.exit('out')\nexcept Exception:\n    pass") == "out"
    died = lab.run("import os; os._exit(7)")
    assert died.error == "NotebookProcessDied: the notebook's process ended (exit code 7) without a result"


def test_a_failing_stream_fails_the_notebook_that_did_not_wait(lab: Lab) -> None:
    lab.volume("main.landing.flights")
    result = lab.run("""
class BridgeReaderBehind(Exception):
    pass
def fail(batch, number):
    raise BridgeReaderBehind("version 3 is not here yet")
spark.sql("CREATE TABLE main.default.failing AS SELECT 1 AS id")
(spark.readStream.table("main.default.failing").writeStream.foreachBatch(fail).trigger(availableNow=True)
    .option("checkpointLocation", "/Volumes/main/landing/flights/_checkpoints/failing").start())
""")
    assert not result.succeeded
    assert result.error is not None
    assert result.error.startswith("StreamingQueryException: ")
    assert "BridgeReaderBehind: version 3 is not here yet" in result.error


def test_volume_paths_for_spark_python_and_dbutils(lab: Lab) -> None:
    root = lab.volume("main.landing.flights")
    assert (
        lab.value("""
import os, pathlib, pandas
folder = "/Volumes/main/landing/flights/paths"
dbutils.fs.mkdirs(folder)
with open(folder + "/a.txt", "w") as file:
    file.write("one\\n")
pathlib.Path(folder, "b.txt").write_text("two\\n")
dbutils.fs.put("dbfs:" + folder + "/sub/c.csv", "id\\n7\\n")
assert os.path.exists(folder) and not os.path.exists("/Volumes/main/landing/nothing")
assert sorted(os.listdir(folder)) == ["a.txt", "b.txt", "sub"]
assert [(f.path, f.size) for f in dbutils.fs.ls(folder)] == [("dbfs:" + folder + "/a.txt", 4),
    ("dbfs:" + folder + "/b.txt", 4), ("dbfs:" + folder + "/sub/", 0)]
assert pandas.read_csv(folder + "/sub/c.csv").id.tolist() == [7]
assert spark.read.option("header", True).csv("dbfs:" + folder + "/sub").first().id == "7"
assert spark.sql(f"SELECT * FROM csv.`{folder}/sub/c.csv`").count() == 2
spark.range(3).write.format("parquet").mode("overwrite").option("path", folder + "/p").save()
assert spark.read.parquet(folder + "/p").count() == 3
dbutils.fs.cp(folder + "/a.txt", folder + "/d.txt")
assert dbutils.fs.rm(folder + "/p", True)
spark.sql("CREATE VOLUME IF NOT EXISTS main.default.made")
dbutils.fs.put("/Volumes/main/default/made/x", "y")
dbutils.notebook.exit(dbutils.fs.head(folder + "/d.txt"))
""")
        == "one\n"
    )
    assert (root / "paths" / "sub" / "c.csv").read_text() == "id\n7\n"
    assert (lab.volume("main.default.made") / "x").read_text() == "y"


def test_sql_arguments_are_bound(lab: Lab) -> None:
    assert lab.value("""
spark.sql("CREATE TABLE main.default.bound AS SELECT 1 AS id UNION SELECT 2")
named = spark.sql("SELECT id FROM IDENTIFIER(:t) WHERE id = :id", {"t": "main.default.bound", "id": 2}).first().id
dbutils.notebook.exit(repr((named, spark.sql("SELECT ? AS x", [5]).first().x)))
""") == repr((2, 5))


def test_the_builder_gives_the_same_session_and_the_sdk_its_host(lab: Lab) -> None:
    assert (
        lab.value("""
import os
from pyspark.sql import SparkSession
assert SparkSession.builder.getOrCreate() is spark
other = spark.newSession()
assert other.sql("SELECT current_catalog()").first()[0] == "main" and other is not spark
dbutils.notebook.exit(os.environ["DATABRICKS_HOST"] + " " + os.environ["DATABRICKS_TOKEN"])
""")
        == "http://127.0.0.1:9 dapi-test"
    )
