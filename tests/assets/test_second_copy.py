"""Whether there is a second copy of a record: an error of Airflow's API is never taken for "there is none"."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, VariableResult

from databricks_bridge.assets.second_copy import AirflowVariables
from databricks_bridge.core.errors import LedgerError

KEY = "databricks_bridge.delays"


class Comms:
    """The task's line to its supervisor; answers, or raises, what it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def send(self, message: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def error(kind: ErrorType) -> ErrorResponse:
    return ErrorResponse(error=kind, detail={"status_code": 500})


def answering(monkeypatch: pytest.MonkeyPatch, answer: Any) -> AirflowVariables:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Comms(answer), raising=False)
    return AirflowVariables()


def test_an_absent_copy_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answering(monkeypatch, error(ErrorType.VARIABLE_NOT_FOUND)).get(KEY) is None
    assert answering(monkeypatch, AirflowRuntimeError(error(ErrorType.VARIABLE_NOT_FOUND))).get(KEY) is None


@pytest.mark.parametrize("kind", [ErrorType.API_SERVER_ERROR, ErrorType.GENERIC_ERROR])
@pytest.mark.parametrize("raised", [False, True])
def test_an_error_is_not_taken_for_an_absent_copy(
    monkeypatch: pytest.MonkeyPatch, kind: ErrorType, raised: bool
) -> None:
    answer = AirflowRuntimeError(error(kind)) if raised else error(kind)
    variables = answering(monkeypatch, answer)
    assert Variable.get(KEY, default=None) is None, "as Airflow answers"
    with pytest.raises(LedgerError, match=f"did not say whether there is a Variable {KEY}.*a later try asks again"):
        variables.get(KEY)


def test_a_copy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answering(monkeypatch, VariableResult(key=KEY, value="{}")).get(KEY) == "{}"
