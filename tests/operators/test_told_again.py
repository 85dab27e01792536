"""A try that was lost after its commit: the next one returns that commit. Around external work, too; and a lost record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from databricks_bridge import Subscription
from databricks_bridge.core.errors import InvalidArgument, LedgerLost
from databricks_bridge.core.second_copy import brought_back, record_of_copy
from databricks_bridge.operators.around import check_active_runs
from tests.core.test_around import WHY
from tests.operators.conftest import DELAYS, SOURCE, Bench

COPY = "databricks_bridge.delays"


def test_the_retry_has_the_same_xcom_and_no_second_run(bench: Bench) -> None:
    first = bench.run()
    pushed = dict(bench.pushed)
    bench.pushed.clear()  # Airflow clears a task's XComs when its next try starts
    assert bench.run(try_number=2) == first
    assert first["ranges"], "it committed something"
    assert bench.pushed == pushed, "the link to the run, too"
    assert len(bench.runs()) == 1


def test_the_record_went_on_meanwhile(bench: Bench) -> None:
    first = bench.run()
    bench.commit()
    second = bench.run()
    assert second["ranges"] != first["ranges"]
    assert bench.run(try_number=2, run_id="manual__1") == first


def test_a_cleared_task_processes_what_is_pending_and_else_returns_its_commit(bench: Bench) -> None:
    first = bench.run()
    cleared = {"try_number": 2, "max_tries": 3}  # Airflow adds the task's retries to the tries that there were
    assert bench.run(**cleared) == first
    bench.commit()
    assert bench.run(**cleared)["ranges"] != first["ranges"]
    assert len(bench.runs()) == 2


def test_another_task_has_nothing_new(bench: Bench) -> None:
    bench.run()
    with pytest.raises(AirflowSkipException):
        bench.run(bench.operator(task_id="other"), try_number=2)


def claim(bench: Bench, **ti: Any) -> Any:
    operator = DELAYS.claim(retries=2).operator
    bench.dag_runs += ti.get("try_number", 1) == 1
    return operator.execute(bench.context(operator, **ti))


def commit(bench: Bench, claimed: Any, **ti: Any) -> Any:
    operator = DELAYS.commit()
    context = bench.context(operator, **ti)
    context["ti"].xcom_pull = lambda task_ids: claimed
    return operator.execute(context)


def test_each_retry_around_external_work_gets_its_own(bench: Bench) -> None:
    claimed = claim(bench)
    assert claim(bench, try_number=2) == claimed
    done = commit(bench, claimed)
    assert commit(bench, claimed, try_number=2) == done
    assert claim(bench, try_number=3, run_id="manual__1") == claimed, "after the commit, too"


def test_a_second_dag_run_does_not_do_the_same_work(bench: Bench) -> None:
    claimed = claim(bench)
    bench.active_dag_runs = {"manual__1"}
    with pytest.raises(AirflowSkipException, match="DAG run manual__1 works on the claim"):
        claim(bench)
    bench.active_dag_runs = set()
    assert claim(bench) == claimed


def test_a_dag_run_that_airflow_does_not_know_any_more_is_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    def asked(status: int) -> Any:
        def state(dag_id: str, run_id: str) -> str:
            answer = ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": status})
            raise AirflowRuntimeError(answer)

        return staticmethod(state)

    claimed = claim(bench)
    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", asked(500))
    with pytest.raises(AirflowRuntimeError):
        claim(bench)
    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", asked(404))
    assert claim(bench) == claimed


@pytest.mark.parametrize("when", ["claimed", "committed"])
def test_a_cleared_state_store_is_no_first_start_and_comes_back_from_the_copy(bench: Bench, when: str) -> None:
    """Airflow's asset page has one button for it."""
    claimed = claim(bench)
    if when == "committed":
        commit(bench, claimed)
    record = bench.record()
    bench.store.rows.clear()
    with pytest.raises(LedgerLost, match=f"the Airflow Variable {COPY}.*watermark rebuild delays --dag-id delays"):
        claim(bench)
    assert bench.store.rows == {}
    back = brought_back(
        record_of_copy(bench.variables[COPY], "delays"), "delays", "dag delays", WHY, record.history[-1].at
    )
    bench.store.set("databricks_bridge.record", back.to_json())
    if when == "claimed":
        assert claim(bench) == claimed
        commit(bench, claimed)
    assert bench.record().watermarks == record.watermarks or when == "claimed"
    with pytest.raises(AirflowSkipException):
        claim(bench)


def test_a_record_of_an_older_release_gets_its_copy_when_it_is_read(bench: Bench) -> None:
    commit(bench, claim(bench))
    bench.variables.clear()
    with pytest.raises(AirflowSkipException):
        claim(bench)
    assert record_of_copy(bench.variables[COPY], "delays").watermarks == bench.record().watermarks


IN_A_STORE = Subscription("stored", SOURCE, start="earliest", ledger="file:///tmp/ledger")


@pytest.mark.parametrize("make", [DELAYS.claim, DELAYS.commit])
@pytest.mark.parametrize("given", [{}, {"max_active_runs": 2}])
def test_a_dag_with_two_active_runs_is_refused_at_parse(make: Any, given: dict[str, Any]) -> None:
    dag = DAG("partner", schedule=DELAYS.asset, **given)
    with dag, pytest.raises(InvalidArgument, match="max_active_runs=1 on the DAG, or keep the record in an object"):
        make()


def test_one_active_run_or_a_ledger_with_compare_and_set_is_not() -> None:
    with DAG("one", schedule=DELAYS.asset, max_active_runs=1):
        DELAYS.claim() >> DELAYS.commit()
    with DAG("continuous", schedule="@continuous", max_active_runs=1):
        DELAYS.claim() >> DELAYS.commit()
    with DAG("many", schedule=None):
        IN_A_STORE.claim() >> IN_A_STORE.commit()


def test_a_dag_that_is_known_later_is_refused_when_the_task_runs(bench: Bench) -> None:
    task = DELAYS.claim().operator
    DAG("partner", schedule=None).add_task(task)
    with pytest.raises(InvalidArgument, match="DAG 'partner' may have 16 active runs"):
        task.execute(bench.context(task))
    check_active_runs(SimpleNamespace(get_dag=lambda: None), DELAYS)  # type: ignore[arg-type]
