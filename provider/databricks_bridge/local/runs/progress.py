"""How far the tasks of one run are, and what it does next. Pure.

The same serves a run that has just started, one that goes on after a restart, and a repair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from databricks_bridge.local.runs.model import Attempt, Phase
from databricks_bridge.local.runs.plan import Act, Task, act_for, conclude, downstream_of_each, upstream_keys

_WAITING = (Phase.PENDING, Phase.BLOCKED, Phase.WAITING_FOR_RETRY)


class Progress:
    """The newest attempt of each task of a run that is under way, and which tasks can go on.

    Read from the store once, and told of each change after it was written: were all tasks looked at after each of
    them, a run would cost the square of their number.
    """

    def __init__(self, tasks: Sequence[Task], attempts: Iterable[Attempt]) -> None:
        """`attempts` in the order in which they were made."""
        self._tasks = {task["task_key"]: task for task in tasks}
        self._place = {key: number for number, key in enumerate(self._tasks)}
        self._latest = {attempt.task_key: attempt for attempt in attempts}
        self._values = {key: attempt.task_values for key, attempt in self._latest.items() if attempt.task_values}
        self._below = downstream_of_each(tasks)
        self._open = {key for key in self._tasks if self._latest[key].phase is not Phase.DONE}
        self._awaited = {key: len(self._open.intersection(upstream_keys(task))) for key, task in self._tasks.items()}
        self._due = [key for key in self._tasks if not self._awaited[key] and self._latest[key].phase in _WAITING]

    def acts(self) -> list[Act]:
        """What can be done now and was not said before; empty means: wait for what is running."""
        if not self._open:
            return [conclude([*self._tasks.values()], self._latest)]
        due, self._due = sorted(self._due, key=self._place.__getitem__), []
        return [act_for(self._tasks[key], self._latest) for key in due]

    def take(self, attempt: Attempt) -> None:
        """A task has ended, or waits to be tried again: this is its newest attempt now."""
        key = attempt.task_key
        self._latest[key] = attempt
        self._values.pop(key, None)
        if attempt.task_values:
            self._values[key] = attempt.task_values
        if attempt.phase is not Phase.DONE:
            self._due.append(key)
            return
        self._open.discard(key)
        for below in self._below.get(key, ()):
            self._awaited[below] -= 1
            if not self._awaited[below]:
                self._due.append(below)

    def of(self, keys: Iterable[str]) -> list[tuple[Task, Attempt]]:
        """Those of these tasks that the run has, each with its newest attempt."""
        return [(self._tasks[key], self._latest[key]) for key in keys if key in self._tasks]

    def task_values(self) -> Mapping[str, Mapping[str, Any]]:
        """By task and name, what the tasks have set so far."""
        return dict(self._values)
