"""The protocol as a pure step function: poll, evaluate, claim, submit, wait, verify, commit.

`begin()` gives the first act; each observation of an act goes into `step()`, which gives the next. Nothing is done
here and nothing is remembered outside `Memory`, so every process can start again from the record: whatever it holds
is resolved first. The drivers (sync or async, worker or test) only do acts and report what they saw.

Each state that waits for an observation is a function in one of the modules here; their tables say which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from databricks_bridge.core import around
from databricks_bridge.core.acts import Fail, Observation, RecordLost
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import BridgeError
from databricks_bridge.core.protocol import gone, opening, running, verifying
from databricks_bridge.core.steps import Continuation, Memory, State, Step, begin

__all__ = ["begin", "step"]

_STATES: Mapping[State, Continuation] = {**opening.STATES, **running.STATES, **gone.STATES, **verifying.STATES}


def step(
    plan: Plan, memory: Memory, observation: Observation, now: datetime, service_now: datetime | None = None
) -> Step:
    """The next act. A lost write starts again from the record as it is now; our own errors become a Fail.

    :param now: the time by the clock of this process, for timers.
    :param service_now: the time by the clock of the target workspace, None while it is not known. Ages of claims and
        of runs are judged by it, for the clocks of two workers may differ by hours.
    """
    if isinstance(observation, RecordLost):
        return around.begin_commit(memory.why) if memory.then is around.committed else begin()
    memory = replace(memory, service_now=service_now)
    then = _STATES[memory.then] if isinstance(memory.then, State) else memory.then
    try:
        return then(plan, memory, observation, now)
    except BridgeError as error:
        return memory, Fail(error)
