"""The life of a run as data: phases, which may follow which, outcomes, and the values that are kept.

A *run* is a job run; an *attempt* is one try of one of its tasks, with a run id of its own. All times are epoch
milliseconds. How a phase and an outcome look on the wire is in `server/runs_wire.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """Where a run or an attempt is. BLOCKED and WAITING_FOR_RETRY are of attempts only."""

    QUEUED = "QUEUED"
    PENDING = "PENDING"
    BLOCKED = "BLOCKED"
    WAITING_FOR_RETRY = "WAITING_FOR_RETRY"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    DONE = "DONE"


class Outcome(StrEnum):
    """How a run or an attempt ended."""

    SUCCESS = "SUCCESS"
    SUCCESS_WITH_FAILURES = "SUCCESS_WITH_FAILURES"
    FAILED = "FAILED"
    BROKEN = "BROKEN"
    """The local workspace's own fault: it was restarted, or the engine broke."""
    NO_NOTEBOOK = "NO_NOTEBOOK"
    CANCELED = "CANCELED"
    TIMEDOUT = "TIMEDOUT"
    UPSTREAM_FAILED = "UPSTREAM_FAILED"
    UPSTREAM_CANCELED = "UPSTREAM_CANCELED"
    EXCLUDED = "EXCLUDED"
    DISABLED = "DISABLED"
    """Of a task that its settings disable, or that cannot run since one above it is disabled."""
    NO_SLOT = "NO_SLOT"
    """max_concurrent_runs was reached and the job has no queue, or the queue's time was over."""


WAITING_PHASES = frozenset({Phase.QUEUED, Phase.PENDING, Phase.BLOCKED, Phase.WAITING_FOR_RETRY})
SLOT_PHASES = frozenset({Phase.PENDING, Phase.RUNNING, Phase.TERMINATING})
"""Run phases that count against max_concurrent_runs."""

FAILURES = frozenset({Outcome.FAILED, Outcome.BROKEN, Outcome.NO_NOTEBOOK, Outcome.TIMEDOUT, Outcome.UPSTREAM_FAILED})

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.QUEUED: frozenset({Phase.PENDING, Phase.BLOCKED, Phase.DONE}),
    Phase.BLOCKED: frozenset({Phase.PENDING, Phase.RUNNING, Phase.DONE}),
    Phase.WAITING_FOR_RETRY: frozenset({Phase.RUNNING, Phase.DONE}),
    Phase.PENDING: frozenset({Phase.RUNNING, Phase.TERMINATING, Phase.DONE}),
    Phase.RUNNING: frozenset({Phase.TERMINATING, Phase.DONE}),
    Phase.TERMINATING: frozenset({Phase.DONE}),
    Phase.DONE: frozenset({Phase.PENDING, Phase.QUEUED}),
}
"""Which phase may follow which. A run leaves DONE only by a repair."""


class IllegalTransition(Exception):
    """A bug in this package: a run was asked to go where its phase does not lead."""


def step(before: Phase, after: Phase) -> Phase:
    """`after`, if it may follow `before`. Raises IllegalTransition."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(f"{before} is not followed by {after}")
    return after


@dataclass(frozen=True)
class Repair:
    """One repair of a run. `end_time` is 0 while it is going on."""

    repair_id: int
    start_time: int
    end_time: int = 0
    outcome: Outcome | None = None
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A job run, or a run that was submitted without a job (`job_id` is None).

    `settings` is the job's at the start. `round` is 0, and one more for each repair. `original_*` hold how round 0
    ended, once it has. `start_time` is when the run was created; `slot_at` when a queued run got a slot, else 0.
    """

    run_id: int
    workspace: str
    job_id: int | None
    run_type: str
    name: str
    creator: str
    trigger: str
    settings: Mapping[str, Any]
    start_time: int
    phase: Phase
    trigger_info: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)
    parameters: tuple[Mapping[str, str], ...] = ()
    notebook_params: Mapping[str, str] = field(default_factory=dict)
    python_params: tuple[str, ...] = ()
    slot_at: int = 0
    began_at: int = 0
    end_time: int = 0
    outcome: Outcome | None = None
    message: str = ""
    round: int = 0
    repairs: tuple[Repair, ...] = ()
    original_end_time: int = 0
    original_outcome: Outcome | None = None
    original_message: str = ""

    def moved(self, phase: Phase, **changes: Any) -> Run:
        """The same run one phase on. Raises IllegalTransition."""
        return replace(self, phase=step(self.phase, phase), **changes)

    def ended(self, outcome: Outcome, message: str, at: int) -> Run:
        run = self.moved(Phase.DONE, outcome=outcome, message=message, end_time=at)
        if not run.repairs:
            return replace(run, original_outcome=outcome, original_message=message, original_end_time=at)
        last = replace(run.repairs[-1], outcome=outcome, message=message, end_time=at)
        return replace(run, repairs=(*run.repairs[:-1], last))


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try of one task. `number` counts over retries and repairs, from 0. `not_before` is when a retry may start.

    `resolved` is `resolved_values` of the API, `task_values` what the notebook set, `cells` where in its log the output
    of each cell begins and ends. `output` is what a SQL task gave. `condition` is what a condition task came to, `child_run_id` the run that a run job
    task started. An iteration of a for each task has the task run id of that as `parent`, its number and its `input`
    as JSON. `original` is the first try's run id, 0 for the first.
    """

    run_id: int
    job_run_id: int
    task_key: str
    number: int
    round: int
    phase: Phase
    not_before: int = 0
    start_time: int = 0
    end_time: int = 0
    outcome: Outcome | None = None
    message: str = ""
    error: str | None = None
    error_trace: str | None = None
    exit_value: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    base_parameters: Mapping[str, str] = field(default_factory=dict)
    resolved: Mapping[str, Any] = field(default_factory=dict)
    task_values: Mapping[str, Any] = field(default_factory=dict)
    cells: tuple[Sequence[int], ...] = ()
    output: Mapping[str, Any] = field(default_factory=dict)
    condition: str | None = None
    original: int = 0
    child_run_id: int = 0
    parent: int = 0
    iteration: int | None = None
    input: str | None = None

    def moved(self, phase: Phase, **changes: Any) -> Attempt:
        """The same attempt one phase on. Raises IllegalTransition."""
        return replace(self, phase=step(self.phase, phase), **changes)

    def ended(self, outcome: Outcome, message: str, at: int, **changes: Any) -> Attempt:
        return self.moved(
            Phase.DONE, outcome=outcome, message=message, start_time=self.start_time or at, end_time=at, **changes
        )
