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
    memory: Memory = field(init=False)
    act: acts.Act = field(init=False)

    def __post_init__(self) -> None:
        self.memory, self.act = begin()

    def answer(self, observation: acts.Observation) -> Script:
        self.memory, self.act = step(self.plan, self.memory, observation, self.now)
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

    def fails(self, kind: type[A]) -> A:
        error = self.asks(acts.Fail).error
        assert isinstance(error, kind), repr(error)
        return error


def seen(run_id: int, state: dict[str, Any], claim: Claim, error: str = "", **parameters: str) -> acts.RunSeen:
    """A run as the workspace shows it, with the parameters of the claim."""
    return acts.RunSeen(run_id, outcome_of({"state": state}), dict(claim.parameters) | parameters, error)


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
