"""Which process dies before which step. Nothing heavy here: the DAG file imports it."""

from __future__ import annotations

from dataclasses import dataclass

PROCESSES = ("task", "worker", "triggerer", "scheduler", "workspace")
STEPS = ("look", "claim", "run", "noted", "wait", "prove", "commit", "end")
"""The consumer stands before this step when the process dies; before `end` it has committed and not yet said so."""
RUN_IS_OVER = ("prove", "commit", "end")


@dataclass(frozen=True)
class Cell:
    """The process that dies, and the step before which the consumer then stands."""

    process: str
    step: str

    @property
    def name(self) -> str:
        return f"{self.process}_{self.step}"

    @property
    def table(self) -> str:
        return f"main.silver.{self.name}"

    @property
    def deferrable(self) -> bool:
        return self.process not in ("task", "worker")

    @property
    def deferred(self) -> bool:
        """Whether it dies while the trigger waits, and no task process lives that could stop."""
        return self.process == "triggerer" and self.step == "wait"


CELLS = tuple(Cell(process, step) for process in PROCESSES for step in STEPS)


def wanted(only: str) -> tuple[Cell, ...]:
    """The cells that `ONLY` names: "task:claim", "task" or ":claim", several with commas; all when it is empty."""
    if not only:
        return CELLS
    found = []
    for word in only.split(","):
        process, _, step = word.partition(":")
        some = [cell for cell in CELLS if process in ("", cell.process) and step in ("", cell.step)]
        if not some:
            raise SystemExit(
                f"ONLY={word} names no cell; processes are {', '.join(PROCESSES)}, steps {', '.join(STEPS)}"
            )
        found += some
    return tuple(found)
