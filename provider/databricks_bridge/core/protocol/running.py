"""The run of a claim: submit it or find it, adopt what it was given, wait for its end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from databricks_bridge.core import claims, parameters
from databricks_bridge.core.acts import (
    GetRun,
    Observation,
    RecordWritten,
    RunGone,
    RunSeen,
    RunStarted,
    TokenSpent,
    WriteRecord,
)
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import BadAnswer
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.parameter_names import RANGES, TOKEN
from databricks_bridge.core.positions import Range
from databricks_bridge.core.protocol.gone import deleted, not_shown
from databricks_bridge.core.protocol.verifying import judge, nothing_can_tell, other_parameters
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.core.steps import Continuation, Memory, State, Step, claim_of, expect


def _started(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    if isinstance(observation, TokenSpent):
        return deleted(memory, observation)
    return Memory(State.ADOPTED, memory.record), GetRun(expect(observation, RunStarted).run_id)


def _adopted(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    if isinstance(observation, RunGone):
        return not_shown(plan, memory, observation.run_id)
    return _adopt(memory, expect(observation, RunSeen), now)


def _adopt(memory: Memory, seen: RunSeen, now: datetime) -> Step:
    record, claim = claim_of(memory)
    if seen.parameters.get(TOKEN) != claim.token:
        raise BadAnswer(
            f"run {seen.run_id} of {claim.target} does not carry the token of its claim; the job must declare the "
            f"job parameters {TOKEN} and {RANGES}"
        )
    ranges = parameters.ranges_of(seen.parameters, {one.alias: one.name for one in claim.ranges})
    if _starts(ranges) != _starts(claim.ranges):
        raise BadAnswer(f"run {seen.run_id} of {claim.target} carries our token, but other ranges: {ranges}")
    record = claims.noted(record, seen.run_id, ranges, seen.parameters, now)
    return Memory(State.NOTED, record, seen), WriteRecord(record)


def _starts(ranges: tuple[Range, ...]) -> list[tuple[str, list[Any]]]:
    """What both racers must agree on: a position that was only found may be another for each."""
    return [(one.alias, one.from_.identity()) for one in ranges]


def _noted(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    expect(observation, RecordWritten)
    assert memory.seen is not None
    return judge(plan, memory, memory.seen, now)


def _judged(plan: Plan, memory: Memory, observation: Observation, now: datetime) -> Step:
    if isinstance(observation, RunGone):
        return not_shown(plan, memory, observation.run_id)
    seen = expect(observation, RunSeen)
    record, claim = claim_of(memory)
    if claim.status is ClaimStatus.UNDECIDED:
        return _reconsidered(memory, seen, now)
    if claim.missing is not None:
        record = claims.shown_again(record, seen.run_id, now)
        return Memory(State.NOTED, record, seen), WriteRecord(record)
    return judge(plan, memory, seen, now)


def _reconsidered(memory: Memory, seen: RunSeen, now: datetime) -> Step:
    """The run of an undecided claim, which is there after all, or was repaired: nothing has to be guessed any more."""
    record, claim = claim_of(memory)
    if claim.missing is not None:
        return _adopt(memory, seen, now)  # it may never have been noted
    if seen.outcome.ending is Ending.SUCCEEDED and other_parameters(claim, seen):
        raise nothing_can_tell(record, claim)
    record = claims.shown_again(record, seen.run_id, now)
    return Memory(State.NOTED, record, seen), WriteRecord(record)


STATES: Mapping[State, Continuation] = {
    State.STARTED: _started,
    State.ADOPTED: _adopted,
    State.NOTED: _noted,
    State.JUDGED: _judged,
}
