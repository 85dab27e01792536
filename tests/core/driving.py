"""Drives the step function by a script: what each act is answered with is written in the test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.outcomes import outcome_of
from databricks_bridge.core.pending import Finding, TableFinding
from databricks_bridge.core.protocol import begin, step
from databricks_bridge.core.record import Claim, ClaimStatus, Record
from databricks_bridge.core.run_errors import is_reader_behind
from databricks_bridge.core.steps import Memory
from tests.core.builders import NOW, WEATHER, at, plan_of

A = TypeVar("A")

OK = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}
FAILED = {"life_cycle_state": "INTERNAL_ERROR", "result_state": "FAILED", "state_message": "boom"}
SKIPPED = {"life_cycle_state": "SKIPPED", "state_message": "too many"}
RUNNING = {"life_cycle_state": "RUNNING"}
TERMINATING = {"life_cycle_state": "TERMINATING", "result_state": "SUCCESS"}
NEW_FLIGHTS = {"flights": TableFinding(at(5), 5, NOW)}


@dataclass
class Script:
    """One process: `act` is what it asks for now; `answer` gives it an observation."""

    plan: Plan = field(default_factory=plan_of)
    now: datetime = NOW
    service_now: datetime | None = None
    memory: Memory = field(init=False)
    act: acts.Act = field(init=False)

    def __post_init__(self) -> None:
        self.memory, self.act = begin()

    def answer(self, observation: acts.Observation) -> Script:
        self.memory, self.act = step(self.plan, self.memory, observation, self.now, self.service_now)
        return self

    def asks(self, kind: type[A]) -> A:
        assert isinstance(self.act, kind), f"asked for {self.act}"
        return self.act

    def written(self) -> Record:
        """Take the write that is asked for; the record that is durable then."""
        record = self.asks(acts.WriteRecord).record
        self.answer(acts.RecordWritten())
        return record

    def read(self, record: Record | None) -> Script:
        self.asks(acts.ReadRecord)
        return self.answer(acts.RecordRead(record))

    def survey(self, run_id: int | None = None) -> Script:
        self.asks(acts.Survey)
        return self.answer(acts.Surveyed(run_id))

    def first_start(self) -> Script:
        """No record, and no run that names the subscription."""
        return self.read(None).survey()

    def look(self, findings: dict[str, Finding] | None = None) -> Script:
        self.asks(acts.Look)
        return self.answer(acts.Looked(NEW_FLIGHTS if findings is None else findings))

    def gone(self, run_id: int = 11, findings: dict[str, Finding] | None = None) -> Script:
        """Neither `runs/get` nor `runs/list` shows the run, now and some minutes later."""
        self.answer(acts.RunGone(run_id))
        assert self.asks(acts.FindRun).run_id == run_id
        self.answer(acts.RunFound(None))
        record = self.written() if isinstance(self.act, acts.WriteRecord) else self.memory.record
        assert record is not None
        self.later(record, findings)
        if isinstance(self.act, acts.StartRun):
            self.answer(acts.RunStarted(run_id))
        if isinstance(self.act, acts.FindRun):
            self.answer(acts.RunFound(run_id))
        return self.answer(acts.RunGone(run_id)).answer(acts.RunFound(None))

    def absent(self, findings: dict[str, Finding] | None = None) -> Script:
        """No run with the claim's token is listed, now and some minutes later."""
        self.asks(acts.FindRun)
        self.later(self.answer(acts.RunFound(None)).written(), findings)
        return self.answer(acts.RunFound(None))

    def later(self, record: Record, findings: dict[str, Finding] | None = None) -> Script:
        """The pause is over, and the record is read, and the sources where that is asked for."""
        self.now = self.asks(acts.Pause).until
        self.answer(acts.Woke()).read(record)
        return self.look(findings) if isinstance(self.act, acts.Look) else self

    def fails(self, kind: type[A]) -> A:
        error = self.asks(acts.Fail).error
        assert isinstance(error, kind), repr(error)
        return error


def seen(run_id: int, state: dict[str, Any], claim: Claim, error: str = "", **parameters: str) -> acts.RunSeen:
    """A run as the workspace shows it, with the parameters of the claim."""
    outcome = outcome_of({"state": state})
    return acts.RunSeen(run_id, outcome, dict(claim.parameters) | parameters, error, is_reader_behind([error]))


def claimed_record(plan: Plan | None = None, findings: dict[str, Finding] | None = None) -> Record:
    """A record whose first claim is written, its run not started."""
    return Script(plan or plan_of()).first_start().look(findings).written()


def with_claim(record: Record, **changes: Any) -> Record:
    assert record.claim is not None
    return replace(record, claim=replace(record.claim, **changes))


def claim_of(record: Record | None) -> Claim:
    assert record is not None
    assert record.claim is not None
    return record.claim


def running_record(status: ClaimStatus = ClaimStatus.OPEN, failures: int = 0, run_id: int = 11) -> Record:
    """A record whose claim has a run."""
    return with_claim(claimed_record(), run_id=run_id, status=status, failures=failures)


TWO = (plan_of().spec.sources[0], WEATHER)
