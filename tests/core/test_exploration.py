"""Every interleaving of one and two consumers; and the proof that the exploration can fail."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pytest

from databricks_bridge.core import claims
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.pending import Settled
from databricks_bridge.core.positions import Position, Range, TablePosition
from databricks_bridge.core.record import Claim, Record, Target, token_of
from tests.core.exploration_world import EARLIEST, LATEST, Keep, plan_on
from tests.core.exploring import explore

Ranges: TypeAlias = tuple[Range, ...]

both_ledgers = pytest.mark.parametrize("keep", [Keep.COMPARE_AND_SET, Keep.UPSERT])


@both_ledgers
@pytest.mark.parametrize("fault", ["crashes", "failures", "skips"])
def test_two_consumers_and_one_fault(fault: str, keep: Keep) -> None:
    faults: dict[str, Any] = {fault: 1}
    found = explore(consumers=2, last=(1,), keep=keep, **faults)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)
    assert found.states > 5_000


@both_ledgers
def test_one_consumer_and_many_faults(keep: Keep) -> None:
    found = explore(consumers=1, last=(1,), crashes=2, failures=2, skips=1, keep=keep)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_one_consumer_is_blocked_and_never_stuck(keep: Keep) -> None:
    found = explore(consumers=1, last=(0,), crashes=1, failures=4, keep=keep)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_two_consumers_and_a_success_that_did_not_do_its_work(keep: Keep) -> None:
    """The run ended well, its postcondition does not hold: the range is run again, and only then committed."""
    plan = plan_on(postcondition=True)
    found = explore(plan=plan, consumers=2, last=(0,), keep=keep, hollows=1)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_one_consumer_that_proves_and_many_faults(keep: Keep) -> None:
    plan = plan_on(postcondition=True)
    found = explore(plan=plan, consumers=1, last=(1,), keep=keep, crashes=1, failures=1, hollows=2)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


def test_two_consumers_at_a_first_start_at_latest_beside_a_source_that_has_data() -> None:
    """The other ledgers are in `python -m faults.explore`."""
    plan = plan_on(EARLIEST, LATEST)
    found = explore(plan=plan, consumers=2, first=(0, 0), last=(0, 1), keep=Keep.COMPARE_AND_SET, crashes=1)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_a_source_that_one_of_two_consumers_cannot_poll(keep: Keep) -> None:
    """At its first start too: whoever polls it and whoever does not come to one token."""
    found = explore(plan=plan_on(EARLIEST, LATEST), consumers=2, first=(0, 0), last=(0, 1), keep=keep, outages=1)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_a_racer_whose_start_at_latest_was_found_later_takes_nothing_away(keep: Keep) -> None:
    plan = plan_on(EARLIEST, LATEST)
    found = explore(plan=plan, consumers=2, first=(0, 0), last=(0, 2), keep=keep)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


def test_it_fails_when_what_was_found_counts_as_processed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TablePosition, "merged", lambda ours, other: other if other.version > ours.version else ours)
    found = explore(plan=plan_on(EARLIEST, LATEST), consumers=2, first=(0, 0), last=(0, 2), keep=Keep.UPSERT)
    assert found.violation == "two runs at work at once"


def test_two_consumers_and_an_upsert_that_is_checked_just_before() -> None:
    found = explore(consumers=2, last=(0,), keep=Keep.CHECKED, failures=1)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_one_consumer_at_a_first_start_at_latest_and_many_faults(keep: Keep) -> None:
    plan = plan_on(EARLIEST, LATEST)
    found = explore(plan=plan, consumers=1, last=(0, 1), keep=keep, crashes=1, failures=1)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_two_consumers_and_a_commit_without_data_between(keep: Keep) -> None:
    found = explore(consumers=2, last=(2,), first=(0,), keep=keep, crashes=1, without_data=frozenset({1}))
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
def test_one_consumer_commits_without_data_and_many_faults(keep: Keep) -> None:
    found = explore(
        consumers=1, last=(3,), first=(0,), keep=keep, crashes=2, failures=1, without_data=frozenset({1, 3})
    )
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


def test_it_fails_when_what_was_passed_over_is_in_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TablePosition, "identity", lambda mark: [mark.table_id, mark.metadata_id, mark.at])
    found = explore(consumers=2, last=(2,), first=(0,), keep=Keep.UPSERT, crashes=1, without_data=frozenset({1}))
    assert found.violation == "two runs at work at once"


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
    found = explore(consumers=2, last=(1,), keep=Keep.UPSERT)
    assert found.violation == "two runs at work at once"
    assert {"P0 StartRun", "P1 StartRun"} <= set(found.path)


def test_it_fails_when_the_commit_comes_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    real = claims.claimed

    def claimed(
        plan: Plan, record: Record | None, settled: Settled, ranges: Ranges, now: datetime, service: datetime | None
    ) -> Record:
        return replace(
            real(plan, record, settled, ranges, now, service), watermarks={one.alias: one.to for one in ranges}
        )

    monkeypatch.setattr(claims, "claimed", claimed)
    found = explore(consumers=1, last=(0,), keep=Keep.COMPARE_AND_SET)
    assert "ahead of what succeeded" in str(found.violation)


@both_ledgers
@pytest.mark.parametrize("postcondition", [False, True])
def test_two_consumers_and_a_workspace_that_does_not_show_a_run_for_minutes(keep: Keep, postcondition: bool) -> None:
    found = explore(plan=plan_on(postcondition=postcondition), consumers=2, last=(0,), keep=keep, hides=2)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


@both_ledgers
@pytest.mark.parametrize("faults", [{"deletes": 1, "failures": 1}, {"days": 1}, {"days": 1, "hides": 1}])
def test_one_consumer_that_dies_and_runs_that_are_deleted_or_tokens_forgotten(
    keep: Keep, faults: dict[str, int]
) -> None:
    for postcondition in (False, True):
        plan = plan_on(postcondition=postcondition)
        found = explore(plan=plan, consumers=1, last=(0,), keep=keep, crashes=2, **faults)
        assert found.violation is None, "\n".join(found.path)
        assert found.stuck == 0, "\n".join(found.stuck_path)


def test_it_fails_when_a_run_is_gone_at_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databricks_bridge.core.protocol.gone.still_missing", lambda memory, run_id, now: None)
    found = explore(plan=plan_on(postcondition=True), consumers=1, last=(0,), keep=Keep.COMPARE_AND_SET, hides=4)
    assert found.violation is not None


def test_it_fails_when_a_forgotten_token_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databricks_bridge.core.protocol.opening.TOKEN_TRUSTED", timedelta(days=9))
    found = explore(consumers=1, last=(0,), keep=Keep.COMPARE_AND_SET, crashes=2, days=1)
    assert found.violation is not None


def test_it_fails_when_a_late_listing_is_believed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databricks_bridge.core.protocol.opening.still_missing", lambda memory, run_id, now: None)
    found = explore(consumers=1, last=(0,), keep=Keep.COMPARE_AND_SET, crashes=2, days=1, hides=1)
    assert found.violation is not None


@pytest.mark.parametrize(
    ("keep", "consumers", "faults"),
    [
        (Keep.COMPARE_AND_SET, 2, {}),
        (Keep.COMPARE_AND_SET, 1, {"failures": 1}),
        (Keep.CHECKED, 1, {"failures": 1}),
        (Keep.UPSERT, 1, {"failures": 1}),
    ],
)
def test_a_try_that_is_lost_after_its_commit_and_another_consumer_that_goes_on(
    keep: Keep, consumers: int, faults: dict[str, int]
) -> None:
    """Without compare-and-set a racer may write over what was committed: there one consumer is explored."""
    found = explore(consumers=consumers, last=(1,), keep=keep, crashes=1, tries=True, **faults)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


def test_it_fails_when_a_try_after_a_commit_finds_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databricks_bridge.core.protocol.opening.untold_commit", lambda record, task: None)
    monkeypatch.setattr("databricks_bridge.core.protocol.opening.commit_of", lambda record, task: None)
    found = explore(consumers=1, last=(0,), keep=Keep.COMPARE_AND_SET, crashes=1, tries=True)
    assert "and tells Airflow of (None, ())" in str(found.violation)
    assert "P0 dies before Finish" in found.path


def test_it_fails_when_any_task_gets_the_newest_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "databricks_bridge.core.protocol.opening.untold_commit",
        lambda record, task: record.commits[-1] if record.commits else None,
    )
    found = explore(consumers=2, last=(0,), keep=Keep.COMPARE_AND_SET, tries=True)
    assert "which it never committed" in str(found.violation)


@both_ledgers
def test_a_person_who_repairs_the_run_while_the_sensor_waits(keep: Keep) -> None:
    found = explore(consumers=1, last=(0,), keep=keep, crashes=1, failures=4, repairs=1, sensor=True)
    assert found.violation is None, "\n".join(found.path)
    assert found.stuck == 0, "\n".join(found.stuck_path)


def test_it_fails_when_the_sensor_does_not_look_at_the_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databricks_bridge.core.waiting.REPAIRED", ())
    found = explore(consumers=1, last=(0,), keep=Keep.COMPARE_AND_SET, failures=3, repairs=1, sensor=True)
    assert found.stuck > 0
    assert any("is repaired" in one for one in found.stuck_path)
