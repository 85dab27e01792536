"""Which errors Airflow retries: the one list for operators, sensors, claim and commit.

A retry that cannot mend anything only delays the failure callback. Such an error is raised as what it is and as
AirflowFailException at once: the task fails, whatever `retries` it has left. All others are retried, also these:
ClaimUndecided (the next try looks again whether the run is there), TargetChanged (the other claim may end),
what a workspace refuses (a token is exchanged, a right granted), and a table that is not there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from databricks_bridge.core.errors import (
    BridgeError,
    ClaimBlocked,
    ConsumerMismatch,
    InvalidArgument,
    JobNotFound,
    LedgerLost,
    RecordTooLarge,
    SourceError,
)

Method = TypeVar("Method", bound=Callable[..., Any])

NOT_RETRIED: tuple[type[BridgeError], ...] = (
    InvalidArgument,
    JobNotFound,
    SourceError,
    ClaimBlocked,
    ConsumerMismatch,
    LedgerLost,
    RecordTooLarge,
)
"""A person has to act first: change the code, the job or the table, decide, repair or resolve; and then clears the task."""


def as_airflow_takes_it(error: BridgeError) -> BridgeError:
    """The error; as an AirflowFailException too where a retry cannot mend it."""
    if not isinstance(error, NOT_RETRIED) or isinstance(error, AirflowFailException):
        return error
    kind = _final(type(error))
    final = kind.__new__(kind)
    final.args = error.args
    final.__dict__.update(error.__dict__)
    return final.with_traceback(error.__traceback__)


def ends_for_good(method: Method) -> Method:
    """For a task's `execute` and what resumes it: its errors as `as_airflow_takes_it` has them."""

    @wraps(method)
    def ended(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except BridgeError as error:
            final = as_airflow_takes_it(error)
            if final is error:
                raise
            raise final from error.__cause__

    return ended  # type: ignore[return-value]


def _final(kind: type[BridgeError]) -> type[BridgeError]:
    return type(kind.__name__, (kind, AirflowFailException), {"__module__": kind.__module__, "__doc__": kind.__doc__})
