"""The try of an Airflow task that claims or commits: what a later try of the same task recognises its own work by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TaskTry:
    """One try of one task instance. `number` counts its tries from 1 on, `cleared` of them came before a person cleared it
    last (Airflow's `max_tries` minus the task's `retries`, 0 where nobody did).
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    number: int = 1
    cleared: int = 0

    @property
    def instance(self) -> tuple[str, str, str, int]:
        """The task instance, the same for all its tries."""
        return self.dag_id, self.run_id, self.task_id, self.map_index

    def retries(self, earlier: TaskTry) -> bool:
        """Whether this is the same try or a later one of the same task, which nobody has cleared in between."""
        return self.instance == earlier.instance and self.cleared < earlier.number <= self.number

    def to_json(self) -> list[Any]:
        return [*self.instance, self.number]


def task_try_from_json(value: Any) -> TaskTry | None:
    """Inverse of `to_json`; None for a record of before tries were kept."""
    return None if value is None else TaskTry(*value)
