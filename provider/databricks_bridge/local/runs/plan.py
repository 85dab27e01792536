"""What becomes of a task, a run, a retry: decided from the tasks' settings and their latest attempts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databricks_bridge.local.runs.model import FAILURES, Attempt, Outcome, Run
from databricks_bridge.local.runs.starts import starts

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


def act_for(task: Task, latest: Mapping[str, Attempt]) -> Start | Settle:
    """What becomes of a task that waits, once all that it depends on has ended. `latest` holds each newest attempt."""
    outcomes = [outcome for outcome in _outcomes(task, latest) if outcome is not None]
    return _start_or_settle(task, latest[task["task_key"]], outcomes)


def task_of(run: Run, attempt: Attempt) -> Task:
    """The task that this is an attempt of; for an iteration the nested one."""
    tasks: Iterable[Task] = run.settings["tasks"]
    if attempt.parent:
        tasks = (task["for_each_task"]["task"] for task in tasks if "for_each_task" in task)
    return next(task for task in tasks if task["task_key"] == attempt.task_key)


def upstream_keys(task: Task) -> list[str]:
    return [item["task_key"] for item in task.get("depends_on", ())]


def downstream_keys(tasks: Sequence[Task], keys: Iterable[str]) -> set[str]:
    """All tasks that depend on one of `keys`, directly or not, and `keys` themselves."""
    below = downstream_of_each(tasks)
    found = set(keys)
    waiting = list(found)
    while waiting:
        more = [key for key in below.get(waiting.pop(), ()) if key not in found]
        found.update(more)
        waiting += more
    return found


def downstream_of_each(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """By a task's key, the tasks that depend on it directly."""
    below: dict[str, list[str]] = {}
    for task in tasks:
        for key in dict.fromkeys(upstream_keys(task)):
            below.setdefault(key, []).append(task["task_key"])
    return below


def retry_allowed(task: Task, outcome: Outcome, attempts_made: int) -> bool:
    """Whether a task that ended so is tried again; `attempts_made` are those of this round. -1 retries is no limit."""
    if outcome is Outcome.TIMEDOUT and not task.get("retry_on_timeout", False):
        return False
    if outcome not in (Outcome.FAILED, Outcome.BROKEN, Outcome.TIMEDOUT, Outcome.NO_NOTEBOOK):
        return False
    retries = int(task.get("max_retries", 0))
    return retries < 0 or attempts_made <= retries


CONTINUOUS_RETRIES = 3
FIRST_CONTINUOUS_PAUSE_MS = 60_000
"""Of a continuous job with task_retry_mode ON_FAILURE: the pause before the first retry, doubled with each. The number
of retries is documented, their pauses are not."""


def retry_pause(run: Run, task: Task, outcome: Outcome, attempts_made: int) -> int | None:
    """Milliseconds before the task is tried again, not scaled; None when it is not."""
    if retry_allowed(task, outcome, attempts_made):
        return int(task.get("min_retry_interval_millis", 0))
    continuous: Mapping[str, Any] = next(
        (start["continuous"] for start in starts(run.settings) if start.get("continuous")), {}
    )
    if (
        run.trigger == "CONTINUOUS"
        and continuous.get("task_retry_mode") == "ON_FAILURE"
        and attempts_made <= CONTINUOUS_RETRIES
        and retry_allowed({"max_retries": -1, "retry_on_timeout": True}, outcome, attempts_made)
    ):
        return int(FIRST_CONTINUOUS_PAUSE_MS * 2 ** (attempts_made - 1))
    return None


def only_tasks(tasks: Sequence[Task], only: Sequence[str]) -> list[Task]:
    """The tasks that run-now's `only` names: `task`, `+task` with all that it depends on, `task+` with all that depends
    on it. What they depend on outside of these is left out. Raises KeyError for a task that is not there.
    """
    present = {task["task_key"]: task for task in tasks}
    wanted: set[str] = set()
    for name in only:
        key = name.strip("+")
        if key not in present:
            raise KeyError(key)
        wanted.add(key)
        if name.startswith("+"):
            wanted |= _upstream_of(present, key)
        if name.endswith("+"):
            wanted |= downstream_keys(tasks, [key])
    chosen = [task for task in tasks if task["task_key"] in wanted]
    return [
        {**task, "depends_on": kept} if (kept := _within(task, wanted)) else _without(task, "depends_on")
        for task in chosen
    ]


def _upstream_of(tasks: Mapping[str, Task], key: str) -> set[str]:
    found: set[str] = set()
    waiting = [key]
    while waiting:
        for upstream in upstream_keys(tasks[waiting.pop()]):
            if upstream not in found:
                found.add(upstream)
                waiting.append(upstream)
    return found


def _within(task: Task, keys: set[str]) -> list[Any]:
    return [item for item in task.get("depends_on", ()) if item["task_key"] in keys]


def _without(task: Task, name: str) -> Task:
    return {key: value for key, value in task.items() if key != name}


def _outcomes(task: Task, latest: Mapping[str, Attempt]) -> list[Outcome | None]:
    """How the upstream tasks ended, as this one sees them: the branch of a condition that it is not on is excluded."""
    outcomes = []
    for item in task.get("depends_on", ()):
        upstream = latest[item["task_key"]]
        other_branch = (
            "outcome" in item and upstream.outcome is Outcome.SUCCESS and upstream.condition != item["outcome"]
        )
        outcomes.append(Outcome.EXCLUDED if other_branch else upstream.outcome)
    return outcomes


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
    if task.get("disabled"):
        return Settle(attempt, Outcome.DISABLED, "The task is disabled.")
    condition = str(task.get("run_if", "ALL_SUCCESS"))
    if not upstream or RUN_IF[condition](upstream):
        return Start(attempt)
    if Outcome.DISABLED in upstream and (condition.startswith("ALL") or set(upstream) == {Outcome.DISABLED}):
        # Known before the run starts, whatever becomes of the other tasks above it ("Disabled tasks in Lakeflow Jobs").
        return Settle(attempt, Outcome.DISABLED, f"A task above is disabled, so that run_if {condition} cannot be met.")
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
        # With a disabled task beside it, a skipped one is enough ("Disabled tasks in Lakeflow Jobs").
        and (
            not {*upstream} <= {Outcome.EXCLUDED, Outcome.DISABLED}
            or {*upstream} == {Outcome.EXCLUDED, Outcome.DISABLED}
        )
    ),
    "ALL_DONE": lambda upstream: True,
    "AT_LEAST_ONE_FAILED": lambda upstream: any(outcome in FAILURES for outcome in upstream),
    "ALL_FAILED": lambda upstream: all(outcome in FAILURES for outcome in upstream),
}
"""The values of `run_if` (Jobs API, RunIf), each a question about how the upstream tasks ended."""
