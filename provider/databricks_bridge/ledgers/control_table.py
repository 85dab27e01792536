"""The control-table keep: `job_watermarks(job, source, last_version, updated_at)`, the shape that notebooks keep.

The record with its claim rides beside it in `job_claims`, one row for each subscription, and is the truth: one MERGE
on that row is the compare-and-set (Delta makes it atomic). `job_watermarks` is brought after it, for people and
notebooks to read; a write that died between the two is made good by the next one.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from databricks_bridge.core.errors import InvalidArgument, LedgerError, Unavailable, WorkspaceError
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.ledgers.protocol import Entry, follows, lost, own_history
from databricks_bridge.workspace.statements import Row, Warehouse

OpenWarehouse = Callable[[], Awaitable[Warehouse]]

_PART = re.compile(r"[A-Za-z0-9_-]+")


def _random_nonce() -> str:
    return uuid.uuid4().hex


class ControlTableKeep:
    """The two tables in `schema` (`catalog.schema`), made at the first use. `open_warehouse` is called once."""

    def __init__(self, open_warehouse: OpenWarehouse, schema: str, *, nonce: Callable[[], str] = _random_nonce) -> None:
        self._open, self._made = open_warehouse, False
        self._warehouse: Warehouse | None = None
        quoted = quoted_schema(schema)
        self.watermarks, self.claims = f"{quoted}.job_watermarks", f"{quoted}.job_claims"
        self.nonce = nonce

    def ledger(self, subscription: str) -> ControlTableLedger:
        return ControlTableLedger(self, subscription)

    async def names(self) -> list[str]:
        rows = await self.execute(f"SELECT job FROM {self.claims} ORDER BY job")
        return sorted(str(row["job"]) for row in rows)

    async def kept_watermarks(self, job: str) -> dict[str, int]:
        """What `job_watermarks` says of a job, whoever wrote it: versions by source."""
        rows = await self.execute(f"SELECT source, last_version FROM {self.watermarks} WHERE job = :job", job=job)
        return {str(row["source"]): int(row["last_version"]) for row in rows if row["last_version"] is not None}

    async def execute(self, statement: str, **parameters: str | int) -> list[Row]:
        """One statement on the warehouse, after the tables are there. Raises LedgerError, and Unavailable."""
        try:
            return await self._execute(statement, **parameters)
        except WorkspaceError as error:
            raise LedgerError(f"the control tables cannot be used: {error}") from error

    async def _execute(self, statement: str, **parameters: str | int) -> list[Row]:
        if self._warehouse is None:
            self._warehouse = await self._open()
        if not self._made:
            await self._warehouse.execute(
                f"CREATE TABLE IF NOT EXISTS {self.watermarks} "
                "(job STRING, source STRING, last_version BIGINT, updated_at TIMESTAMP)"
            )
            await self._warehouse.execute(
                f"CREATE TABLE IF NOT EXISTS {self.claims} "
                "(job STRING, revision BIGINT, nonce STRING, record STRING, updated_at TIMESTAMP)"
            )
            self._made = True
        return await self._warehouse.execute(statement, **parameters)


class ControlTableLedger:
    """One subscription's rows."""

    def __init__(self, keep: ControlTableKeep, subscription: str) -> None:
        self._keep, self._subscription = keep, subscription

    def __repr__(self) -> str:
        return f"ControlTableLedger({self._keep.claims!r}, {self._subscription!r})"

    async def read(self) -> Record | None:
        row = await self._row()
        if row is None:
            return None
        try:
            value: dict[str, Any] = json.loads(row["record"] or "")
        except ValueError as error:
            raise LedgerError(
                f"the row of {self._subscription!r} in {self._keep.claims} does not hold a record ({error})"
            ) from error
        return record_from_json(value)

    async def write(self, record: Record) -> None:
        if not follows(record, await self.read()):
            raise lost(record)
        nonce = self._keep.nonce()
        failed: LedgerError | Unavailable | None = None
        try:
            await self._put(record, nonce)
        except (LedgerError, Unavailable) as error:
            # A conflict with another writer's commit, or an answer that was lost: only the row can tell.
            failed = error
        row = await self._row()
        if row is None or row["nonce"] != nonce:
            unchanged = (row is None and record.revision == 1) or (
                row is not None and row["revision"] == str(record.revision - 1)
            )
            raise failed if failed is not None and unchanged else lost(record)
        await self._mirror(record)

    async def history(self, count: int) -> list[Entry]:
        return own_history(await self.read(), count)

    async def _row(self) -> Row | None:
        rows = await self._keep.execute(
            f"SELECT revision, nonce, record FROM {self._keep.claims} WHERE job = :job", job=self._subscription
        )
        if len(rows) > 1:
            raise LedgerError(
                f"{self._keep.claims} has {len(rows)} rows for {self._subscription!r}, and one is right: the newest is that of the "
                "highest revision. Stop all that use the subscription before you change the table, and keep a copy"
            )
        return rows[0] if rows else None

    async def _put(self, record: Record, nonce: str) -> None:
        await self._keep.execute(
            f"MERGE INTO {self._keep.claims} AS kept "
            "USING (SELECT :job AS job, :revision AS revision, :nonce AS nonce, :record AS record) AS new "
            "ON kept.job = new.job "
            "WHEN MATCHED AND kept.revision = new.revision - 1 THEN UPDATE SET revision = new.revision, "
            "nonce = new.nonce, record = new.record, updated_at = current_timestamp "
            "WHEN NOT MATCHED AND new.revision = 1 THEN INSERT (job, revision, nonce, record, updated_at) "
            "VALUES (new.job, new.revision, new.nonce, new.record, current_timestamp)",
            job=self._subscription,
            revision=record.revision,
            nonce=nonce,
            record=json.dumps(record.to_json()),
        )

    async def _mirror(self, record: Record) -> None:
        """Tables alone: the runs of a job have no version."""
        marks = {alias: at.version for alias, at in record.watermarks.items() if isinstance(at, TablePosition)}
        there = await self._keep.kept_watermarks(self._subscription)
        for alias, version in sorted(marks.items()):
            if there.get(alias) != version:
                await self._keep.execute(
                    f"MERGE INTO {self._keep.watermarks} AS kept "
                    "USING (SELECT :job AS job, :source AS source, :version AS version) AS new "
                    "ON kept.job = new.job AND kept.source = new.source "
                    "WHEN MATCHED THEN UPDATE SET last_version = new.version, updated_at = current_timestamp "
                    "WHEN NOT MATCHED THEN INSERT (job, source, last_version, updated_at) "
                    "VALUES (new.job, new.source, new.version, current_timestamp)",
                    job=self._subscription,
                    source=alias,
                    version=version,
                )


def quoted_schema(schema: str) -> str:
    """`catalog.schema` with each part quoted. Raises InvalidArgument for anything else."""
    parts = schema.split(".")
    if len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidArgument(
            f"the control tables' schema is {schema!r}; give catalog.schema (letters, digits, _ and -)"
        )
    return ".".join(f"`{part}`" for part in parts)
