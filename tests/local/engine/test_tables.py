"""Three-level names over folders, with real Delta."""

from __future__ import annotations

import json
import shutil

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark


def test_one_name_in_two_metastores_at_once(lab: Lab) -> None:
    source = """
from delta.tables import DeltaTable
spark.sql("CREATE SCHEMA IF NOT EXISTS main.bronze")
spark.sql("CREATE TABLE main.bronze.orders (id INT, v STRING) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
spark.sql("CREATE TABLE main.bronze.copy (id INT, v STRING)")
n = int(dbutils.widgets.get("rows"))
spark.range(n).selectExpr("CAST(id AS INT) AS id", "'new' AS v").write.mode("append").saveAsTable("main.bronze.orders")
spark.sql("UPDATE main.bronze.orders SET v = 'changed' WHERE id = 0")

def merge(changes, batch):
    last = changes.where("_change_type != 'update_preimage'").selectExpr("id", "max_by(v, _commit_version) OVER "
        "(PARTITION BY id) AS v").dropDuplicates(["id"])
    target = DeltaTable.forName(changes.sparkSession, "main.bronze.copy").alias("t")
    target.merge(last.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

stream = (spark.readStream.option("readChangeFeed", "true").option("startingVersion", 0).table("main.bronze.orders")
    .writeStream.foreachBatch(merge).option("checkpointLocation", "/Volumes/main/landing/flights/_checkpoints/copy")
    .trigger(availableNow=True).start())
stream.awaitTermination()
rows = spark.table("main.bronze.copy").orderBy("id").collect()
dbutils.notebook.exit(",".join(f"{row.id}={row.v}" for row in rows))
"""
    lab.volume("main.landing.flights", "ops")
    lab.volume("main.landing.flights", "met")
    ops, met = lab.begin(source, "ops", rows="2"), lab.begin(source, "met", rows="3")
    assert ops.result(120).exit_value == "0=changed,1=new", ops.result().error_trace
    assert met.result(120).exit_value == "0=changed,1=new,2=new", met.result().error_trace
    for metastore in ("ops", "met"):
        assert (lab.table("main.bronze.copy", metastore) / "_delta_log" / "00000000000000000001.json").is_file()


def test_merge_delete_history_and_change_feed_by_sql(lab: Lab) -> None:
    assert lab.value("""
spark.sql("CREATE SCHEMA main.sql")
spark.sql("CREATE TABLE main.sql.t (id INT, v STRING) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
spark.sql("INSERT INTO main.sql.t VALUES (1, 'a'), (2, 'b')")
spark.sql("MERGE INTO main.sql.t AS t USING (SELECT 2 AS id, 'c' AS v UNION SELECT 3, 'd') AS s ON t.id = s.id "
          "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
spark.sql("DELETE FROM main.sql.t WHERE id = 1")
changes = spark.sql("SELECT _change_type, id FROM table_changes('main.sql.t', 2, 3)").collect()
history = [row.operation for row in spark.sql("DESCRIBE HISTORY main.sql.t").collect()]
old = spark.sql("SELECT count(*) FROM main.sql.t VERSION AS OF 1").first()[0]
dbutils.notebook.exit(repr((sorted(tuple(row) for row in changes), history, old)))
""") == repr(
        (
            [("delete", 1), ("insert", 3), ("update_postimage", 2), ("update_preimage", 2)],
            ["DELETE", "MERGE", "WRITE", "CREATE TABLE"],
            2,
        )
    )


def test_create_as_select_replace_save_and_stream_to_table(lab: Lab) -> None:
    lab.volume("main.landing.flights")
    assert lab.value("""
spark.sql("CREATE SCHEMA main.made")
spark.sql("CREATE TABLE main.made.a AS SELECT 1 AS id")
spark.sql("CREATE OR REPLACE TABLE main.made.a AS SELECT 2 AS id, 'x' AS v")
spark.sql("ALTER TABLE main.made.a ADD COLUMN w INT")
spark.table("main.made.a").write.saveAsTable("main.made.b")
spark.table("main.made.a").write.mode("overwrite").saveAsTable("main.made.b")
(spark.readStream.table("main.made.b").writeStream.trigger(availableNow=True)
    .option("checkpointLocation", "/Volumes/main/landing/flights/_checkpoints/c").toTable("main.made.c").awaitTermination())
spark.sql("USE main.made")
names = [row.tableName for row in spark.sql("SHOW TABLES").collect()]
dbutils.notebook.exit(repr((names, [tuple(row) for row in spark.table("C").collect()],
    spark.catalog.tableExists("main.made.c"), spark.catalog.tableExists("main.made.none"))))
""") == repr((["a", "b", "c"], [(2, "x", None)], True, False))


def test_a_view_is_a_json_file_and_works(lab: Lab) -> None:
    assert lab.value("""
spark.sql("CREATE SCHEMA main.views")
spark.sql("CREATE TABLE main.views.t AS SELECT 1 AS id UNION SELECT 2")
spark.sql("CREATE VIEW main.views.big AS SELECT id AS n FROM main.views.t WHERE id > 1")
spark.sql("CREATE OR REPLACE VIEW main.views.bigger AS SELECT n + 1 AS n FROM main.views.big")
views = [row.viewName for row in spark.sql("SHOW VIEWS IN main.views").collect()]
dbutils.notebook.exit(repr((spark.table("main.views.bigger").first().n, views)))
""") == repr((3, ["big", "bigger"]))
    definition = json.loads((lab.table("main.views.big").parent / "big.view.json").read_text())
    assert definition["query"] == "SELECT id AS n FROM main.views.t WHERE id > 1"
    assert lab.run('spark.sql("DROP VIEW main.views.bigger")').succeeded
    assert not (lab.table("main.views.bigger").parent / "bigger.view.json").exists()


def test_a_table_that_comes_again_is_another_table(lab: Lab) -> None:
    make = """
spark.sql("CREATE SCHEMA IF NOT EXISTS main.again")
spark.sql("DROP TABLE IF EXISTS main.again.t")
spark.sql("CREATE TABLE main.again.t AS SELECT {0} AS {1}")
dbutils.notebook.exit(spark.table("main.again.t").toJSON().first())
"""
    assert lab.value(make.format(1, "a")) == '{"a":1}'
    assert lab.value(make.format(2, "b")) == '{"b":2}'
    # Dropped behind the engine's back, as another process may.
    shutil.rmtree(lab.table("main.again.t"))
    assert lab.value('dbutils.notebook.exit(str(spark.catalog.tableExists("main.again.t")))') == "False"
    assert lab.value(make.format(3, "c")) == '{"c":3}'


def test_a_table_that_another_process_replaced_is_read_as_it_is_now(lab: Lab) -> None:
    deltalake = pytest.importorskip("deltalake")
    pyarrow = pytest.importorskip("pyarrow")
    folder = lab.table("main.other.t")
    read = 'dbutils.notebook.exit(spark.table("main.other.t").toJSON().first())'
    for column, value in (("a", 1), ("b", 2)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        deltalake.write_deltalake(folder, pyarrow.table({column: [value]}))
        assert lab.value(read) == f'{{"{column}":{value}}}'


def test_what_is_not_there_is_a_clear_error(lab: Lab) -> None:
    words = {
        "SELECT * FROM main.bronze.none": "TABLE_OR_VIEW_NOT_FOUND",
        "CREATE TABLE main.nowhere.t (id INT)": "SCHEMA_NOT_FOUND",
        "SELECT * FROM nowhere.a.b": "TABLE_OR_VIEW_NOT_FOUND",
        "CREATE TABLE main.default.t (id INT) USING csv": "keeps Delta tables only",
        "DROP SCHEMA main.default CASCADE; SELECT 1": "PARSE_SYNTAX_ERROR",
    }
    errors = json.loads(
        lab.value(f"""
import json
errors = {{}}
for statement in {list(words)!r}:
    try:
        spark.sql(statement)
    except Exception as error:
        errors[statement] = str(error)
dbutils.notebook.exit(json.dumps(errors))
""")
    )
    assert {statement: word for statement, word in words.items() if word in errors[statement]} == words
