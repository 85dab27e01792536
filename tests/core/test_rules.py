"""Sentences of the ten rules that no other test would miss; `python -m mutations` breaks each of them once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from databricks_bridge.core import acts, claims
from databricks_bridge.core.cancelling import is_run_of
from databricks_bridge.core.errors import ClaimUndecided, InvalidArgument
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import FIRST_EPOCH, ClaimStatus, Target
from databricks_bridge.core.repair import rewound, set_forward
from databricks_bridge.feeds.driver import Driver
from databricks_bridge.feeds.look import Looker
from databricks_bridge.ledgers.memory import MemoryLedger
from tests.core.builders import NOW, TARGET, at, plan_of
from tests.core.driving import FAILED, Script, claim_of, claimed_record, running_record, seen, with_claim


def test_02_a_stored_token_is_sent_as_it_is_though_today_another_would_be_computed() -> None:
    record = with_claim(claimed_record(), token="f" * 64)
    started = Script().read(record).look().asks(acts.StartRun)
    assert started.claim == record.claim


class Workspace:
    """Takes down what is asked of it, and has these runs."""

    def __init__(self, *runs: dict[str, Any]) -> None:
        self.asked: dict[str, Any] = {}
        self.runs = runs

    async def list_runs(self, **asked: Any) -> AsyncIterator[dict[str, Any]]:
        self.asked = asked
        for run in self.runs:
            yield run

    async def run_now(self, job_id: int, **asked: Any) -> int:
        self.asked = {"job_id": job_id, **asked}
        return 11


def driver_of(workspace: Any) -> Driver:
    looker: Any = Looker
    return Driver(plan_of(), MemoryLedger(), looker, workspace)


async def test_01_a_run_is_found_by_the_token_among_its_job_parameters() -> None:
    claim = claim_of(claimed_record())
    others = [run_with(1, "0" * 64), {"run_id": 2, "idempotency_token": claim.token}, {"run_id": 3}]
    workspace: Any = Workspace(*others, run_with(4, claim.token))
    assert await driver_of(workspace).do(acts.FindRun(claim)) == acts.RunFound(4)
    assert workspace.asked["job_id"] == TARGET.job_id
    assert workspace.asked["start_time_from_ms"] < claim.created_at.timestamp() * 1000
    assert await driver_of(Workspace(*others)).do(acts.FindRun(claim)) == acts.RunFound(None)


def run_with(run_id: int, token: str) -> dict[str, Any]:
    return {"run_id": run_id, "job_parameters": [{"name": "bridge_token", "value": token}]}


def test_01_the_postcondition_is_asked_about_a_run_that_is_gone() -> None:
    record = running_record()
    plan = plan_of(postcondition=True)

    def asked() -> Script:
        script = Script(plan).read(record).gone()
        assert script.asks(acts.Prove).run_id == 11
        return script

    committed = asked().answer(acts.Proved(True)).read(record).written()
    assert (committed.claim, committed.watermarks["flights"]) == (None, at(5))
    unproved = asked().answer(acts.Proved(False, "it says 4")).written()
    assert claim_of(unproved).status is ClaimStatus.FAILED
    untold = asked().answer(acts.Proved(False, "it cannot be read", certain=False))
    assert claim_of(untold.written()).status is ClaimStatus.UNDECIDED
    untold.fails(ClaimUndecided)
    assert claim_of(Script().read(record).gone().written()).status is ClaimStatus.UNDECIDED


async def test_01_and_03_run_now_sends_the_claim_s_token_and_parameters_and_lets_it_queue() -> None:
    claim = claim_of(claimed_record())
    workspace: Any = Workspace()
    started = await driver_of(workspace).do(acts.StartRun(claim))
    assert started == acts.RunStarted(11)
    assert workspace.asked == {
        "job_id": TARGET.job_id,
        "job_parameters": dict(claim.parameters),
        "idempotency_token": claim.token,
        "queue": True,
    }


def test_01_a_claim_is_trusted_with_its_token_until_the_last_moment_of_20_hours() -> None:
    record = claimed_record()
    script = Script(now=claim_of(record).created_at + timedelta(hours=20, microseconds=-1))
    assert script.read(record).look().asks(acts.StartRun).claim == record.claim


def test_02_the_epoch_and_the_generation_of_the_record_travel_with_the_claim() -> None:
    started = replace(claimed_record(), claim=None, epoch="7b0e6a4e")
    claim = claim_of(Script().read(started).look().written())
    assert dict(claim.parameters)["bridge_epoch"] == "7b0e6a4e"
    failed = replace(started, claim=replace(claim, run_id=11, status=ClaimStatus.FAILED, failures=1))
    again = Script().read(failed).answer(seen(11, FAILED, claim)).written()
    assert dict(claim_of(again).parameters)["bridge_generation"] == "1"
    assert dict(claim_of(again).parameters)["bridge_epoch"] == "7b0e6a4e"


def test_04_the_first_epoch_is_0() -> None:
    assert FIRST_EPOCH == "0"
    assert dict(claim_of(claimed_record()).parameters)["bridge_epoch"] == "0"


def test_08_only_the_run_of_the_open_claim_is_ours() -> None:
    record = running_record(run_id=11)
    assert is_run_of(record, 11)
    assert not is_run_of(record, 12)
    assert not is_run_of(replace(record, claim=None), 11)


def test_09_the_consumer_is_host_and_job_or_the_dag_around_other_tasks() -> None:
    assert plan_of().consumer == "http://127.0.0.1:1 job 7"
    dag = Target("dag partner_file", "", 0)
    assert plan_of(target=dag, around=True).consumer == "dag partner_file"


def test_09_only_a_rewind_goes_back_and_the_history_says_so() -> None:
    record = replace(claimed_record(), claim=None, watermarks={"flights": at(5)})
    reason = Reason("ada", "a bug in the notebook")
    after = rewound(record, "flights", at(2), reason, NOW, "7b0e6a4e")
    assert after.history[-1].what == "rewound flights from version 5 to version 2 by ada: a bug in the notebook"
    assert after.watermarks["flights"] == TablePosition(2, "t1", "m1")
    with pytest.raises(InvalidArgument, match="not ahead"):
        set_forward(record, "flights", at(2), reason, NOW, "7b0e6a4e")
    claim = claim_of(claimed_record())
    behind = replace(claim, ranges=tuple(replace(one, from_=at(0), to=at(2)) for one in claim.ranges))
    assert claims.committed(record, behind, 11, NOW).watermarks == record.watermarks


async def test_10_a_run_that_names_the_subscription_shows_that_this_is_no_first_start() -> None:
    others = [run_with(1, "0" * 64), named(2, "another"), named(3, "delays_by_weather"), {"run_id": 4}]
    assert await driver_of(Workspace(*others)).do(acts.Survey()) == acts.Surveyed(None)
    assert await driver_of(Workspace(*others, named(5, "delays"))).do(acts.Survey()) == acts.Surveyed(5)


def named(run_id: int, subscription: str) -> dict[str, Any]:
    return {"run_id": run_id, "job_parameters": [{"name": "bridge_subscription", "value": subscription}]}
