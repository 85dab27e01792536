"""A backfill by the operator: explicit ranges, one run for them, and nothing of the subscription's own is moved."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge import DeltaTable, Subscription, TriggeredRuns
from databricks_bridge.core.errors import (
    BadAnswer,
    ClaimUndecided,
    ConsumerMismatch,
    InvalidArgument,
    LedgerError,
    RunFailed,
)
from databricks_bridge.core.parameters import of_run
from tests.local.local_kit import failure
from tests.operators.conftest import DELAYS, Bench

RANGE = {"flights": (0, 2)}


@pytest.fixture
def long(bench: Bench) -> Bench:
    """A table with the versions 0 to 3."""
    for _ in range(3):
        bench.commit()
    return bench


def fails_once(bench: Bench, error: str = "ValueError: bad row") -> None:
    answers = [failure(error)]
    ok = failure("").__class__(succeeded=True, exit_value=None, error=None, error_trace=None)
    bench.notebooks.functions["gold"] = lambda run: answers.pop() if answers else ok


def test_explicit_ranges_are_given_to_one_run_and_the_watermark_stays(long: Bench) -> None:
    long.run()
    before = long.store.rows.copy()
    value = long.run(long.operator(range=RANGE))
    assert long.bounds() == [(-1, 3), (0, 2)]
    assert value["run_id"] == long.runs()[1]["run_id"]
    assert (value["ranges"][0]["from"]["version"], value["ranges"][0]["to"]["version"]) == (0, 2)
    assert long.store.rows == before


def test_it_needs_no_record_and_is_no_sign_of_a_lost_one(long: Bench) -> None:
    long.run(long.operator(range=RANGE))
    assert long.store.rows == {}
    assert long.run()["ranges"][0]["to"]["version"] == 3
    assert long.bounds() == [(0, 2), (-1, 3)]


def test_it_goes_past_an_open_claim_and_leaves_it_alone(long: Bench) -> None:
    fails_once(long)
    with pytest.raises(RunFailed):
        long.run()
    before = long.store.rows.copy()
    long.run(long.operator(range=RANGE))
    assert long.store.rows == before
    long.run(try_number=2)
    assert long.bounds() == [(-1, 3), (0, 2), (-1, 3)]
    assert long.watermark() == 3


def test_a_retry_after_success_or_a_clear_finds_the_same_run(long: Bench) -> None:
    first = long.run(long.operator(range=RANGE))
    again = long.run(long.operator(range=RANGE), try_number=4)
    assert again == first
    assert len(long.runs()) == 1


def test_another_dag_run_task_or_map_index_gets_a_run_of_its_own(long: Bench) -> None:
    given = {"range": RANGE}
    for ti in ({}, {"run_id": "manual__2"}, {"map_index": 0}, {"map_index": 1}, {"dag_id": "other"}):
        long.run(long.operator(**given), **ti)
    assert len({of_run(run)["bridge_token"] for run in long.runs()}) == 5
    assert long.bounds() == [(0, 2)] * 5


def test_A02_a_retry_after_a_crash_re_attaches(long: Bench) -> None:
    long.notebooks.block("gold")
    with pytest.raises(TaskDeferred) as deferred:
        long.run(long.operator(range=RANGE, deferrable=True))
    awaited = deferred.value.trigger.serialize()[1]["run_id"]
    with pytest.raises(TaskDeferred) as again:
        long.run(long.operator(range=RANGE, deferrable=True), try_number=2)
    assert again.value.trigger.serialize()[1]["run_id"] == awaited
    long.notebooks.unblock("gold")
    long.api.ended(awaited)
    assert long.run(long.operator(range=RANGE), try_number=3)["run_id"] == awaited
    assert len(long.runs()) == 1


def test_a_run_that_failed_fails_the_try_and_the_next_one_starts_another(long: Bench) -> None:
    fails_once(long)
    with pytest.raises(RunFailed, match=r"\(0, 2\].*bad row.*the next try starts another run"):
        long.run(long.operator(range=RANGE))
    long.run(long.operator(range=RANGE), try_number=2)
    assert [of_run(run)["bridge_generation"] for run in long.runs()] == ["0", "1"]
    assert long.bounds() == [(0, 2)] * 2


def test_a_run_that_a_person_repaired_is_found(long: Bench) -> None:
    fails_once(long)
    with pytest.raises(RunFailed) as failed:
        long.run(long.operator(range=RANGE))
    long.api.post("runs/repair", run_id=failed.value.run_id, rerun_all_failed_tasks=True)
    assert long.run(long.operator(range=RANGE), try_number=2)["run_id"] == failed.value.run_id
    assert len(long.runs()) == 1


def test_a_deferred_try_reports_the_run_that_it_waited_for(long: Bench) -> None:
    fails_once(long)
    task = long.operator(range=RANGE, deferrable=True)
    long.notebooks.block("gold")
    with pytest.raises(TaskDeferred) as deferred:
        long.run(task, run_id="manual__1")
    run_id = deferred.value.trigger.serialize()[1]["run_id"]
    long.notebooks.unblock("gold")
    long.api.ended(run_id)
    event = {"status": "ready", "run_id": run_id, "deadline": "2100-01-01T00:00:00+00:00"}
    with pytest.raises(RunFailed, match=str(run_id)):
        task.execute_complete(long.context(task, run_id="manual__1"), event)
    assert len(long.runs()) == 1


def test_a_run_of_someone_else_in_the_event_is_not_believed(long: Bench) -> None:
    long.run()
    task = long.operator(range=RANGE, deferrable=True)
    event = {"status": "ready", "run_id": long.runs()[0]["run_id"], "deadline": "2100-01-01T00:00:00+00:00"}
    with pytest.raises(BadAnswer, match="does not carry the token of this backfill"):
        task.execute_complete(long.context(task), event)


@pytest.mark.usefixtures("gone_at_once")
def test_a_run_that_is_gone_is_undecided(long: Bench) -> None:
    value = long.run(long.operator(range=RANGE))
    long.api.post("runs/delete", run_id=value["run_id"])
    task = long.operator(range=RANGE, deferrable=True)
    event = {"status": "ready", "run_id": value["run_id"], "deadline": "2100-01-01T00:00:00+00:00"}
    with pytest.raises(ClaimUndecided, match=f"run {value['run_id']}"):
        task.execute_complete(long.context(task), event)


@pytest.mark.usefixtures("gone_at_once")
def test_a_run_that_is_gone_is_proved_by_a_postcondition_that_holds(long: Bench) -> None:
    value = long.run(long.operator(range=RANGE))
    long.api.post("runs/delete", run_id=value["run_id"])
    asked: list[str] = []

    def yes(ranges: Any, run_id: int) -> bool:
        asked.append(str(ranges[0]))
        return True

    task = long.operator(range=RANGE, deferrable=True, postcondition=yes)
    event = {"status": "ready", "run_id": value["run_id"], "deadline": "2100-01-01T00:00:00+00:00"}
    assert "as its postcondition proves" in task.execute_complete(long.context(task), event)["reason"]
    assert asked == ["main.silver.flights (0, 2]"]


def test_a_reader_that_is_behind_is_held_for_and_counts_as_nothing(long: Bench) -> None:
    fails_once(long, "BridgeReaderBehind: ops_share.silver.flights is at 0, the claim needs 2")
    task = long.operator(range=RANGE, deferrable=True)
    long.notebooks.block("gold")
    with pytest.raises(TaskDeferred) as deferred:
        long.run(task, run_id="manual__1")
    run_id = deferred.value.trigger.serialize()[1]["run_id"]
    long.notebooks.unblock("gold")
    long.api.ended(run_id)
    event = {"status": "ready", "run_id": run_id, "deadline": "2100-01-01T00:00:00+00:00"}
    with pytest.raises(TaskDeferred) as paused:
        task.execute_complete(long.context(task, run_id="manual__1"), event)
    assert paused.value.trigger.serialize()[0].endswith("PauseTrigger")
    woken = {"status": "ready", "until": "x", "deadline": "2100-01-01T00:00:00+00:00"}
    try:
        task.execute_complete(long.context(task, run_id="manual__1"), woken)
    except TaskDeferred as following:
        long.api.ended(following.trigger.serialize()[1]["run_id"])
    assert [of_run(run)["bridge_generation"] for run in long.runs()] == ["0", "1"]


def test_the_postcondition_is_asked_for_a_backfill_too(long: Bench) -> None:
    asked: list[Any] = []

    def no(ranges: Any, run_id: int) -> str:
        asked.append((str(ranges[0]), run_id))
        return "nothing was written"

    with pytest.raises(RunFailed, match="nothing was written"):
        long.run(long.operator(range=RANGE, postcondition=no))
    assert asked == [("main.silver.flights (0, 2]", long.runs()[0]["run_id"])]


def test_versions_that_are_not_there_start_nothing(long: Bench) -> None:
    with pytest.raises(InvalidArgument, match=r"ends at 9, but main\.silver\.flights has 3"):
        long.run(long.operator(range={"flights": (3, 9)}))
    assert long.runs() == []


def test_another_job_of_the_same_subscription_is_refused(long: Bench) -> None:
    long.run()
    other = long.api.post("create", name="other", tasks=[], parameters=[])["job_id"]
    with pytest.raises(ConsumerMismatch, match="belongs to"):
        long.run(long.operator(range=RANGE, job_name=None, job_id=str(other)))


def test_a_backfill_dag_run_without_range_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match=r"this is a backfill.*range=\{alias: \(from, to\)\}.*watermark rewind"):
        bench.run(run_type="backfill")
    claim: Any = DELAYS.claim(task_id="claim_delays").operator
    with pytest.raises(InvalidArgument, match="this is a backfill"):
        claim.execute(bench.context(claim, run_type="backfill"))
    assert (bench.runs(), bench.store.rows) == ([], {})


def test_a_backfill_dag_run_with_range_runs(long: Bench) -> None:
    long.run(long.operator(range='{"flights": ["0", "2"]}'), run_type="backfill")
    assert long.bounds() == [(0, 2)]


def test_a_template_that_gives_null_is_no_range(bench: Bench) -> None:
    task = bench.operator(range="{{ dag_run.conf.get('range') | tojson }}")
    task.range = "null"
    value = task.execute(bench.context(task))
    assert value["ranges"][0]["to"]["version"] == 0
    assert bench.watermark() == 0


def test_without_the_inlet_it_says_what_to_add_and_starts_nothing(bench: Bench) -> None:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

    task = bench.operator(range={"flights": (-1, 0)})
    context = bench.context(task) | {"asset_state_store": AssetStateStoreAccessors([])}
    with pytest.raises(LedgerError, match=r"inlets=\[subscription\.asset\].*partial\(\)"):
        task.execute(context)
    assert bench.runs() == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"flight": (0, 1)}, "names no source flight"),
        ({}, "leaves out flights"),
        ({"flights": (3, 1)}, "ends before it begins"),
        ({"flights": 3}, r"give \(from, to\)"),
        ({"flights": (0, "one")}, "the version 'one'"),
        ("flights", "which is no JSON"),
    ],
)
def test_a_range_that_cannot_work_is_refused_at_parse(bench: Bench, value: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        bench.operator(range=value)


def test_a_range_of_triggered_runs_is_refused_at_parse(bench: Bench) -> None:
    mixed = Subscription("mixed", [DeltaTable("main.silver.flights"), TriggeredRuns(job_name="bronze")], start="latest")
    with pytest.raises(InvalidArgument, match=r"range= is for tables; bronze is a source of triggered runs"):
        bench.operator(subscription=mixed, range="{{ params.range }}")


def test_the_reason_says_that_the_watermark_stays(long: Bench) -> None:
    value = long.run(long.operator(range=RANGE))
    assert value["reason"] == "backfilled main.silver.flights (0, 2]; the watermark stays where it is"


def test_a_success_that_the_postcondition_denies_is_a_failure_and_the_next_try_starts_another(long: Bench) -> None:
    def second(ranges: Any, run_id: int) -> bool:
        return len(long.runs()) == 2

    with pytest.raises(RunFailed, match="succeeded, but its postcondition does not hold: it says no"):
        long.run(long.operator(range=RANGE, postcondition=second))
    long.run(long.operator(range=RANGE, postcondition=second), try_number=2)
    assert [of_run(run)["bridge_generation"] for run in long.runs()] == ["0", "1"]
