"""A lost record of a subscription around external work, from the second copy that its tasks keep."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from databricks_bridge.core.errors import LedgerError, LedgerLost
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record, record_from_json


def variable_of(subscription: str) -> str:
    """The name of the Airflow Variable that holds the copy."""
    return f"databricks_bridge.{subscription}"


def copy_of(record: Record) -> str:
    """The copy's text: the record with the last line of its history."""
    return json.dumps(replace(record, history=record.history[-1:]).to_json(), sort_keys=True)


def record_of_copy(text: str, subscription: str) -> Record:
    """The record that the copy holds. Raises LedgerError for what is none."""
    try:
        record = record_from_json(json.loads(text))
    except ValueError as error:
        raise LedgerError(f"the Variable {variable_of(subscription)} holds no copy of a record") from error
    if record.subscription != subscription:
        raise LedgerError(
            f"the Variable {variable_of(subscription)} holds the copy of subscription {record.subscription!r}"
        )
    return record


def brought_back(copy: Record | None, subscription: str, consumer: str, reason: Reason, now: datetime) -> Record:
    """The first record after a loss: all that the copy has, its open claim too, so that the DAG run that has it can commit.

    Raises LedgerLost without a copy, LedgerError for the copy of another consumer.
    """
    if copy is None:
        raise LedgerLost(
            f"there is no copy of subscription {subscription!r} in the Variable {variable_of(subscription)}; look how far the "
            "work came, and say so with --mark SOURCE=VERSION"
        )
    if copy.consumer != consumer:
        raise LedgerError(f"the copy of subscription {subscription!r} belongs to {copy.consumer}, not to {consumer}")
    return replace(copy, revision=0).after(now, f"brought back from its second copy {reason}")
