"""Faults that users of neighbouring projects reported, by notebooks on the local engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .lab import Lab

pytestmark = pytest.mark.spark

INGEST = """
spark.sql("CREATE SCHEMA IF NOT EXISTS main.taken")
(spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").option("cloudFiles.allowOverwrites", "false")
    .schema("id INT").load("/Volumes/main/landing/taken").writeStream
    .option("checkpointLocation", dbutils.widgets.get("checkpoint"))
    .trigger(availableNow=True).toTable("main.taken.bronze").awaitTermination())
dbutils.notebook.exit(str(spark.table("main.taken.bronze").count()))
"""
CHECKPOINT = "/Volumes/main/landing/taken/_checkpoints/bronze"


def later(file: Path, seconds: float) -> None:
    os.utime(file, (file.stat().st_mtime + seconds, file.stat().st_mtime + seconds))


def test_D11_auto_loader_takes_one_file_once_whatever_its_time_says(lab: Lab) -> None:
    """The checkpoint's location is a value of the author's own; written with a slash at its end it is the same stream.
    Another location is another stream, over everything: the postcondition `CheckpointReached` says so before a commit,
    for there is nothing in it yet, but nothing compares the job parameters of two claims."""
    file = lab.volume("main.landing.taken") / "a.json"
    file.write_text('{"id": 1}\n')
    assert lab.value(INGEST, checkpoint=CHECKPOINT) == "1"
    later(file, 2)
    assert lab.value(INGEST, checkpoint=f"{CHECKPOINT}/") == "1"
    (file.parent / "b.json").write_text('{"id": 2}\n')
    assert lab.value(INGEST, checkpoint=CHECKPOINT) == "2"
