"""Errors that a retry cannot mend end a task at once; all others are retried (T62)."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from databricks_bridge import DatabricksSubscriptionSensor, DatabricksTriggeredRunSensor
from databricks_bridge.assets.retries import NOT_RETRIED, as_airflow_takes_it, ends_for_good
from databricks_bridge.core import errors
from databricks_bridge.core.errors import (
    BridgeError,
    ClaimBlocked,
    ClaimUndecided,
    InvalidArgument,
    JobNotFound,
    NotFound,
    RunFailed,
    SourceError,
    Unavailable,
)
from tests.local.local_kit import failure
from tests.operators.conftest import DELAYS, TABLE, Bench

RETRIED = {
    "BridgeError",
    "WorkspaceError",
    "NotAuthenticated",
    "NotPermitted",
    "NotFound",
    "BadAnswer",
    "Unavailable",
    "Throttled",
    "ClaimError",
    "ClaimUndecided",
    "TargetChanged",
    "RunFailed",
    "LedgerError",
    "WriteLost",
}


@pytest.mark.parametrize("name", [name for name in vars(errors) if name[0].isupper() and name not in ("Self", "Any")])
def test_each_error_is_on_one_side(name: str) -> None:
    kind = getattr(errors, name)
    error = as_airflow_takes_it(kind("what happened"))
    assert isinstance(error, kind)
    assert (type(error).__name__, str(error)) == (name, "what happened")
    assert isinstance(error, AirflowFailException) is not (name in RETRIED)
    assert issubclass(kind, NOT_RETRIED) is not (name in RETRIED)


def test_what_an_error_carries_goes_along() -> None:
    error = as_airflow_takes_it(JobNotFound("no job", status=404, error_code="RESOURCE_DOES_NOT_EXIST"))
    assert isinstance(error, JobNotFound)
    assert (error.status, error.error_code) == (404, "RESOURCE_DOES_NOT_EXIST")
    assert as_airflow_takes_it(error) is error


def test_the_cause_goes_along() -> None:
    @ends_for_good
    def fails() -> None:
        raise InvalidArgument("no") from KeyError("x")

    with pytest.raises(InvalidArgument) as raised:
        fails()
    assert isinstance(raised.value, AirflowFailException)
    assert isinstance(raised.value.__cause__, KeyError)


def final(bench: Bench, kind: type[BridgeError], task: Any, **context: Any) -> None:
    with pytest.raises(kind) as raised:
        bench.run(task, **context)
    assert isinstance(raised.value, AirflowFailException)


def test_a_backfill_without_range_is_not_retried(bench: Bench) -> None:
    final(bench, InvalidArgument, bench.operator(), run_type="backfill")
    final(bench, InvalidArgument, DELAYS.claim(task_id="c").operator, run_type="backfill")


@pytest.mark.parametrize("job", [{"job_name": "no such job"}, {"job_name": None, "job_id": 987654321}])
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_job_that_is_not_there_is_not_retried(bench: Bench, job: dict[str, Any], deferrable: bool) -> None:
    final(bench, JobNotFound, bench.operator(**job, deferrable=deferrable))


def test_parameters_that_the_job_lacks_are_not_retried(bench: Bench) -> None:
    bench.api.post("update", job_id=bench.job_id, new_settings={"parameters": [{"name": "region", "default": ""}]})
    final(bench, InvalidArgument, bench.operator())


def test_a_table_made_anew_is_not_retried(bench: Bench) -> None:
    bench.commit()
    bench.run()
    shutil.rmtree(bench.deployment.layout.table_path("ops", TABLE))
    bench.commit(7)
    final(bench, SourceError, bench.operator(), run_id="manual__2")
    sensor = DatabricksSubscriptionSensor(task_id="s", subscription=DELAYS, soft_fail=True)
    final(bench, SourceError, sensor)


def test_a_run_that_failed_is_retried_and_a_blocked_claim_is_not(bench: Bench) -> None:
    bench.notebooks.functions["gold"] = lambda run: failure("ValueError: bad row")
    task = bench.operator(max_generations=1)
    with pytest.raises(RunFailed) as failed:
        bench.run(task)
    assert not isinstance(failed.value, AirflowException)
    final(bench, ClaimBlocked, task, try_number=2)


def test_an_error_in_a_deferred_wait_is_not_retried_either_and_soft_fail_makes_no_skip_of_it(bench: Bench) -> None:
    event = {
        "status": "error",
        "error": "TableReplaced",
        "message": "replaced; adopt it",
        "deadline": "2100-01-01T00:00:00+00:00",
    }
    sensor = DatabricksSubscriptionSensor(task_id="s", subscription=DELAYS, deferrable=True, soft_fail=True)
    with pytest.raises(SourceError) as raised:
        sensor.resume_execution("execute_complete", {"event": event}, bench.context(sensor))
    assert isinstance(raised.value, AirflowFailException)
    assert not isinstance(raised.value, AirflowSkipException)
    operator = bench.operator(deferrable=True)
    with pytest.raises(SourceError) as raised:
        operator.execute_complete(bench.context(operator), event)
    assert isinstance(raised.value, AirflowFailException)


def test_a_plain_sensor_of_a_job_that_is_not_there_is_not_retried(bench: Bench) -> None:
    final(bench, JobNotFound, DatabricksTriggeredRunSensor(task_id="s", job_name="none", databricks_conn_id="gold"))


@pytest.mark.parametrize("kind", [Unavailable, NotFound, ClaimUndecided])
def test_what_may_pass_is_retried(kind: type[BridgeError]) -> None:
    assert not isinstance(as_airflow_takes_it(kind("not yet")), AirflowException)
