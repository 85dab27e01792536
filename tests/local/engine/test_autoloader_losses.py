"""Auto Loader loses nothing without a word: each value of a file is in a column, in the rescued data, or in an error.

What is expected is written down by hand from the files, not read back by another reader.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark

INGEST = """
import json
from pyspark.sql import functions as F
spark.sql("CREATE SCHEMA IF NOT EXISTS main.kept")

def run(name, options, schema=None):
    folder = "/Volumes/main/kept/" + name
    reader = spark.readStream.format("cloudFiles").options(**{"cloudFiles.format": "json", **options})
    reader = reader.schema(schema) if schema else reader.option("cloudFiles.schemaLocation", folder + "/_c/s")
    try:
        (reader.load(folder + "/in").select("*", F.col("_metadata.file_name").alias("file")).writeStream
            .option("checkpointLocation", folder + "/_c/c").option("mergeSchema", "true").trigger(availableNow=True)
            .toTable("main.kept." + name).awaitTermination())
    except Exception as error:
        return str(error)
    return [json.loads(row) for row in spark.table("main.kept." + name).toJSON().collect()]

from concurrent.futures import ThreadPoolExecutor
work = json.loads(dbutils.widgets.get("work"))
with ThreadPoolExecutor(3) as pool:
    found = {name: pool.submit(run, name, **how) for name, how in work.items()}
dbutils.notebook.exit(json.dumps({name: one.result() for name, one in found.items()}))
"""
TYPED = {"cloudFiles.inferColumnTypes": "true"}
HEADER = {"cloudFiles.format": "csv", "header": "true"}


class Landing:
    """Files of several streams, and what comes of them when each runs once more."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def put(self, file: str, text: str, age_days: float = 0) -> None:
        stream, _, inner = file.partition("/")
        path = self.lab.volume("main.kept." + stream) / "in" / inner
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if age_days:
            at = path.stat().st_mtime - age_days * 86400
            os.utime(path, (at, at))

    def run(self, **streams: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lab.value(INGEST, work=json.dumps(streams)))
        for rows in found.values():
            if isinstance(rows, list):
                for row in rows:
                    if "_rescued_data" in row:
                        row["_rescued_data"] = json.loads(row["_rescued_data"])
                        row["_rescued_data"]["_file_path"] = Path(row["_rescued_data"]["_file_path"]).name
                rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
        return found


def test_every_value_of_a_file_is_in_a_column_or_rescued_or_in_an_error(lab: Lab) -> None:
    landing = Landing(lab)
    # Records: an array in a line, a line that is no JSON, an old file, objects over several lines.
    landing.put("array/a.json", '[{"id": 1}, {"id": 2}]\n{"id": 3}\n[]\n{"id": \n5\n')
    landing.put("array/old.json", '{"id": 4}\n', age_days=400)
    landing.put("spread/a.json", '[\n {"id": 1,\n  "at": "x"},\n {"id": 2}\n]')
    # Depth: nested fields that are new, wrong types inside a struct and an array.
    landing.put("nested/a.json", '{"id": 1, "place": {"street": "a", "at": {"x": 1}}, "all": [{"n": 1}]}\n')
    landing.put("wrong/a.json", '{"id": 1, "n": {"v": 5, "w": {"u": 1}}, "all": [{"q": 1}]}\n')
    # Names in another case, folders that are columns.
    landing.put("case/a.json", '{"name": "a"}\n')
    landing.put("folders/day=2026-06-09/hour=1/a.json", '{"id": 1}\n')
    landing.put("folders/day=2026-06-10/hour=%3A/a.json", '{"id": 2}\n')
    landing.put("given/day=2026-06-09/a.json", '{"id": 1}\n')
    landing.put("csv/a.csv", "id,age\n1,7\n2,8\n")
    rescue = TYPED | {"cloudFiles.schemaEvolutionMode": "rescue"}
    again: dict[str, Any] = {
        "nested": {"options": TYPED},
        "wrong": {"options": rescue},
        "case": {"options": {}},
        "csv": {"options": HEADER | TYPED},
    }
    first = landing.run(
        array={"options": TYPED},
        spread={"options": {"multiLine": "true"}},
        folders={"options": {}},
        given={"options": {}, "schema": "id INT, day DATE"},
        **again,
    )
    a, b = {"file": "a.json"}, {"file": "b.json"}
    corrupt = [{"_rescued_data": {"_corrupt_record": text, "_file_path": "a.json"}, **a} for text in ("5", '{"id": ')]
    assert first["array"] == [
        *corrupt,
        {"id": 1, **a},
        {"id": 2, **a},
        {"id": 3, **a},
        {"id": 4, "file": "old.json"},
    ]
    assert first["spread"] == [{"at": "x", "id": "1", **a}, {"id": "2", **a}]
    assert first["folders"] == [
        {"day": "2026-06-09", "hour": "1", "id": "1", **a},
        {"day": "2026-06-10", "hour": ":", "id": "2", **a},
    ]
    assert first["given"] == [{"day": "2026-06-09", "id": 1, **a}]
    assert first["csv"] == [{"age": 7, "id": 1, "file": "a.csv"}, {"age": 8, "id": 2, "file": "a.csv"}]

    landing.put("nested/b.json", '{"id": 2, "place": {"city": "b", "at": {"y": 2}}, "all": [{"n": 2, "m": 3}]}\n')
    landing.put(
        "wrong/b.json", '{"id": "many", "n": {"v": "abc", "w": 7, "V": 1}, "all": [{"q": "z"}], "more": [1.50]}\n'
    )
    landing.put("case/b.json", '{"Name": "b"}\n')
    landing.put("csv/b.csv", "id,age\n3,old\n4,9,10\n5\nx,1,2\n")
    second = landing.run(**again)
    words = "UnknownFieldException: Encountered unknown fields during parsing: all.m, place.at.y, place.city in"
    assert words in second["nested"].partition("\n")[0]
    wrong = {
        "id": "many",
        "n": {"v": "abc", "w": 7, "V": 1},
        "all": [{"q": "z"}],
        "more": [1.5],
        "_file_path": "b.json",
    }
    assert [row["_rescued_data"] for row in second["wrong"] if row["file"] == "b.json"] == [wrong]
    assert [row for row in second["wrong"] if row["file"] == "a.json"] == [
        {"all": [{"q": 1}], "id": 1, "n": {"v": 5, "w": {"u": 1}}, **a}
    ]
    assert second["case"] == [{"_rescued_data": {"Name": "b", "_file_path": "b.json"}, **b}, {"name": "a", **a}]
    assert {
        str(row.get("_rescued_data")): (row.get("id"), row.get("age"))
        for row in second["csv"]
        if row["file"] == "b.csv"
    } == {
        str({"age": "old", "_file_path": "b.csv"}): (3, None),
        str({"_corrupt_record": "4,9,10", "_file_path": "b.csv"}): (4, 9),
        str({"_corrupt_record": "5", "_file_path": "b.csv"}): (5, None),
        str({"id": "x", "_corrupt_record": "x,1,2", "_file_path": "b.csv"}): (None, 1),
    }
    third = landing.run(nested=again["nested"])
    assert third["nested"] == [
        {"all": [{"m": 3, "n": 2}], "id": 2, "place": {"at": {"y": 2}, "city": "b"}, **b},
        {"all": [{"n": 1}], "id": 1, "place": {"at": {"x": 1}, "street": "a"}, **a},
    ]
