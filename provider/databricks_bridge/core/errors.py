"""The errors of databricks-bridge, grouped by what the reader can do about them.

BridgeError
  InvalidArgument             the DAG's author gave something that cannot work; raised at parse where possible
  WorkspaceError              a workspace answered, and the answer is no
    NotAuthenticated          the token or the service principal is refused
    NotPermitted              the identity is known and may not do this
    NotFound                  the job, run, table or path does not exist
      JobNotFound             the job that a task is to run does not exist
    BadAnswer                 the answer is not what the API documents
  Unavailable                 no usable answer yet; trying again is right
    Throttled                 429, with the pause that the service asked for
  SourceError                 a source has become something that needs a decision
    TableRecreated            another table under the same name
    TableReplaced             CREATE OR REPLACE gave the table another metadata id
    HistoryGap                what is new since the watermark cannot be read any more
    TriggerPaused             no run can come: the trigger that would fire it is paused
  ClaimError                  an open claim stands in the way
    ClaimBlocked              max_generations runs failed; a person decides
    ClaimUndecided            nothing can tell whether the claim's run succeeded
    TargetChanged             the claim names another job or workspace than the DAG does now
    ConsumerMismatch          another consumer owns this subscription
  RunFailed                   the downstream run ended without success
  LedgerError                 the record cannot be read or written
    RecordTooLarge            the record is over the keep's limit
    WriteLost                 another writer came first; read again
    LedgerLost                the workspace knows this subscription, the ledger does not
"""

from __future__ import annotations

from typing import Self

from databricks_bridge.core.texts import whole_characters


class BridgeError(Exception):
    """Root of every error that databricks-bridge raises on purpose. Its words can be written wherever it is told."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(whole_characters(one) if isinstance(one, str) else one for one in args))


class InvalidArgument(BridgeError, ValueError):
    """The author gave something that cannot work. A ValueError too, so that Airflow shows it as an import error."""


class WorkspaceError(BridgeError):
    """A workspace answered with an error. `status` is the HTTP status, `error_code` Databricks' own word for it."""

    def __init__(self, message: str, *, status: int | None = None, error_code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code

    def saying(self, message: str) -> Self:
        """The same error in other words: who knows what was asked for says what to do."""
        return type(self)(message, status=self.status, error_code=self.error_code)


class NotAuthenticated(WorkspaceError):
    """The workspace refuses the credentials (HTTP 401)."""


class NotPermitted(WorkspaceError):
    """The workspace knows the identity, which lacks the right (HTTP 403)."""


class NotFound(WorkspaceError):
    """What was asked for does not exist (HTTP 404, or 400 with "does not exist" as the Jobs API says it)."""


class JobNotFound(NotFound):
    """The job that a task is to run does not exist, or is not shown to this identity."""


class BadAnswer(WorkspaceError):
    """The answer is not what the API documents, and asking again is not known to help."""


class Unavailable(BridgeError):
    """No usable answer: connection, time-out, 5xx, a body cut short. Trying again is right."""


class Throttled(Unavailable):
    """HTTP 429. `retry_after` is the pause in seconds that the service asked for, or None."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SourceError(BridgeError):
    """A source has become something that needs a decision."""


class TableRecreated(SourceError):
    """The name now belongs to another table (another `table_id`); its versions do not continue the old ones."""


class TableReplaced(SourceError):
    """CREATE OR REPLACE: the same table with another metadata id."""


class HistoryGap(SourceError):
    """What is new since the watermark cannot be read: the log does not reach back to it, or stands behind it; the change
    feed was off; change files are gone.
    """


class TriggerPaused(SourceError):
    """A run is waited for that cannot come, because the trigger that would fire it is paused."""


class ClaimError(BridgeError):
    """An open claim stands in the way."""


class ClaimBlocked(ClaimError):
    """`max_generations` runs of one claim failed; no more runs are started until a person resolves it."""


class ClaimUndecided(ClaimError):
    """The claim's run is gone and nothing can tell whether it succeeded."""


class TargetChanged(ClaimError):
    """The open claim names another workspace or job than the DAG does now."""


class ConsumerMismatch(ClaimError):
    """The subscription belongs to another consumer."""


class RunFailed(BridgeError):
    """The downstream run ended without success. `run_id` names it."""

    def __init__(self, message: str, *, run_id: int | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id


class LedgerError(BridgeError):
    """A record cannot be read or written."""


class RecordTooLarge(LedgerError):
    """The record is over the limit of this ledger."""


class LedgerLost(LedgerError):
    """There is no record, but the workspace has runs of this subscription: no first start."""


class WriteLost(LedgerError):
    """Another writer came first; read the record again and decide again."""
