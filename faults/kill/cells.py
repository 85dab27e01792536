"""Which process dies before which step. Nothing heavy here: the DAG file imports it."""

from __future__ import annotations

from dataclasses import dataclass

PROCESSES = ("task", "worker", "triggerer", "scheduler", "workspace")
STEPS = ("look", "claim", "run", "noted", "wait", "prove", "commit", "end")
"""The consumer stands before this step when the process dies; before `end` it has committed and not yet said so."""
AROUND, AROUND_STEPS = "around", ("claim", "work", "commit", "end")
"""Around external work it is a task that dies: the one that claims, the work itself, or the one that commits."""
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
        return self.process not in ("task", "worker", AROUND)

    @property
    def around(self) -> bool:
        """Whether the work is no Databricks job."""
        return self.process == AROUND

    @property
    def task(self) -> str:
        """The task that dies, or is under way when another process does."""
        if not self.around:
            return "consume"
        return {"claim": f"claim_{self.name}", "work": "work"}.get(self.step, f"commit_{self.name}")

    @property
    def deferred(self) -> bool:
        """Whether it dies while the trigger waits, and no task process lives that could stop."""
        return self.process == "triggerer" and self.step == "wait"


CELLS = (
    *(Cell(process, step) for process in PROCESSES for step in STEPS),
    *(Cell(AROUND, step) for step in AROUND_STEPS),
)


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
                f"ONLY={word} names no cell; processes are {', '.join((*PROCESSES, AROUND))}, steps {', '.join((*STEPS, 'work'))}"
            )
        found += some
    return tuple(found)
