"""A job of more than a hundred tasks: `runs/get` shows them in pages, and the one that failed may be on the last."""

from __future__ import annotations

import pytest

from databricks_bridge.core.errors import RunFailed
from databricks_bridge.core.parameter_names import declarable_names
from tests.local.local_kit import OK, failure, write_notebook
from tests.operators.conftest import SOURCE, Bench

TASKS = 130


def test_A11_the_error_of_the_task_on_the_last_page_fails_the_airflow_task(bench: Bench) -> None:
    path = write_notebook(bench.deployment, "analytics", "fine")
    last = write_notebook(bench.deployment, "analytics", "last")
    tasks = [
        {"task_key": f"t{number:03}", "notebook_task": {"notebook_path": last if number == TASKS - 1 else path}}
        for number in range(TASKS)
    ]
    declared = [{"name": name, "default": ""} for name in sorted(declarable_names([SOURCE], []))]
    bench.job_id = int(bench.api.post("create", name="wide", tasks=tasks, parameters=declared)["job_id"])
    bench.notebooks.functions["last"] = lambda run: failure("ValueError: the last of them all")
    with pytest.raises(RunFailed, match="ValueError: the last of them all"):
        bench.run(bench.operator(job_name="wide"))
    first_page = bench.api.run(bench.runs()[0]["run_id"])
    assert len(first_page["tasks"]) == 100
    assert first_page["next_page_token"]
    assert f"t{TASKS - 1:03}" not in {task["task_key"] for task in first_page["tasks"]}
    assert bench.watermark() == -1
    bench.notebooks.functions["last"] = lambda run: OK
    bench.run(bench.operator(job_name="wide"))
    assert (bench.bounds(), bench.watermark()) == ([(-1, 0), (-1, 0)], 0)
