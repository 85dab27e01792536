"""Every interleaving of one and two consumers; and the proof that the exploration can fail."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

import pytest

from databricks_bridge.core import claims
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.positions import Position, Range
from databricks_bridge.core.record import Claim, Record, Target, token_of
from tests.core.exploration import explore

Ranges: TypeAlias = tuple[Range, ...]

both_ledgers = pytest.mark.parametrize("compare_and_set", [True, False], ids=["compare-and-set", "upsert"])


@both_ledgers
@pytest.mark.parametrize("fault", ["crashes", "failures", "skips"])
def test_two_consumers_and_one_fault(fault: str, compare_and_set: bool) -> None:
    faults = {"crashes": 0, "failures": 0, "skips": 0} | {fault: 1}
    found = explore(consumers=2, last_version=1, compare_and_set=compare_and_set, **faults)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)
    assert found.states > 5_000


@both_ledgers
def test_one_consumer_and_many_faults(compare_and_set: bool) -> None:
    found = explore(consumers=1, last_version=1, crashes=2, failures=2, skips=1, compare_and_set=compare_and_set)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_one_consumer_is_blocked_and_never_stuck(compare_and_set: bool) -> None:
    found = explore(consumers=1, last_version=0, crashes=1, failures=4, skips=0, compare_and_set=compare_and_set)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


def test_it_fails_when_to_is_in_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with_to: dict[str, str] = {}
    real = claims._claim

    def claim(plan: Plan, epoch: str, ranges: Ranges, *rest: Any, **more: Any) -> Claim:
        with_to["to"] = str([one.to.identity() for one in ranges])
        return real(plan, epoch, ranges, *rest, **more)

    def token(subscription: str, target: Target, epoch: str, from_: Mapping[str, Position], generation: int) -> str:
        plain = token_of(subscription, target, epoch, from_, generation)
        return hashlib.sha256((plain + with_to["to"]).encode()).hexdigest()

    monkeypatch.setattr(claims, "_claim", claim)
    monkeypatch.setattr(claims, "token_of", token)
    found = explore(consumers=2, last_version=1, crashes=0, failures=0, skips=0, compare_and_set=False)
    assert found.violation == "two runs at work at once"
    assert {"P0 StartRun", "P1 StartRun"} <= set(found.path)


def test_it_fails_when_the_commit_comes_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    real = claims.claimed

    def claimed(
        plan: Plan, record: Record | None, marks: Mapping[str, Position], ranges: Ranges, now: datetime
    ) -> Record:
        return replace(real(plan, record, marks, ranges, now), watermarks={one.alias: one.to for one in ranges})

    monkeypatch.setattr(claims, "claimed", claimed)
    found = explore(consumers=1, last_version=0, crashes=0, failures=0, skips=0, compare_and_set=True)
    assert "ahead of what succeeded" in str(found.violation)
