"""A lost record of a subscription around external work, from the second copy that its tasks keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from databricks_bridge.core.errors import ClaimError, LedgerError, LedgerLost
from databricks_bridge.core.positions import BEFORE_FIRST, Position, TablePosition
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.core.repair import shown


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


def stated_copy(
    copy: Record | None,
    subscription: str,
    consumer: str,
    said: Mapping[str, Position],
    reason: Reason,
    now: datetime,
    epoch: str,
) -> Record:
    """The first record after a loss by a person's word, over what the copy has, in a new epoch. Raises ClaimError where the copy
    has an open claim: that comes back first, and is resolved.
    """
    base = Record(subscription, consumer, {}) if copy is None else replace(copy, revision=0, history=())
    if base.consumer != consumer:
        raise LedgerError(f"the copy of subscription {subscription!r} belongs to {base.consumer}, not to {consumer}")
    if base.claim is not None:
        raise ClaimError(
            f"the copy of subscription {subscription!r} has an open claim on {base.claim}; bring it back without --mark, let it "
            "be committed or resolve it (databricks-bridge claim resolve), and use watermark rewind or set then"
        )
    marks = {**base.watermarks, **{alias: _placed(base.watermarks.get(alias), to) for alias, to in said.items()}}
    words = ", ".join(f"{alias} at {shown(mark)}" for alias, mark in sorted(marks.items()))
    return base.after(now, f"brought back by word: {words} {reason}", watermarks=marks, epoch=epoch)


def _placed(mark: Position | None, to: Position) -> Position:
    """Ids that the copy knows are kept, but for a start before the first version: that is of whatever table there is."""
    if isinstance(mark, TablePosition) and isinstance(to, TablePosition) and to.version != BEFORE_FIRST:
        return TablePosition(to.version, mark.table_id, mark.metadata_id)
    return to
