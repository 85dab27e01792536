"""A task that names no cluster is serverless, and there a stream without an end is refused when it starts."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark

STREAMS = """
spark.sql("CREATE SCHEMA IF NOT EXISTS main.endless")
spark.sql("CREATE TABLE IF NOT EXISTS main.endless.t AS SELECT 1 AS x")
def run(n, to_table=False, **trigger):
    writer = (spark.readStream.table("main.endless.t").writeStream
        .option("checkpointLocation", f"/Volumes/main/endless/v/{dbutils.widgets.get('name')}{n}"))
    writer = writer.trigger(**trigger) if trigger else writer
    try:
        query = writer.toTable(f"main.endless.{dbutils.widgets.get('name')}{n}") if to_table else writer.foreachBatch(lambda rows, i: None).start()
        query.processAllAvailable()
        query.stop()
        return "ran"
    except Exception as error:
        return type(error).__name__ + ": " + str(error)
dbutils.notebook.exit(repr([run(1), run(2, True), run(3, processingTime="1 second"), run(4, availableNow=True), run(5, True, once=True)]))
"""


def test_streams_without_an_end_need_a_cluster(lab: Lab) -> None:
    lab.volume("main.endless.v")
    request = replace(lab.request(STREAMS, name="s"), serverless=True)
    result = lab.call(lab.engine.run(request))
    assert result.succeeded, result.error_trace
    said = ast.literal_eval(result.exit_value)
    for one in said[:3]:
        assert one.startswith(
            "UnsupportedOperationException: [INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED] Trigger type Pro"
        )
        assert "existing_cluster_id" in one
    assert said[3:] == ["ran", "ran"]
    assert ast.literal_eval(lab.value(STREAMS, name="c"))[0:3] == ["ran", "ran", "ran"]
