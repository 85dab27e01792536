"""The second copy of the record of a subscription around external work, in an Airflow Variable.

Databricks keeps its runs, and they tell of a lost record. Nobody keeps the tasks between `claim()` and `commit()`: without a
copy in another place a lost ledger would look like a first start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.second_copy import copy_of, variable_of

if TYPE_CHECKING:
    from databricks_bridge.core.record import Record
    from databricks_bridge.ledgers.protocol import Entry, Ledger


class Copies(Protocol):
    """Where copies are: `get` answers None where there is none."""

    def get(self, key: str) -> str | None: ...

    def set(self, key: str, value: str) -> None: ...


class AirflowVariables:
    """The variables of the Airflow that runs this task."""

    def get(self, key: str) -> str | None:
        from airflow.sdk import Variable

        value = Variable.get(key, default=None)
        if value is None:
            _confirm_absent(key)
        return None if value is None else str(value)

    def set(self, key: str, value: str) -> None:
        from airflow.sdk import Variable

        Variable.set(key, value, description="Second copy of a databricks-bridge record; see watermark rebuild")


def _confirm_absent(key: str) -> None:
    """Raise LedgerError unless Airflow's API itself says that there is no such variable.

    `Variable.get` goes through the secrets backends, which log an error of the API and then answer as if there were none: a lost
    record would look like a first start.
    """
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable

    comms = getattr(task_runner, "SUPERVISOR_COMMS", None)
    if comms is None:
        return  # no task: nothing is claimed here
    try:
        answer = comms.send(GetVariable(key=key))
    except AirflowRuntimeError as error:
        answer = error.error
    if isinstance(answer, ErrorResponse) and answer.error is not ErrorType.VARIABLE_NOT_FOUND:
        raise LedgerError(
            f"Airflow did not say whether there is a Variable {key}, the second copy of the record ({answer.error.value}); a later "
            "try asks again"
        )


@dataclass
class CopiedLedger:
    """A ledger whose record is copied after each write, and when it is read and its copy is behind."""

    ledger: Ledger
    subscription: str
    copies: Copies = field(default_factory=AirflowVariables)

    def __repr__(self) -> str:
        return f"CopiedLedger({self.ledger!r})"

    async def read(self) -> Record | None:
        record = await self.ledger.read()
        if record is not None and self.copies.get(variable_of(self.subscription)) != copy_of(record):
            self._copy(record)
        return record

    async def write(self, record: Record) -> None:
        await self.ledger.write(record)
        self._copy(record)

    async def history(self, count: int) -> Sequence[Entry]:
        return await self.ledger.history(count)

    async def copy_place(self) -> str:
        """Where the copy is, in words; empty where there is none."""
        name = variable_of(self.subscription)
        return f"the Airflow Variable {name}" if self.copies.get(name) is not None else ""

    def _copy(self, record: Record) -> None:
        self.copies.set(variable_of(self.subscription), copy_of(record))
