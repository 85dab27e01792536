"""What a run does next, decided from its tasks' settings and their latest attempts. Pure.

The same decision serves a run that has just started, one that goes on after a restart, and a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databricks_bridge.local.runs.model import FAILURES, Attempt, Outcome, Phase

FAILED_MESSAGE = "Workload failed, see run output for details."
"""What Databricks itself says of a failed notebook; the cause is in runs/get-output."""

Task = Mapping[str, Any]


@dataclass(frozen=True)
class Start:
    """Run this attempt now."""

    attempt: Attempt


@dataclass(frozen=True)
class Settle:
    """End this attempt without running it."""

    attempt: Attempt
    outcome: Outcome
    message: str


@dataclass(frozen=True)
class Conclude:
    """All tasks have ended; so does the run."""

    outcome: Outcome
    message: str


Act = Start | Settle | Conclude


def next_acts(tasks: Sequence[Task], latest: Mapping[str, Attempt]) -> list[Act]:
    """What can be done now. `latest` holds the newest attempt of each task; empty means: wait for a running one."""
    if all(latest[task["task_key"]].phase is Phase.DONE for task in tasks):
        return [conclude(tasks, latest)]
    acts: list[Act] = []
    for task in tasks:
        attempt = latest[task["task_key"]]
        if attempt.phase not in (Phase.PENDING, Phase.BLOCKED, Phase.WAITING_FOR_RETRY):
            continue
        upstream = [latest[key] for key in upstream_keys(task)]
        if any(other.phase is not Phase.DONE for other in upstream):
            continue
        outcomes = [other.outcome for other in upstream if other.outcome is not None]
        acts.append(_start_or_settle(task, attempt, outcomes))
    return acts


def upstream_keys(task: Task) -> list[str]:
    return [item["task_key"] for item in task.get("depends_on", ())]


def downstream_keys(tasks: Sequence[Task], keys: Iterable[str]) -> set[str]:
    """All tasks that depend on one of `keys`, directly or not, and `keys` themselves."""
    found = set(keys)
    while True:
        more = {task["task_key"] for task in tasks if found.intersection(upstream_keys(task))} - found
        if not more:
            return found
        found |= more


def retry_allowed(task: Task, outcome: Outcome, attempts_made: int) -> bool:
    """Whether a task that ended so is tried again; `attempts_made` are those of this round. -1 retries is no limit."""
    if outcome is Outcome.TIMEDOUT and not task.get("retry_on_timeout", False):
        return False
    if outcome not in (Outcome.FAILED, Outcome.BROKEN, Outcome.TIMEDOUT, Outcome.NO_NOTEBOOK):
        return False
    retries = int(task.get("max_retries", 0))
    return retries < 0 or attempts_made <= retries


def conclude(tasks: Sequence[Task], latest: Mapping[str, Attempt]) -> Conclude:
    """How a run ends whose tasks have all ended: by its leaf tasks, as the Jobs API says of SUCCESS_WITH_FAILURES."""
    needed = {key for task in tasks for key in upstream_keys(task)}
    leaves = [latest[task["task_key"]] for task in tasks if task["task_key"] not in needed]
    failed = [latest[task["task_key"]] for task in tasks if latest[task["task_key"]].outcome in FAILURES]
    causes = [attempt for attempt in failed if attempt.outcome is not Outcome.UPSTREAM_FAILED]
    message = " ".join(f"Task {cause.task_key} failed with message: {cause.message}" for cause in causes)
    if any(leaf.outcome in FAILURES for leaf in leaves):
        broken = bool(causes) and all(cause.outcome is Outcome.BROKEN for cause in causes)
        return Conclude(Outcome.BROKEN if broken else Outcome.FAILED, message)
    if any(leaf.outcome in (Outcome.CANCELED, Outcome.UPSTREAM_CANCELED) for leaf in leaves):
        return Conclude(Outcome.CANCELED, "Run cancelled.")
    return Conclude(Outcome.SUCCESS_WITH_FAILURES if failed else Outcome.SUCCESS, message)


def _start_or_settle(task: Task, attempt: Attempt, upstream: list[Outcome]) -> Start | Settle:
    condition = str(task.get("run_if", "ALL_SUCCESS"))
    if not upstream or RUN_IF[condition](upstream):
        return Start(attempt)
    if condition == "ALL_SUCCESS":
        if any(outcome in FAILURES for outcome in upstream):
            return Settle(attempt, Outcome.UPSTREAM_FAILED, "An upstream task failed.")
        if any(outcome in (Outcome.CANCELED, Outcome.UPSTREAM_CANCELED) for outcome in upstream):
            return Settle(attempt, Outcome.UPSTREAM_CANCELED, "An upstream task was canceled.")
    return Settle(attempt, Outcome.EXCLUDED, f"The condition run_if {condition} was not met.")


RUN_IF: Mapping[str, Callable[[list[Outcome]], bool]] = {
    "ALL_SUCCESS": lambda upstream: all(outcome is Outcome.SUCCESS for outcome in upstream),
    "AT_LEAST_ONE_SUCCESS": lambda upstream: any(outcome is Outcome.SUCCESS for outcome in upstream),
    "NONE_FAILED": lambda upstream: (
        not any(outcome in FAILURES for outcome in upstream)
        and any(outcome is not Outcome.EXCLUDED for outcome in upstream)
    ),
    "ALL_DONE": lambda upstream: True,
    "AT_LEAST_ONE_FAILED": lambda upstream: any(outcome in FAILURES for outcome in upstream),
    "ALL_FAILED": lambda upstream: all(outcome in FAILURES for outcome in upstream),
}
"""The values of `run_if` (Jobs API, RunIf), each a question about how the upstream tasks ended."""
