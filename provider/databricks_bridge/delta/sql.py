"""The newest version of a table by SQL: the last resort, for it wakes a SQL warehouse and keeps it awake.

`DESCRIBE HISTORY ... LIMIT 1`, and `DESCRIBE DETAIL` when the version moved, for the metadata id. Used only where the author
asks for it by name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime

from databricks_bridge.core.errors import BadAnswer, HistoryGap, Unavailable, WorkspaceError
from databricks_bridge.delta.commits import MAINTENANCE
from databricks_bridge.delta.history import gap_of
from databricks_bridge.delta.identifiers import plain, quoted
from databricks_bridge.delta.model import CommitSummary, LatestVersion
from databricks_bridge.workspace.client import Workspace
from databricks_bridge.workspace.statements import Warehouse

log = logging.getLogger(__name__)

_HISTORY_MAX = 1000
_TRIES = 3


class SqlTable:
    """A table whose history a SQL warehouse tells; a VersionSource.

    `warehouse` is the warehouse's exact name or, as `warehouse_id`, its id. A poll is one statement, one more when the newest
    commit is maintenance, and one or two more when the version moved. `budget_seconds` bounds a statement with the warehouse's start. `sleep` is injected.
    """

    def __init__(
        self,
        workspace: Workspace,
        full_name: str,
        *,
        warehouse: str | None = None,
        warehouse_id: str | None = None,
        identify: bool = True,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        budget_seconds: float = 600.0,
    ) -> None:
        self._workspace, self._name, self._identify = workspace, full_name, identify
        self._seen: tuple[int, str | None] | None = None
        self._warehouse = Warehouse(workspace, warehouse_id, name=warehouse, sleep=sleep, budget_seconds=budget_seconds)

    def __repr__(self) -> str:
        return f"SqlTable({self._name!r}, {self._workspace!r})"

    async def latest(self, known: int | None = None) -> LatestVersion | None:
        """See `VersionSource.latest`."""
        entry = await self._workspace.get_table(plain(self._name))
        history = await self._history(1)
        if not history:
            return None
        if self._identify and (self._seen is None or self._seen[0] != history[0].version):
            history, metadata_id = await self._identified(history)
            self._seen = history[0].version, metadata_id
        newest = history[0]
        above = -1 if known is None else known
        if newest.version > above + 1 and not newest.carries_data:
            history = [c for c in await self._history(newest.version - above) if c.version <= newest.version]
        data = next((c.version for c in history if c.version > above and c.carries_data), None)
        if data is None and (oldest := history[-1].version) > above + 1:
            data = oldest - 1  # what is not in the history any more, or is too far back to ask for, counts as data
        return LatestVersion(
            version=newest.version,
            table_id=str(entry["table_id"]) if entry.get("table_id") else None,
            metadata_id=self._seen[1] if self._seen else None,
            committed_at=newest.committed_at,
            data_version=data,
            data_committed_at=next((c.committed_at for c in history if c.version == data), None),
        )

    async def commits(self, from_exclusive: int, to_inclusive: int) -> AsyncIterator[CommitSummary]:
        """See `VersionSource.commits`. One statement, of the whole history above `from_exclusive`."""
        if to_inclusive <= from_exclusive:
            return
        newest = await self._history(1)
        if not newest or newest[0].version < to_inclusive:
            raise Unavailable(f"commit {to_inclusive} of {self._name} is not there, at least not yet; look again")
        history = {c.version: c for c in await self._history(newest[0].version - from_exclusive, most=None)}
        for version in range(from_exclusive + 1, to_inclusive + 1):
            if version not in history:
                raise HistoryGap(
                    f"commit {version} of {self._name} is not in its history, and ({from_exclusive}, {to_inclusive}] was "
                    "asked for; log retention may have removed it: rebuild from the table, or adopt the newest version"
                )
            yield history[version]

    async def gap(self, from_exclusive: int, to_inclusive: int, *, stream: bool = False) -> str | None:
        """See `VersionSource.gap`. DESCRIBE HISTORY ends where the log was cleaned, and tells no table settings."""
        return await gap_of(self.commits(from_exclusive, to_inclusive))

    async def _identified(self, history: list[CommitSummary]) -> tuple[list[CommitSummary], str | None]:
        """The history as it is at one moment, and the metadata id of that moment; None where the warehouse does not tell it."""
        before = self._seen[1] if self._seen else None
        for _ in range(_TRIES):
            found = await self._metadata_id()
            if found is None or found == before:
                return history, found
            # the table may have been replaced between the two statements, and then the version is an older table's
            again = await self._history(1)
            if again and again[0].version == history[0].version:
                return history, found
            history = again or history
        raise Unavailable(f"{self._name} in {self._workspace.host} was replaced again and again during the poll; retry")

    async def _metadata_id(self) -> str | None:
        try:
            rows = await self._warehouse.execute(f"DESCRIBE DETAIL {quoted(self._name)}")
        except WorkspaceError as error:
            log.warning("DESCRIBE DETAIL of %s tells no id, so a replaced table cannot be seen: %s", self._name, error)
            return None
        return next((row.get("id") or None for row in rows), None)

    async def _history(self, rows: int, *, most: int | None = _HISTORY_MAX) -> list[CommitSummary]:
        """The newest commits, newest first."""
        limit = rows if most is None else min(rows, most)
        found = await self._warehouse.execute(f"DESCRIBE HISTORY {quoted(self._name)} LIMIT {limit}")
        try:
            commits = [_commit({column.lower(): cell for column, cell in row.items()}) for row in found]
        except (KeyError, ValueError) as error:
            raise BadAnswer(
                f"DESCRIBE HISTORY of {self._name} in {self._workspace.host} answered in a form that cannot be read: "
                f"{type(error).__name__} {error}"
            ) from error
        return sorted(commits, key=lambda commit: commit.version, reverse=True)


def _commit(row: dict[str, str | None]) -> CommitSummary:
    operation = row.get("operation")
    return CommitSummary(
        version=int(row["version"] or ""),
        operation=operation,
        carries_data=operation not in MAINTENANCE,
        committed_at=_moment(row.get("timestamp")),
    )


def _moment(text: str | None) -> datetime | None:
    """The commit's time; None for a text without a zone, whose meaning hangs on the warehouse's settings."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
