"""Stops a consumer between two steps of the protocol until it is told to go on: files in one folder, no clock.

`<cell>.armed` holds the step before which the consumer is to stop. Who comes there first takes the file, leaves its ids in
`<cell>.stopped`, and goes on when `<cell>.go` is there. Installed by the DAG file of the cells, and nowhere else.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from databricks_bridge.core import acts
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.feeds.driver import Driver

FOLDER = "BRIDGE_FAULTS_GATE"
"""The environment variable with the folder."""
LOOK_AGAIN_SECONDS = 0.05


def step_before(act: object) -> str | None:
    """The step that this act begins, None for acts within a step."""
    match act:
        case acts.Look():
            return "look"
        case acts.StartRun():
            return "run"
        case acts.AwaitRun():
            return "wait"
        case acts.Prove():
            return "prove"
        case acts.WriteRecord(record):
            if record.claim is None:
                return "commit" if record.history[-1].what.startswith("committed") else None
            if record.claim.status is not ClaimStatus.OPEN:
                return None
            return "claim" if record.claim.run_id is None else "noted"
    return None


def stop(cell: str, step: str, folder: Path) -> None:
    """Stand here, the whole process, when this is where the cell wants it."""
    armed, taken = folder / f"{cell}.armed", folder / f"{cell}.{os.getpid()}"
    if not armed.exists() or armed.read_text() != step:
        return
    armed.rename(taken)
    taken.write_text(json.dumps({"pid": os.getpid(), "parent": os.getppid()}))
    taken.rename(folder / f"{cell}.stopped")
    while not (folder / f"{cell}.go").exists():
        time.sleep(LOOK_AGAIN_SECONDS)


def install() -> None:
    """Make every driver of this process stop where it is wanted."""
    folder = Path(os.environ[FOLDER])
    act_on, drive = Driver._do, Driver.drive
    if getattr(act_on, "gated", False):
        return

    async def gated(self: Driver, act: acts.Act) -> acts.Observation:
        cell, step = self.plan.spec.name, step_before(act)
        if step is not None:
            stop(cell, step, folder)
        observation = await act_on(self, act)
        if step == "commit":
            stop(cell, "end", folder)
        return observation

    async def driven(self: Driver, **how: Any) -> Any:
        ended = await drive(self, **how)
        if isinstance(ended, acts.AwaitRun):
            stop(self.plan.spec.name, "wait", folder)
        return ended

    gated.gated = True  # type: ignore[attr-defined]
    Driver._do, Driver.drive = gated, driven  # type: ignore[method-assign]
