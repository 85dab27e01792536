"""What the failed tasks of a run say: the newest attempt of each, and all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.texts import bounded

READER_BEHIND = "BridgeReaderBehind"
"""The exception by which a notebook says that its shared table does not have the version `end` yet."""

LONGEST_ERROR = 500
MOST_ERRORS = 10
"""Failed tasks whose errors are told; of more than that their count is told."""

_NOT_ITS_OWN = frozenset({"UPSTREAM_FAILED", "UPSTREAM_CANCELED", "EXCLUDED", "DISABLED"})

Task = Mapping[str, Any]


def newest_attempts(tasks: Iterable[Task]) -> list[Task]:
    """Of each task its newest attempt, in the order in which the tasks come.

    An answer of `runs/get` may list several attempts of a task: of its own retries, and of repairs.
    """
    newest: dict[str, Task] = {}
    for task in tasks:
        key = str(task.get("task_key") or task.get("run_id"))
        if key not in newest or not _is_newer(newest[key], task):
            newest[key] = task
    return list(newest.values())


def failed_tasks(run: Mapping[str, Any]) -> list[Task]:
    """The tasks whose newest attempt failed by itself: not those that an upstream task kept from running."""
    return [
        task
        for task in newest_attempts(run.get("tasks") or [])
        if (outcome := outcome_of(task)).ending is Ending.FAILED and outcome.result not in _NOT_ITS_OWN
    ]


def is_reader_behind(errors: Sequence[str]) -> bool:
    """Whether the run failed for nothing but a shared table that lags: every failed task says so."""
    return bool(errors) and all(READER_BEHIND in error for error in errors)


def told(errors: Sequence[tuple[str, str]]) -> str:
    """The errors of failed tasks, `(task key, error)`, as one text of a bounded length. One alone goes without its key."""
    texts = [(key, bounded(error, LONGEST_ERROR)) for key, error in errors if error]
    if len(texts) == 1:
        return texts[0][1]
    more = [f"{len(texts) - MOST_ERRORS} more failed"] if len(texts) > MOST_ERRORS else []
    return "; ".join([f"task {key}: {text}" for key, text in texts[:MOST_ERRORS]] + more)


def _is_newer(one: Task, other: Task) -> bool:
    """By their starts, for a repair may count its attempts from 0 again; where they do not tell, by the count."""
    starts = [int(task.get("start_time") or 0) for task in (one, other)]
    if all(starts) and starts[0] != starts[1]:
        return starts[0] > starts[1]
    return int(one.get("attempt_number") or 0) > int(other.get("attempt_number") or 0)
