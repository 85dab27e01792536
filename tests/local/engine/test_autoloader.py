"""`format("cloudFiles")` as bronze notebooks use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark

INGEST = """
from pyspark.sql import functions as F
name = dbutils.widgets.get("name")
folder = "/Volumes/main/landing/" + name
reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", dbutils.widgets.get("format"))
if "schema" in dbutils.widgets.getAll():
    reader = reader.schema(dbutils.widgets.get("schema"))
else:
    reader = reader.option("cloudFiles.schemaLocation", folder + "/_checkpoints/schema")
for key, value in dbutils.widgets.getAll().items():
    if key.startswith("cloudFiles.") or key == "header":
        reader = reader.option(key, value)
spark.sql("CREATE SCHEMA IF NOT EXISTS main.loaded")
(reader.load(folder).select("*", F.col("_metadata.file_name").alias("file")).writeStream
    .option("checkpointLocation", folder + "/_checkpoints/bronze").option("mergeSchema", "true")
    .trigger(availableNow=True).toTable("main.loaded." + name).awaitTermination())
dbutils.notebook.exit("|".join(sorted(spark.table("main.loaded." + name).toJSON().collect())))
"""


def loaded(lab: Lab, arguments: dict[str, str]) -> list[dict[str, object]]:
    """All rows of the table after one more run of the notebook."""
    return [json.loads(row) for row in lab.value(INGEST, **arguments).split("|") if row]


def test_json_in_two_runs_with_a_new_column_in_the_second(lab: Lab) -> None:
    volume = lab.volume("main.landing.events")
    arguments = {"name": "events", "format": "json"}
    empty = lab.run(INGEST, **arguments)
    assert empty.error is not None
    assert empty.error.startswith("EmptyInput: Cannot infer a schema")
    (volume / "a.json").write_text('{"id": 1, "place": {"x": 2}}\n\n{"id": 2}\n')
    first, second = loaded(lab, arguments)
    assert json.loads(str(first.pop("place"))) == {"x": 2}
    assert (first, second) == ({"id": "1", "file": "a.json"}, {"id": "2", "file": "a.json"})
    (volume / "sub").mkdir()
    (volume / "sub" / "b.json").write_text('{"id": 3, "fresh": true}\n')
    failed = lab.run(INGEST, **arguments)
    assert failed.error is not None
    assert "UnknownFieldException: Encountered unknown fields during parsing: fresh in" in failed.error
    assert [(row["id"], row.get("fresh"), row["file"]) for row in loaded(lab, arguments)] == [
        ("1", None, "a.json"),
        ("2", None, "a.json"),
        ("3", "true", "b.json"),
    ]


def test_inferred_types_hints_and_rescued_data(lab: Lab) -> None:
    volume = lab.volume("main.landing.typed")
    arguments = {"name": "typed", "format": "json", "cloudFiles.inferColumnTypes": "true"} | {
        "cloudFiles.schemaHints": "at DATE, later DOUBLE",
        "cloudFiles.schemaEvolutionMode": "rescue",
    }
    (volume / "a.json").write_text('{"id": 1, "at": "2026-11-29"}\n')
    assert lab.run(INGEST, **arguments).succeeded
    (volume / "b.json").write_text('{"id": "many", "at": "2026-11-30", "later": 0.5, "extra": [1]}\n')
    second, first = sorted(loaded(lab, arguments), key=lambda row: str(row["file"]), reverse=True)
    assert first == {"id": 1, "at": "2026-11-29", "file": "a.json"}
    rescued = json.loads(str(second.pop("_rescued_data")))
    assert second == {"at": "2026-11-30", "later": 0.5, "file": "b.json"}
    assert rescued.pop("_file_path").endswith("/typed/b.json")
    assert rescued == {"id": "many", "extra": [1]}


def test_a_given_schema_takes_only_new_files(lab: Lab) -> None:
    volume = lab.volume("main.landing.given")
    arguments = {"name": "given", "format": "json", "schema": "id INT, delay DOUBLE"}
    assert loaded(lab, arguments) == []
    (volume / "a.json").write_text('{"id": 1, "delay": 2.5, "other": 1}\n')
    assert lab.run(INGEST, **arguments).succeeded
    (volume / "b.json").write_text('{"id": 2}\n')
    assert loaded(lab, arguments) == [{"id": 1, "delay": 2.5, "file": "a.json"}, {"id": 2, "file": "b.json"}]
    history = 'dbutils.notebook.exit(str(spark.sql("DESCRIBE HISTORY main.loaded.given").collect()[0].operationMetrics["numOutputRows"]))'
    assert lab.value(history) == "1"


def test_what_a_link_takes_out_of_the_volume_is_not_found(lab: Lab, tmp_path: Path) -> None:
    volume = lab.volume("main.landing.linked")
    (tmp_path / "secret.json").write_text('{"id": 7}\n')
    for number in range(40):  # so many that Spark lists them in tasks of their own
        (volume / f"day={number}").mkdir()
    (volume / "day=1" / "a.json").write_text('{"id": 1}\n')
    (volume / "day=2" / "again.json").symlink_to(volume / "day=1" / "a.json")
    (volume / "day=3" / "secret.json").symlink_to(tmp_path / "secret.json")
    (volume / "day=4" / "up").symlink_to(tmp_path)
    found = loaded(lab, {"name": "linked", "format": "json", "schema": "id INT"})
    assert [(row["id"], row["file"]) for row in found] == [(1, "a.json"), (1, "again.json")]
    rows = """
def count(name):
    return spark.read.schema("id INT").json(dbutils.widgets.get(name)).count()
dbutils.notebook.exit(str([count("volume"), count("elsewhere")]))
"""
    up = "/Volumes/main/landing/linked/day=4/"
    assert lab.value(rows, volume=up, elsewhere=str(tmp_path)) == "[0, 1]"


def test_csv_by_header_with_a_new_column(lab: Lab) -> None:
    volume = lab.volume("main.landing.tables")
    arguments = {"name": "tables", "format": "csv", "header": "true"}
    (volume / "a.csv").write_text("id,name\n1,x\n")
    assert lab.run(INGEST, **arguments).succeeded
    (volume / "b.csv").write_text("id,name,age\n2,y,7\n")
    failed = lab.run(INGEST, **arguments)
    assert failed.error is not None
    assert "header" in failed.error
    assert loaded(lab, arguments) == [
        {"id": "1", "name": "x", "file": "a.csv"},
        {"id": "2", "name": "y", "age": "7", "file": "b.csv"},
    ]
