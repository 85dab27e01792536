"""What a run's JSON says about the run: one table, for every wait.

Facts: Jobs API 2.2 `RunState` and `RunStatus`. A plain task failure ends a run as `INTERNAL_ERROR` + `FAILED`, so
the life cycle alone says nothing about whose fault it was. `state` is deprecated in favour of `status`; answers
carry both, either is enough here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from databricks_bridge.core.sources import RESULT_STATES


class Ending(StrEnum):
    """How far a run has come, as far as a claim is concerned."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOTHING_RAN = "nothing_ran"


_TERMINAL = frozenset({"TERMINATED", "SKIPPED", "INTERNAL_ERROR"})
_ACTIVE = frozenset({"BLOCKED", "PENDING", "QUEUED", "RUNNING", "TERMINATING", "WAITING", "WAITING_FOR_RETRY"})
_NOTHING_RAN = frozenset(
    {"MAXIMUM_CONCURRENT_RUNS_REACHED", "MAX_CONCURRENT_RUNS_EXCEEDED", "MAX_JOB_QUEUE_SIZE_EXCEEDED", "SKIPPED"}
)


_RESULT_OF_CODE = {
    "USER_CANCELED": "CANCELED",
    "MAX_CONCURRENT_RUNS_EXCEEDED": "MAXIMUM_CONCURRENT_RUNS_REACHED",
}
"""`termination_details.code` where the same run has another word for it in `state.result_state`."""


@dataclass(frozen=True)
class Outcome:
    """A run's ending with the words that the API used for it. `known` is False for a life cycle that is new to us."""

    ending: Ending
    life_cycle: str
    result: str
    message: str
    known: bool = True

    @property
    def result_state(self) -> str:
        """`result` as `state.result_state` has it, also of an answer that has only `status`: what a wait names."""
        result = _RESULT_OF_CODE.get(self.result, self.result)
        return "FAILED" if self.ending is Ending.FAILED and result not in RESULT_STATES else result

    def __str__(self) -> str:
        words = "/".join(word for word in (self.life_cycle, self.result) if word)
        return f"{words}: {self.message}" if self.message else words


def outcome_of(run: Mapping[str, Any]) -> Outcome:
    """Read the outcome from an answer of `runs/get` or `runs/list`.

    An unknown life cycle is ACTIVE with `known=False`: a wait goes on and warns. Where `state` and `status` disagree,
    the run is not over, or is no success. `SUCCESS_WITH_FAILURES` is no success: some task did not write what it should.
    A run that was skipped or found the job at its limit of concurrent runs is NOTHING_RAN.
    """
    state = run.get("state") or {}
    status = run.get("status") or {}
    details = status.get("termination_details") or {}
    life_cycle = state.get("life_cycle_state") or status.get("state") or ""
    result = state.get("result_state") or (details.get("code") if life_cycle in _TERMINAL else None) or ""
    message = state.get("state_message") or details.get("message") or ""
    if life_cycle in _TERMINAL and (status.get("state") or "TERMINATED") != "TERMINATED":
        life_cycle, result = status["state"], ""
    if life_cycle not in _TERMINAL:
        return Outcome(Ending.ACTIVE, life_cycle or "(no state)", result, message, known=life_cycle in _ACTIVE)
    words = {result, details.get("code") or result}
    if life_cycle == "SKIPPED" or words & _NOTHING_RAN:
        ending = Ending.NOTHING_RAN
    elif words == {"SUCCESS"}:
        ending = Ending.SUCCEEDED
    else:
        ending = Ending.FAILED
    return Outcome(ending, life_cycle, result, message)


def ended_at(run: Mapping[str, Any]) -> int:
    """When a run that is over ended, epoch milliseconds; one that does not say it ended no earlier than it began."""
    return int(run.get("end_time") or run["start_time"])
