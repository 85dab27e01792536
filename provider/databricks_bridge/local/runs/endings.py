"""How the API names each outcome, of a job run and of a task run.

Sources: Jobs API, RunLifeCycleState, RunResultState, TerminationCode; a failed task gives its job run INTERNAL_ERROR
and FAILED, as recorded from a real workspace by the Databricks CLI's acceptance tests (job_runs/failed_run).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from databricks_bridge.local.runs.model import Outcome


@dataclass(frozen=True)
class Ending:
    """The API's words for a terminal state; `code` and `type` are those of termination_details."""

    life_cycle_state: str
    result_state: str
    code: str
    type: str


JOB_ENDINGS: Mapping[Outcome, Ending] = {
    Outcome.SUCCESS: Ending("TERMINATED", "SUCCESS", "SUCCESS", "SUCCESS"),
    Outcome.SUCCESS_WITH_FAILURES: Ending("TERMINATED", "SUCCESS_WITH_FAILURES", "SUCCESS_WITH_FAILURES", "SUCCESS"),
    Outcome.FAILED: Ending("INTERNAL_ERROR", "FAILED", "RUN_EXECUTION_ERROR", "CLIENT_ERROR"),
    Outcome.NO_NOTEBOOK: Ending("INTERNAL_ERROR", "FAILED", "RESOURCE_NOT_FOUND", "CLIENT_ERROR"),
    Outcome.BROKEN: Ending("INTERNAL_ERROR", "FAILED", "INTERNAL_ERROR", "INTERNAL_ERROR"),
    Outcome.CANCELED: Ending("TERMINATED", "CANCELED", "USER_CANCELED", "CLIENT_ERROR"),
    # "CANCELED: by the platform; for example, if the maximum run duration was exceeded" (TerminationCode).
    Outcome.TIMEDOUT: Ending("TERMINATED", "TIMEDOUT", "CANCELED", "CLIENT_ERROR"),
    # "SKIPPED: never executed, for example, if the upstream task run failed" (TerminationCode).
    Outcome.UPSTREAM_FAILED: Ending("TERMINATED", "UPSTREAM_FAILED", "SKIPPED", "CLIENT_ERROR"),
    Outcome.UPSTREAM_CANCELED: Ending("TERMINATED", "UPSTREAM_CANCELED", "SKIPPED", "CLIENT_ERROR"),
    Outcome.EXCLUDED: Ending("TERMINATED", "EXCLUDED", "SKIPPED", "SUCCESS"),
    Outcome.DISABLED: Ending("TERMINATED", "DISABLED", "DISABLED", "SUCCESS"),
    Outcome.NO_SLOT: Ending(
        "SKIPPED", "MAXIMUM_CONCURRENT_RUNS_REACHED", "MAX_CONCURRENT_RUNS_EXCEEDED", "CLIENT_ERROR"
    ),
}

TASK_ENDINGS: Mapping[Outcome, Ending] = {
    **JOB_ENDINGS,
    Outcome.FAILED: replace(JOB_ENDINGS[Outcome.FAILED], life_cycle_state="TERMINATED"),
    Outcome.NO_NOTEBOOK: replace(JOB_ENDINGS[Outcome.NO_NOTEBOOK], life_cycle_state="INTERNAL_ERROR"),
}
