"""`TriggeredRuns(writes=...)` over HTTP: a successful run means to look at its tables, whose versions are then claimed with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from databricks_bridge import DatabricksIncrementalRunOperator, Subscription, TriggeredRuns
from databricks_bridge.core.parameter_names import declarable_names
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.positions import RunsPosition
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from tests.local.local_kit import OK, Api, client, eventually, failure, write_notebook
from tests.operators.conftest import TABLE, Bench

SILVER = TriggeredRuns(
    job_name="silver-flights",
    alias="silver",
    databricks_conn_id="ops",
    triggers=frozenset({"ONE_TIME"}),
    writes=(TABLE,),
)
BY_RUNS = Subscription("by_runs", SILVER, start="earliest")


@pytest.fixture
def silver(bench: Bench) -> Callable[[NotebookResult], int]:
    """Runs the job that writes the table, to the given end; its run id."""
    ops = Api(client(bench.deployment, "ops"))
    path = write_notebook(bench.deployment, "ops", "silver")
    job = ops.post("create", name=SILVER.job_name, tasks=[{"task_key": "t", "notebook_task": {"notebook_path": path}}])
    declared = [{"name": name, "default": ""} for name in sorted(declarable_names(BY_RUNS.spec.sources, []))]
    bench.api.post("update", job_id=bench.job_id, new_settings={"parameters": declared})

    def run(result: NotebookResult) -> int:
        def write(_: NotebookRun) -> NotebookResult:
            bench.commit()
            return result

        bench.notebooks.functions["silver"] = write
        run_id = int(ops.post("run-now", job_id=job["job_id"])["run_id"])
        eventually(lambda: ops.get("runs/get", run_id=run_id)["state"]["life_cycle_state"] in ENDED)
        return run_id

    return run


ENDED = ("TERMINATED", "INTERNAL_ERROR")


def downstream(bench: Bench) -> DatabricksIncrementalRunOperator:
    return bench.operator(subscription=BY_RUNS, inlets=[BY_RUNS.asset])


def test_the_versions_that_a_successful_run_wrote_are_claimed_with_it(
    bench: Bench, silver: Callable[[NotebookResult], int]
) -> None:
    with pytest.raises(AirflowSkipException):
        bench.run(downstream(bench))
    assert bench.runs() == [], "the table has a version, and no run that tells of it"

    first = silver(OK)
    bench.run(downstream(bench))
    given = of_run(bench.runs()[0])
    assert (given["flights_start"], given["flights_end"]) == ("0", "1")
    mark = bench.record().watermarks["silver"]
    assert isinstance(mark, RunsPosition)
    assert first in mark.done
    assert bench.watermark() == 1

    silver(failure("ValueError: half written"))
    with pytest.raises(AirflowSkipException):
        bench.run(downstream(bench))
    assert (len(bench.runs()), bench.watermark()) == (1, 1), "what a failed run wrote waits for a run that succeeds"

    silver(OK)
    bench.run(downstream(bench))
    given = of_run(bench.runs()[1])
    assert (given["flights_start"], given["flights_end"]) == ("2", "3")
    assert bench.watermark() == 3
