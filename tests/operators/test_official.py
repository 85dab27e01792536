"""Tasks of the official provider beside ours: theirs upstream, and theirs between `claim()` and `commit()`."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.local.engine.model import NotebookResult
from databricks_bridge.local.testing import connection_to
from tests.local.local_kit import OK, failure, write_notebook
from tests.operators.conftest import DELAYS, Bench

EXPORTED = ("flights_table", "flights_start", "flights_end")


def official(job: str, **arguments: Any) -> Any:
    from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator

    return DatabricksRunNowOperator(
        task_id="theirs",
        databricks_conn_id="theirs",
        job_name=job,
        polling_period_seconds=1,
        do_xcom_push=False,
        databricks_retry_limit=1,
        **arguments,
    )


@pytest.fixture
def export(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job that knows nothing of us: it declares the parameters that its author chose to hand it."""
    connection = connection_to(bench.deployment.host("analytics"), bench.deployment.token("analytics"))
    monkeypatch.setenv("AIRFLOW_CONN_THEIRS", connection)
    path = write_notebook(bench.deployment, "analytics", "export")
    declared = [{"name": name, "default": ""} for name in EXPORTED]
    task = {"task_key": "main", "notebook_task": {"notebook_path": path}}
    bench.api.post("create", name="export", tasks=[task], parameters=declared)
    return "export"


class Around:
    """A DAG run of `claim() >> their task >> commit()`."""

    def __init__(self, bench: Bench, job: str) -> None:
        self.bench, self.job = bench, job
        self.claimed: dict[str, Any] = {}

    def claim(self) -> dict[str, Any]:
        self.bench.dag_runs += 1
        operator = DELAYS.claim(task_id="claim_delays").operator
        self.claimed = operator.execute(self.bench.context(operator))
        return self.claimed

    def theirs(self) -> None:
        parameters = {name: self.claimed["parameters"][name] for name in EXPORTED}
        official(self.job, job_parameters=parameters).execute({"ti": None})

    def commit(self) -> dict[str, Any]:
        operator = DELAYS.commit(task_id="commit_delays")
        context = self.bench.context(operator)
        context["ti"].xcom_pull = lambda task_ids: self.claimed if task_ids == "claim_delays" else None
        done: dict[str, Any] = operator.execute(context)
        return done


def given(bench: Bench, notebook: str) -> list[tuple[str, str]]:
    """Start and end, both inclusive, of each run that the notebook was given."""
    seen = [one.parameters for one in bench.notebooks.runs_of(notebook)]
    return [(one["flights_start"], one["flights_end"]) for one in seen]


def test_their_success_moves_our_watermark(bench: Bench, export: str) -> None:
    around = Around(bench, export)
    around.claim()
    around.theirs()
    assert bench.watermark() == -1, "only the commit moves it"
    around.commit()
    assert (given(bench, "export"), bench.watermark()) == ([("0", "0")], 0)
    bench.commit()
    bench.commit()
    around.claim()
    around.theirs()
    around.commit()
    assert (given(bench, "export"), bench.watermark()) == ([("0", "0"), ("1", "2")], 2)


def test_their_failure_leaves_it_and_the_next_dag_run_gives_the_same_range_again(bench: Bench, export: str) -> None:
    bench.notebooks.functions["export"] = lambda run: failure("ValueError: the partner does not answer")
    first = Around(bench, export)
    claimed = first.claim()
    with pytest.raises(Exception, match="the partner does not answer"):
        first.theirs()
    bench.commit()
    bench.notebooks.functions["export"] = lambda run: OK
    second = Around(bench, export)
    assert second.claim() == claimed, "the same id, to be idempotent by"
    second.theirs()
    second.commit()
    assert (given(bench, "export"), bench.watermark()) == ([("0", "0"), ("0", "0")], 0)
    assert first.commit() == second.commit(), "it is committed, whoever did it"
    assert bench.watermark() == 0


def test_what_their_task_wrote_is_the_range_of_ours(bench: Bench, export: str) -> None:
    def writes(run: Any) -> NotebookResult:
        bench.commit()
        bench.commit()
        return OK

    bench.run()
    bench.notebooks.functions["export"] = writes
    official(export).execute({"ti": None})
    bench.run()
    assert (bench.bounds(), bench.watermark()) == ([(-1, 0), (0, 2)], 2)
