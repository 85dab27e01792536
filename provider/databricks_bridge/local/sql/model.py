"""What a SQL warehouse of a local deployment asks of what runs its statements, and what it gets back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class SqlParameter:
    """`:name` in a statement. `type` is a SQL type name, such as BIGINT; a value of None is NULL."""

    name: str
    value: str | None
    type: str = "STRING"


@dataclass(frozen=True)
class SqlRequest:
    """One statement, with the defaults for names that are not full, in the folders of one metastore.

    `workspace` is the name of the one whose statement it is, `task_run_id` the task run that it is a part of.
    `host`, `token` and `ca_file` are how the statement asks the API of that workspace for what is not in Spark.
    """

    statement_id: str
    statement: str
    metastore_root: Path
    volumes_root: Path
    catalog: str | None = None
    schema: str | None = None
    parameters: tuple[SqlParameter, ...] = ()
    row_limit: int | None = None
    workspace: str = ""
    task_run_id: int | None = None
    host: str = ""
    token: str = field(default="", repr=False)
    ca_file: Path | None = None


@dataclass(frozen=True)
class SqlColumn:
    """`type_name` is the API's word, such as LONG; `type_text` the SQL spelling, such as BIGINT."""

    name: str
    type_name: str
    type_text: str


@dataclass(frozen=True)
class Lineage:
    """What a statement that ended `at` (epoch milliseconds) read and wrote: folders by their paths, views by their names."""

    at: int
    reads: Sequence[str]
    writes: Sequence[str]


@dataclass(frozen=True)
class SqlRows:
    """A result. Every cell is text or None, as in the format JSON_ARRAY; `truncated` by the row limit.

    `lineage` is None where the runner does not know it.
    """

    columns: tuple[SqlColumn, ...]
    rows: list[list[str | None]]
    truncated: bool = False
    lineage: Lineage | None = None


class SqlFailed(Exception):
    """A statement that failed. The message is the engine's own; `sql_state` is five characters or None."""

    def __init__(self, message: str, *, error_code: str = "BAD_REQUEST", sql_state: str | None = None) -> None:
        super().__init__(message)
        self.message, self.error_code, self.sql_state = message, error_code, sql_state


@runtime_checkable
class SqlRunner(Protocol):
    """Runs statements; several may be under way at once."""

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        """Run one statement. Raises SqlFailed. Cancelling the call stops the statement as far as it can be stopped."""


@runtime_checkable
class Publishes(Protocol):
    """A runner that keeps the catalog `system`."""

    def publish(self, metastore: str) -> None:
        """Bring its tables of one metastore up to date."""


class NoSql:
    """For a deployment whose engine runs no SQL, such as the instant one: every statement fails, and says why."""

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        raise SqlFailed(
            "This local workspace runs no SQL: its engine has none, and no other runner was given (sql=).",
            error_code="FEATURE_DISABLED",
        )
