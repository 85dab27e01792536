"""What Airflow itself needs from a watcher's event to a task: a watcher that does nothing else, and a task that does nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseEventTrigger, TriggerEvent


class BareWatchTrigger(BaseEventTrigger):
    """Sends an event for each file `signal` in `folder`, which it takes away, and writes the time at which it does."""

    def __init__(self, *, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("benchmarks.bare_watch.BareWatchTrigger", {"folder": self.folder})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        signal = Path(self.folder) / "signal"
        while True:
            if signal.exists():  # a file of this machine
                signal.unlink()
                note(self.folder, "sent")
                yield TriggerEvent({})
            await asyncio.sleep(0.02)


class NoteOperator(BaseOperator):
    """Writes the time at which it is executed."""

    def __init__(self, *, folder: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder

    def execute(self, context: Any) -> None:
        note(self.folder, "executed")


def note(folder: str, what: str) -> None:
    """One more line with the time, in seconds of the wall clock, in the file of this name."""
    with (Path(folder) / what).open("a") as file:
        file.write(f"{time.time()}\n")


def noted(folder: Path, what: str) -> list[float]:
    """The times of this name, oldest first."""
    file = folder / what
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []
