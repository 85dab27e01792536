"""The driver where something is not what it was: a lost ledger, a replaced table, a success without proof."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.errors import HistoryGap, LedgerLost, RunFailed
from databricks_bridge.core.policy import Choices
from databricks_bridge.core.record import Claim
from databricks_bridge.ledgers.memory import MemoryLedger
from tests.feeds.conftest import TABLE, Lab
from tests.feeds.test_driver import Mortal, bounds, finish, one_life, watermark


async def test_a_ledger_that_was_lost_is_no_first_start(lab: Lab) -> None:
    await finish(lab)
    lab.ledger = MemoryLedger()
    with pytest.raises(LedgerLost, match="no record of subscription 'delays'"):
        await finish(lab)
    assert await lab.ledger.read() is None
    assert len(await lab.runs()) == 1


async def test_the_runs_of_another_subscription_are_no_lost_ledger(lab: Lab) -> None:
    """Two names over one job: the second has a true first start."""
    await finish(lab)
    plan = await lab.plan()
    lab.ledger = MemoryLedger()
    await finish(lab, plan=replace(plan, spec=replace(plan.spec, name="others")))
    assert [run["bridge_subscription"] for run in lab.notebooks.runs] == ["delays", "others"]


async def test_the_runs_of_a_former_name_are_a_lost_ledger(lab: Lab) -> None:
    await finish(lab)
    plan = await lab.plan()
    lab.ledger = MemoryLedger()
    with pytest.raises(LedgerLost, match="databricks-bridge watermark rebuild renamed --job-id"):
        await finish(lab, plan=replace(plan, spec=replace(plan.spec, name="renamed", formerly=("delays",))))
    assert len(await lab.runs()) == 1


@pytest.mark.usefixtures("gone_at_once")
async def test_a_claim_on_a_table_that_was_replaced_is_void_before_a_run(lab: Lab) -> None:
    await one_life(lab, Mortal, 3)
    assert (await lab.record()).claim is not None
    folder = lab.deployment.layout.table_path("ops", TABLE) / "_delta_log"
    created = (folder / f"{0:020d}.json").read_text()
    (folder / f"{1:020d}.json").write_text(created.replace("-000000000001", "-000000000002"))
    await finish(lab)
    assert bounds(lab) == [("0", "1")]
    (given,) = lab.notebooks.runs
    assert json.loads(given["bridge_ranges"])[0]["metadata_id"] == "7e6cf1b4-0000-4000-8000-000000000002"
    history = [line.what for line in (await lab.record()).history]
    assert any(what.startswith("voided the claim on ops_share.silver.flights (-1, 0]") for what in history)


async def test_a_success_without_its_proof_fails_and_the_next_try_runs_again(lab: Lab) -> None:
    plan = await lab.plan(postcondition=True)
    asked: list[int] = []

    async def prove(claim: Claim, run_id: int) -> acts.Proved:
        asked.append(run_id)
        return acts.Proved(run_id != asked[0], "the checkpoint is at -1")

    with pytest.raises(RunFailed, match="its postcondition does not hold: the checkpoint is at -1"):
        await finish(lab, plan=plan, prove=prove)
    assert await watermark(lab) == -1
    done = await finish(lab, plan=plan, prove=prove)
    assert asked == [asked[0], asked[0], done.run_id]
    assert bounds(lab) == [("0", "0"), ("0", "0")]
    assert await watermark(lab) == 0


async def test_a_postcondition_that_nothing_answers_holds(lab: Lab) -> None:
    await finish(lab, plan=await lab.plan(postcondition=True))
    assert await watermark(lab) == 0


async def test_without_follow_a_wait_for_something_new_is_handed_back_with_what_it_looks_from(lab: Lab) -> None:
    await finish(lab)
    act = await (await lab.driver(plan=await lab.plan(wait=True))).drive(follow=False)
    assert isinstance(act, acts.Pause)
    assert (act.reason, act.looking) == ("nothing new in flights", await lab.record())


def log_of(lab: Lab) -> Path:
    return lab.deployment.layout.table_path("ops", TABLE) / "_delta_log"


def clean(lab: Lab) -> None:
    """What log retention leaves: a checkpoint of the newest version, and commits 0 and 1 gone."""
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(str(log_of(lab).parent)).create_checkpoint()
    for version in (0, 1):
        (log_of(lab) / f"{version:020d}.json").unlink()


def optimize(lab: Lab, version: int) -> None:
    (log_of(lab) / f"{version:020d}.json").write_text(json.dumps({"commitInfo": {"operation": "OPTIMIZE"}}) + "\n")


async def test_commits_without_data_are_committed_without_a_run(lab: Lab) -> None:
    await finish(lab)
    optimize(lab, 1)
    optimize(lab, 2)
    done = await finish(lab)
    said = "committed without a run: ops_share.silver.flights (0, 2], no data in it"
    assert (done.run_id, done.reason) == (None, f"recorded for delays, without a run: {said}")
    assert (await lab.record()).history[-1].what == said
    assert len(lab.notebooks.runs) == 1
    lab.commit(3)
    await finish(lab)
    assert bounds(lab) == [("0", "0"), ("3", "3")]


async def test_commits_without_data_that_were_cleaned_since_are_no_gap(lab: Lab) -> None:
    """What was passed over is not asked for again: the log may forget it."""
    await finish(lab)
    optimize(lab, 1)
    await finish(lab)
    lab.commit(2)
    clean(lab)
    async with lab.new_process():
        await finish(lab)
    assert bounds(lab) == [("0", "0"), ("2", "2")]


@pytest.mark.parametrize(
    ("choice", "then"), [("fail", []), ("full_rebuild", [("0", "3"), ("4", "4")]), ("adopt", [("4", "4")])]
)
async def test_a_log_that_was_cleaned_past_the_watermark_is_an_outcome_with_a_choice(
    lab: Lab, choice: str, then: list[tuple[str, str]]
) -> None:
    plan = await lab.plan()
    plan = replace(plan, spec=replace(plan.spec, choices=Choices(on_history_gap=choice)))  # type: ignore[arg-type]
    await finish(lab, plan=plan)
    for version in (1, 2, 3):
        lab.commit(version)
    clean(lab)
    if choice == "fail":
        async with lab.new_process():
            with pytest.raises(HistoryGap, match=r"commit 1 of main\.silver\.flights is not in the log"):
                await finish(lab, plan=plan)
        assert await watermark(lab) == 0
    else:
        async with lab.new_process():
            await finish(lab, plan=plan)
            lab.commit(4)
            await finish(lab, plan=plan)
        history = [line.what for line in (await lab.record()).history]
        assert any(what.startswith(f"{choice}: what is new in main.silver.flights after version 0") for what in history)
    assert bounds(lab)[1:] == then
    if choice == "full_rebuild":
        assert [run["bridge_full_rebuild"] for run in lab.notebooks.runs] == ['["flights"]', '["flights"]', "[]"]
