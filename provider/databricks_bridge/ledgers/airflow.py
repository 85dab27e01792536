"""The Airflow keep: one key of the asset state store, on the subscription's asset.

`asset_state_store` (Airflow 3.3) is a plain upsert without compare-and-set, so the revision is compared just before
each write. What can still slip between is covered by the token: two writers with one `from` get one run.
"""

from __future__ import annotations

from typing import Any, Protocol

from databricks_bridge.core.errors import LedgerError, RecordTooLarge
from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.core.record_size import is_new_claim, largest_later, shrunk, size_of
from databricks_bridge.ledgers.protocol import Entry, follows, lost, own_history

KEY = "databricks_bridge.record"
LIMIT_BYTES = 48 * 1024
"""Below the 65,535 bytes that the asset state store takes, so that a full record can still be written once more."""


class StateStore(Protocol):
    """The part of Airflow's `AssetStateStoreAccessor` that the keep uses."""

    def get(self, key: str, default: Any = None) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...


class AirflowLedger:
    """A record in the asset state store, through a task's own accessor."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    async def read(self) -> Record | None:
        value = self._store.get(KEY)
        return None if value is None else record_from_json(value)

    async def write(self, record: Record) -> None:
        value = fitting(record)
        if not follows(record, await self.read()):
            raise lost(record)
        self._store.set(KEY, value)

    async def history(self, count: int) -> list[Entry]:
        return own_history(await self.read(), count)


def fitting(record: Record) -> dict[str, Any]:
    """The record as the state store takes it, with as much of its history as there is room for.

    Raises RecordTooLarge, naming the ledger that has room: for a new claim before anything is started, where what comes after
    it would not fit.
    """
    kept = shrunk(record, LIMIT_BYTES)
    size = size_of(largest_later(kept) if is_new_claim(kept) else kept)
    if size > LIMIT_BYTES:
        needs = f"can need {size} bytes for this claim" if is_new_claim(kept) else f"has {size} bytes"
        raise RecordTooLarge(
            f"the record of subscription {record.subscription!r} {needs}, the Airflow ledger keeps "
            f"{LIMIT_BYTES}; move it to the object store, which has room (ledger='s3://bucket/prefix', or abfss, gs, file: "
            f"databricks-bridge subscription move), or use fewer sources in one subscription"
        )
    return kept.to_json()


def ledger_of(context: Any, asset: Any, subscription: str) -> AirflowLedger:
    """The keep of a running task. Raises LedgerError when the task lacks the asset as inlet."""
    try:
        return AirflowLedger(context["asset_state_store"][asset])
    except KeyError as error:
        raise LedgerError(
            f"this task has no access to the record of subscription {subscription!r}: add inlets=[subscription.asset] "
            "to it (a mapped operator needs it in partial())"
        ) from error
