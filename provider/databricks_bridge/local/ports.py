"""The seams between the parts of a local deployment: what a router, the trigger scheduler and the shares are given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from databricks_bridge.local.faults import Faults
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.sql.model import NoSql
from databricks_bridge.local.sql.statements import Statements

if TYPE_CHECKING:
    from databricks_bridge.local.runs.keeper import RunKeeper
    from databricks_bridge.local.server.auth import Credentials
    from databricks_bridge.local.shares import Shares
    from databricks_bridge.local.store import Store

Clock = Callable[[], float]
"""The time in seconds since the epoch, as `time.time` gives it."""


@dataclass(frozen=True)
class Workspace:
    """One hosted workspace. Every API family is a function `router(workspace) -> APIRouter` of this value alone.

    `workspace_id` is a number as text. `metastore` is the folder name (Layout.metastore_root), `metastore_id` the
    UUID the API shows for it; workspaces of one metastore agree in both. `host` is `http://127.0.0.1:PORT`,
    or `https://` with TLS; then `ca_file` is what a client of it has to trust.
    `now` is the deployment's clock, in seconds since the epoch; every time on the wire is `int(now() * 1000)`.
    `time_scale` is the declared factor on Databricks' durations, `engine` what runs notebooks: spark or instant.
    """

    name: str
    workspace_id: str
    metastore: str
    metastore_id: str
    host: str
    user_name: str
    layout: Layout
    now: Clock
    time_scale: float
    engine: str
    credentials: Credentials = field(repr=False)
    store: Store = field(repr=False)
    runs: RunKeeper = field(repr=False)
    shares: Shares = field(repr=False)
    sql: Statements = field(default_factory=lambda: Statements(NoSql()), repr=False)
    faults: Faults = field(default_factory=Faults, repr=False)
    ca_file: Path | None = None


@dataclass(frozen=True)
class TriggeredJob:
    """A job that has a trigger, a schedule or is continuous. `settings` is what jobs/get shows.

    `trigger_set_at` (epoch milliseconds) is when that was last set: created, changed or resumed. What came before it
    is the baseline, what comes after it is news. `trigger_revision` tells one setting of it from the next.
    """

    workspace: str
    workspace_id: str
    metastore: str
    job_id: int
    name: str
    settings: Mapping[str, Any]
    trigger_set_at: int
    trigger_revision: int


@dataclass(frozen=True)
class RunFinished:
    """A job run has reached a terminal state. `result_state` and `termination_code` are the API's words.

    `end_time` is epoch milliseconds. `job_id` is None for a run that was submitted without a job.
    """

    workspace: str
    workspace_id: str
    metastore: str
    job_id: int | None
    run_id: int
    trigger: str
    result_state: str | None
    termination_code: str
    end_time: int


class JobsPort(Protocol):
    """What the trigger scheduler may ask of the jobs. Plain calls on the event loop's thread; none of them blocks long."""

    def triggered_jobs(self) -> list[TriggeredJob]:
        """All jobs of all workspaces that something other than run-now may start, also those where it is paused, by job_id."""

    def trigger_state(self, job_id: int) -> dict[str, Any] | None:
        """What was last saved for this job, or None: never saved, or the job's trigger has been changed since.

        What is in it is private to the scheduler and to `server/jobs_wire.py`, which shows a part of it.
        """

    def save_trigger_state(self, job_id: int, revision: int, state: Mapping[str, Any]) -> bool:
        """Keep `state` (JSON) without starting anything; whether it was kept.

        It is not when the job is gone, or its trigger is no longer the `revision` that was looked at.
        """

    def fire(
        self,
        job_id: int,
        revision: int,
        *,
        trigger: str,
        context: Mapping[str, str],
        state: Mapping[str, Any],
        trigger_info: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Create a run of the job and keep `state`, both or neither, in one transaction; the run's id.

        `trigger` is the API's word: FILE_ARRIVAL, TABLE, PERIODIC, CONTINUOUS, JOB_COMPLETION ...
        `context` holds the values of `{{job.trigger.<key>}}` for each run of the job, keys without that prefix and
        without backticks: `type`, `file_arrival.location`, `table_update.updated_tables` (a JSON list as text),
        `table_update.main.silver.flights.version`, and for times all of
        `runs.references.time_values("table_update.main.silver.flights.commit_timestamp", epoch_ms)`.
        A run that finds no free slot is created too, as QUEUED or SKIPPED, as the job's queue says.
        None (and nothing is kept) when the job is gone, or its trigger is no longer `revision`: it has been changed,
        paused or taken away since it was looked at.
        """

    def active_runs(self, job_id: int) -> list[int]:
        """Run ids that are QUEUED, PENDING, RUNNING or TERMINATING, oldest first."""

    def on_run_finished(self, listener: Callable[[RunFinished], None]) -> None:
        """Call `listener`, on the event loop's thread, after each run of any job reaches a terminal state.

        A wake-up only, which a crash may lose; what has ended is read from `ended_runs`.
        """

    def ended_runs(self, job_ids: Collection[int], *, after: int, since: int) -> list[tuple[int, RunFinished]]:
        """The ends of runs of these jobs, each with its number, in the order in which they came.

        Those above the number `after` with an end time of at least `since` (epoch milliseconds). A run that was
        repaired has ended more than once. An end is kept in the transaction in which the run ends.
        """


class SharesPort(Protocol):
    """What the deployment asks of `shares.Shares`, which it constructs as `Shares(layout)`."""

    async def publish_for(self, metastore: str) -> None:
        """Publish what every share into this metastore lacks, unless its lag is held. Awaited before each notebook."""

    async def run_forever(self) -> None:
        """A loop of its own, should it need one; the deployment starts it and cancels it."""


# The deployment also constructs `TriggerScheduler(layout, jobs, now=..., sleep=..., time_scale=...)` from
# local/triggers/ and runs its `async run_forever()`: `layout: Layout, jobs: JobsPort, now: Clock,
# sleep: Callable[[float], Awaitable[None]], time_scale: float`.
# Timers of triggers are multiplied by `time_scale` in there and nowhere else.
