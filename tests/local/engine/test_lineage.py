"""What the statements of a notebook read and wrote, as the engine writes it down when they end."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark

MADE = """
spark.sql("CREATE SCHEMA main.{0}")
spark.sql("USE main.{0}")
spark.sql("CREATE TABLE a (id INT, v STRING) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
spark.sql("INSERT INTO a VALUES (1, 'x'), (2, 'y')")
spark.sql("CREATE TABLE b AS SELECT * FROM a")
"""


def lineage(lab: Lab, schema: str, source: str) -> list[str]:
    """`reads -> writes` of each statement, in the order of their ends; tables and files of the schema by their names."""
    files = lab.volume(f"main.{schema}.files")
    request = lab.request(MADE.format(schema) + source)
    request = replace(request, lineage=request.log.with_name("lineage.jsonl"))
    assert request.lineage is not None
    result = lab.call(lab.engine.run(request))
    assert result.succeeded, result.error_trace or result.error
    found = [json.loads(line) for line in request.lineage.read_text().splitlines()]
    assert all(first["at"] <= second["at"] for first, second in itertools.pairwise(found))
    tables = lab.table(f"main.{schema}").absolute()

    def named(places: list[str]) -> str:
        return ", ".join(sorted(place.removeprefix(f"{tables}/").removeprefix(f"{files.parent}/") for place in places))

    return [f"{named(one['reads'])} -> {named(one['writes'])}" for one in found]


def test_statements_and_data_frames(lab: Lab) -> None:
    found = lineage(
        lab,
        "lin",
        """
spark.table("a").write.mode("append").saveAsTable("c")
spark.sql("DELETE FROM b WHERE id = 2")
spark.sql("CREATE VIEW seen AS SELECT * FROM c")
spark.sql("WITH q AS (SELECT * FROM seen WHERE id IN (SELECT id FROM a)) INSERT INTO b SELECT * FROM q")
spark.sql("SELECT * FROM table_changes('main.lin.a', 0)").collect()
try:
    spark.sql("SELECT assert_true(id > 5) FROM b").collect()
except Exception:
    pass
spark.newSession().table("main.lin.b").count()
spark.table("a").write.format("json").save("/Volumes/main/lin/files/out")
spark.read.schema("id INT").json("/Volumes/main/lin/files/out").count()
spark.sql("DESCRIBE HISTORY b").collect()
""",
    )
    assert found == [
        " -> a",
        "a -> b",
        "a -> c",
        " -> b",
        "a, c, main.lin.seen -> b",
        "a -> ",
        "b -> ",
        "a -> files/out",
        "files/out -> ",
    ]


def test_streams_and_the_statements_of_their_function(lab: Lab) -> None:
    found = lineage(
        lab,
        "flow",
        """
from delta.tables import DeltaTable

def run(stream, number, function=None, table=None):
    writer = stream.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"/Volumes/main/flow/files/_checkpoints/{number}")
    (writer.toTable(table) if table else writer.foreachBatch(function).start()).awaitTermination()

def merge(batch, number):
    batch.persist()
    target = DeltaTable.forName(batch.sparkSession, "main.flow.b").alias("t")
    target.merge(batch.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    batch.sparkSession.table("main.flow.b").count()
    batch.sparkSession.createDataFrame([(number,)], "n INT").write.mode("append").saveAsTable("main.flow.log")

with open("/Volumes/main/flow/files/1.json", "w") as file:
    file.write('{"id": 1}')
run(spark.readStream.option("readChangeFeed", "true").option("startingVersion", 0).table("a"), 1, table="s")
run(spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id INT")
    .load("/Volumes/main/flow/files"), 2, table="f")
run(spark.readStream.table("a"), 3, merge)
""",
    )
    assert found == [" -> a", "a -> b", "a -> s", "files -> f", "a -> b", "b -> ", " -> log"]
