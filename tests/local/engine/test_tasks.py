"""What a task is told and tells, beside its parameters: values, arguments, and where each cell's output is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databricks_bridge.local.engine import NotebookResult
from tests.local.engine.lab import Lab

pytestmark = pytest.mark.spark

NOTEBOOK = """# Databricks notebook source
print("first")

# COMMAND ----------

# MAGIC %md A title

# COMMAND ----------

import sys
n = dbutils.jobs.taskValues.get(taskKey="before", key="n")
dbutils.jobs.taskValues.set("twice", 2 * n)
print("second", sys.argv[1:])

# COMMAND ----------

dbutils.notebook.exit(str(n))
"""


def run(lab: Lab, source: str) -> tuple[NotebookResult, str]:
    request = replace(lab.request(source), arguments=("--day", "1"), task_values={"before": {"n": 21}})
    result = lab.call(lab.engine.run(request))
    return result, request.log.read_text()


def test_a_notebook_tells_values_and_where_its_cells_printed(lab: Lab) -> None:
    result, log = run(lab, NOTEBOOK)
    assert (result.succeeded, result.exit_value, result.task_values) == (True, "21", {"twice": 42}), result.error_trace
    printed = {line: log[begin:end] for line, begin, end in result.cells}
    assert list(printed.values()) == ["first\n", "", "second ['--day', '1']\n", ""]
    assert min(printed) == 2


def test_what_was_told_before_a_failure_is_kept(lab: Lab) -> None:
    result, _ = run(lab, 'dbutils.jobs.taskValues.set("a", [1])\nprint("x")\nraise ValueError("no")\n')
    assert (result.succeeded, result.task_values, len(result.cells)) == (False, {"a": [1]}, 1)


def test_a_python_file_is_a_program(lab: Lab) -> None:
    source = """
from pyspark.sql import SparkSession
import sys
if __name__ == "__main__":
    print(SparkSession.builder.getOrCreate().range(5).count(), sys.argv[1:])
"""
    result, log = run(lab, source)
    assert result.succeeded, result.error_trace
    assert "5 ['--day', '1']" in log
