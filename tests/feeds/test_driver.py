"""The driver against a real local deployment: the whole protocol, and every process death in it."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import ClaimUndecided, InvalidArgument, RunFailed, Unavailable
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.feeds.driver import Driver
from databricks_bridge.ledgers.memory import MemoryLedger
from tests.feeds.conftest import Lab, failure

BEHIND = "BridgeReaderBehind: ops_share.silver.flights is at 0, the claim needs 1"


async def watermark(lab: Lab) -> int:
    mark = (await lab.record()).watermarks["flights"]
    assert isinstance(mark, TablePosition)
    return mark.version


async def finish(lab: Lab, **changes: Any) -> acts.Finish:
    done = await (await lab.driver(**changes)).drive()
    assert isinstance(done, acts.Finish)
    return done


def bounds(lab: Lab) -> list[tuple[str, str]]:
    return [(run["flights_start"], run["flights_end"]) for run in lab.notebooks.runs]


async def test_from_the_first_commit_to_the_watermark(lab: Lab) -> None:
    lab.commit(1)
    shown: list[int] = []
    done = await finish(lab, on_run=lambda run: shown.append(run["run_id"]))
    (run,) = await lab.runs()
    (given,) = lab.notebooks.runs
    assert (done.run_id, set(shown)) == (run["run_id"], {run["run_id"]})
    assert outcome_of(run).ending is Ending.SUCCEEDED
    assert (given["flights_table"], given["flights_start"], given["flights_end"]) == (
        "ops_share.silver.flights",
        "0",
        "1",
    )
    assert (given["region"], given["bridge_subscription"]) == ("NY", "delays")
    record = await lab.record()
    assert record.claim is None
    mark = record.watermarks["flights"]
    assert isinstance(mark, TablePosition)
    assert (mark.version, mark.metadata_id) == (1, "7e6cf1b4-0000-4000-8000-000000000001")
    assert mark.table_id


async def test_what_comes_later_is_the_next_range_and_nothing_new_is_no_run(lab: Lab) -> None:
    await finish(lab)
    assert (await finish(lab)).ranges == ()
    lab.commit(1)
    lab.commit(2)
    await finish(lab)
    assert bounds(lab) == [("0", "0"), ("1", "2")]
    assert len(await lab.runs()) == 2


async def test_a_first_start_at_latest_runs_nothing_that_was_there(lab: Lab) -> None:
    plan = await lab.plan(start="latest")
    assert (await finish(lab, plan=plan)).run_id is None
    lab.commit(1)
    await finish(lab, plan=plan)
    assert bounds(lab) == [("1", "1")]


class Death(Exception):
    """The process is gone."""


@dataclass
class Mortal(Driver):
    """Dies right after the act of the given number is done: its observation reaches nobody."""

    left: int = 10**6
    done: int = 0

    async def _do(self, act: acts.Act) -> acts.Observation:
        observation = await super()._do(act)
        self.done += 1
        if self.done > self.left:
            raise Death
        return observation


@dataclass
class StillBorn(Mortal):
    """Dies right before that act."""

    async def _do(self, act: acts.Act) -> acts.Observation:
        if self.done >= self.left:
            raise Death
        self.done += 1
        return await Driver._do(self, act)


async def one_life(lab: Lab, kind: type[Mortal], left: int) -> bool:
    """Whether the process lived to its end."""
    driver = await lab.driver(kind=kind, left=left)
    try:
        await driver.drive()
    except Death:
        return False
    except RunFailed:
        return True
    return True


@pytest.mark.parametrize("kind", [Mortal, StillBorn])
async def test_whatever_act_a_process_dies_at_each_range_has_one_run(lab: Lab, kind: type[Mortal]) -> None:
    """For each act there is a range of its own: claimed, died upon at that act, and taken up by a process anew."""
    version = 0
    for left in range(30):
        lived = await one_life(lab, kind, left)
        if not lived:
            await finish(lab)
        assert await watermark(lab) == version
        runs = await lab.runs()
        assert [outcome_of(run).ending for run in runs] == [Ending.SUCCEEDED] * (version + 1)
        if lived:
            break
        version += 1
        lab.commit(version)
    else:
        pytest.fail("30 acts for one range")
    assert left >= 7
    assert bounds(lab) == [(str(n), str(n)) for n in range(version + 1)]


async def test_dying_again_and_again_still_makes_one_run(lab: Lab) -> None:
    for left in range(13):
        await one_life(lab, Mortal, left)
    await finish(lab)
    assert len(await lab.runs()) == 1
    assert await watermark(lab) == 0


@pytest.mark.parametrize("left", range(1, 10))
async def test_a_failed_run_and_a_death_cost_one_generation_and_no_more(lab: Lab, left: int) -> None:
    lab.notebooks.answers = [failure("ValueError: bad row")]
    await one_life(lab, Mortal, left)
    for _ in range(2):
        try:
            await finish(lab)
            break
        except RunFailed:
            pass
    assert await watermark(lab) == 0
    assert [outcome_of(run).ending for run in await lab.runs()] == [Ending.SUCCEEDED, Ending.FAILED]


async def test_the_error_of_the_notebook_is_told(lab: Lab) -> None:
    lab.notebooks.answers = [failure("ValueError: bad row")]
    with pytest.raises(RunFailed, match="ValueError: bad row") as failed:
        await finish(lab)
    (run,) = await lab.runs()
    assert failed.value.run_id == run["run_id"]


async def test_a_reader_behind_is_tried_again_and_does_not_count(lab: Lab) -> None:
    lab.notebooks.answers = [failure(BEHIND)] * 4
    await finish(lab)
    assert len(lab.notebooks.runs) == 5
    assert {run["flights_end"] for run in lab.notebooks.runs} == {"0"}
    assert [run["bridge_generation"] for run in lab.notebooks.runs] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("upstream_first", [True, False])
async def test_a_reader_behind_in_a_job_of_several_tasks_is_found_whatever_the_order(
    lab: Lab, upstream_first: bool
) -> None:
    """The tasks of a run come in no promised order; those that failed only after it have no error of their own."""
    plan = await lab.plan()
    tasks = [
        {"task_key": "a_last", "depends_on": [{"task_key": "b_read"}], "notebook_task": {"notebook_path": "/gold"}},
        {"task_key": "b_read", "notebook_task": {"notebook_path": "/gold"}},
    ]
    settings = {"job_id": lab.job_id, "new_settings": {"tasks": tasks}, "fields_to_remove": ["tasks/main"]}
    await lab.analytics.post("/api/2.2/jobs/update", settings, safe=True)
    lab.notebooks.answers = [failure(BEHIND)]

    class Ordered(Flaky):
        async def get_run(self, run_id: int) -> Any:
            run = await self._real.get_run(run_id)
            return run | {"tasks": sorted(run["tasks"], key=lambda task: task["task_key"], reverse=upstream_first)}

    driver = await lab.driver(plan=plan)
    driver.target = Ordered(lab.analytics, [])  # type: ignore[assignment]
    await driver.drive()
    assert await watermark(lab) == 0
    assert [run["bridge_generation"] for run in lab.notebooks.runs] == ["0", "1", "1"]


async def test_a_reader_behind_pauses_before_the_next_generation(lab: Lab) -> None:
    lab.notebooks.answers = [failure(BEHIND)]
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    plan = await lab.plan(pause=timedelta(seconds=30))
    driver = await lab.driver(plan=plan, sleep=sleep)
    frozen = driver.now()
    driver.now = lambda: frozen + timedelta(seconds=sum(one for one in slept if one > 1))
    await driver.drive()
    assert [one for one in slept if one > 1] == [pytest.approx(30)]


async def both_have_read(lab: Lab) -> tuple[MemoryLedger, MemoryLedger]:
    """Two ledgers with one record: what two racers have read before either wrote (an upsert without compare-and-set)."""
    record = await lab.record()
    ledgers = []
    for _ in range(2):
        ledger = MemoryLedger()
        ledger._stored = json.dumps(record.to_json())
        ledgers.append(ledger)
    return ledgers[0], ledgers[1]


async def test_two_racers_with_one_from_share_the_run_of_the_first(lab: Lab) -> None:
    """The second sees one commit more."""
    await finish(lab)
    first, second = await both_have_read(lab)
    lab.commit(1)
    lab.ledger = first
    await one_life(lab, Mortal, 4)
    assert len(await lab.runs()) == 2
    lab.commit(2)
    lab.ledger = second
    done = await finish(lab)
    assert [one.to.version for one in done.ranges if isinstance(one.to, TablePosition)] == [1]
    lab.ledger = first
    assert (await finish(lab)).ranges[0].to == done.ranges[0].to
    assert len(await lab.runs()) == 2
    await finish(lab)
    assert bounds(lab) == [("0", "0"), ("1", "1"), ("2", "2")]


@pytest.mark.usefixtures("gone_at_once")
async def test_a_run_that_was_deleted_leaves_the_claim_undecided(lab: Lab) -> None:
    await one_life(lab, Mortal, 7)
    claim = (await lab.record()).claim
    assert claim is not None
    assert claim.run_id is not None
    await lab.analytics.post("/api/2.2/jobs/runs/delete", {"run_id": claim.run_id}, safe=True)
    for _ in range(2):
        with pytest.raises(ClaimUndecided, match=str(claim.run_id)):
            await finish(lab)
    left = (await lab.record()).claim
    assert left is not None
    assert left.status is ClaimStatus.UNDECIDED
    assert len(lab.notebooks.runs) == 1


async def test_an_old_claim_searches_its_run_before_it_starts_one(lab: Lab) -> None:
    await one_life(lab, Mortal, 4)
    assert len(await lab.runs()) == 1
    driver = await lab.driver()
    real = driver.now
    driver.now = lambda: real() + timedelta(days=2)
    done = await driver.drive()
    assert isinstance(done, acts.Finish)
    assert len(await lab.runs()) == 1


async def test_a_job_that_does_not_declare_what_is_sent_is_refused_before_a_claim(lab: Lab) -> None:
    lab.job_id = await lab.create_job("bare", ["bridge_token", "flights_start"])
    with pytest.raises(
        InvalidArgument, match=r"job 'bare' in .* does not declare the job parameters .*flights_end.*region"
    ):
        await finish(lab)
    assert await lab.ledger.read() is None
    assert await lab.runs() == []


async def test_without_follow_an_active_run_is_handed_back_and_found_again(lab: Lab) -> None:
    plan = await lab.plan()
    hold = await lab.analytics.post("/local/holds", {"job_name": "gold", "at": "after_start"}, safe=False)
    act = await (await lab.driver(plan=plan)).drive(follow=False)
    assert isinstance(act, acts.AwaitRun)
    again = await (await lab.driver(plan=plan)).drive(follow=False)
    assert again == act
    await lab.analytics._transport.call("DELETE", f"/local/holds/{hold['hold_id']}")
    assert (await finish(lab, plan=plan)).run_id == act.run_id


class Flaky:
    """The real client, whose runs/get answers what the script says first: an error, or a state over the real one."""

    def __init__(self, real: Any, script: list[Exception | str]) -> None:
        self._real, self._script = real, script

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def get_run(self, run_id: int) -> Any:
        run = await self._real.get_run(run_id)
        if not self._script:
            return run
        now = self._script.pop(0)
        if isinstance(now, Exception):
            raise now
        return {**run, "state": {"life_cycle_state": now}, "status": {"state": now}}


async def flaky(
    lab: Lab, script: list[Exception | str], plan: Plan | None = None
) -> acts.Finish | acts.AwaitRun | acts.Pause:
    driver = await lab.driver(plan=plan)
    driver.target = Flaky(lab.analytics, script)  # type: ignore[assignment]
    return await driver.drive()


async def test_A05_a_wait_outlives_what_is_unavailable(lab: Lab) -> None:
    trouble: list[Exception | str] = ["RUNNING", *(Unavailable(f"502 number {n}") for n in range(10))]
    done = await flaky(lab, trouble)
    assert isinstance(done, acts.Finish)
    assert len(await lab.runs()) == 1


async def test_A03_every_waiting_state_and_a_new_one_are_waited_for_and_warned_of_once(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    states = [
        "PENDING",
        "QUEUED",
        "BLOCKED",
        "WAITING_FOR_RETRY",
        "FUTURE_STATE",
        "FUTURE_STATE",
        "RUNNING",
        "FUTURE_STATE",
    ]
    with caplog.at_level(logging.WARNING, "databricks_bridge.feeds.driver"):
        done = await flaky(lab, list(states))
    assert isinstance(done, acts.Finish)
    assert [record.getMessage() for record in caplog.records if "new to us" in record.getMessage()] == [
        f"run {done.run_id} is in a state new to us (FUTURE_STATE); waiting on"
    ]
    assert len(await lab.runs()) == 1


async def test_what_is_unavailable_before_the_wait_ends_the_process_and_loses_nothing(lab: Lab) -> None:
    with pytest.raises(Unavailable):
        await flaky(lab, [Unavailable("no answer")])
    await finish(lab)
    assert len(await lab.runs()) == 1


async def test_a_run_without_an_error_to_read_is_told_all_the_same(lab: Lab) -> None:
    lab.notebooks.answers = [failure("ValueError: bad row")]
    driver = await lab.driver()

    class NoOutput(Flaky):
        async def get_run_output(self, task_run_id: int) -> Any:
            raise Unavailable("no answer")

    driver.target = NoOutput(lab.analytics, [])  # type: ignore[assignment]
    with pytest.raises(RunFailed):
        await driver.drive()
