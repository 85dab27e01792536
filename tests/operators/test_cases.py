"""Faults that users of neighbouring projects reported, with the operator against a real local deployment."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.core.errors import RunFailed
from databricks_bridge.core.parameter_names import declarable_names
from tests.local.local_kit import write_notebook
from tests.operators.conftest import SOURCE, Bench


def test_D13_a_run_that_does_not_end_is_ended_by_its_job_and_fails_the_task(bench: Bench) -> None:
    """By the job's own time limit: one of the task only ends the wait, and the next try follows the same run (rule 8)."""
    path = write_notebook(bench.deployment, "analytics", "endless")
    bench.notebooks.block("endless")
    declared = [{"name": name, "default": ""} for name in sorted(declarable_names([SOURCE], []))]
    task = {"task_key": "main", "notebook_task": {"notebook_path": path}}
    job = bench.api.post("create", name="endless", tasks=[task], parameters=declared, timeout_seconds=1)
    bench.job_id = int(job["job_id"])
    with pytest.raises(RunFailed, match="TIMEDOUT"):
        bench.run(bench.operator(job_name="endless"))
    assert [run["state"]["result_state"] for run in bench.runs()] == ["TIMEDOUT"]
    assert len(bench.notebooks.killed) == 1
    assert bench.watermark() == -1


def test_D13_a_run_on_a_busy_table_ends_at_the_version_fixed_when_it_was_claimed(bench: Bench) -> None:
    def busy(run: Any) -> Any:
        from tests.local.local_kit import OK

        if len(bench.notebooks.runs_of("gold")) == 1:
            bench.commit()
            bench.commit()
        return OK

    bench.notebooks.functions["gold"] = busy
    bench.run()
    assert (bench.bounds(), bench.watermark()) == ([(-1, 0)], 0)
    bench.run()
    assert (bench.bounds(), bench.watermark()) == ([(-1, 0), (0, 2)], 2)
