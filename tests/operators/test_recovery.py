"""What other operators lose: runs that go on without their task, answers that never came, runs of other people."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge.core.errors import RunFailed, Unavailable
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.workspace.client import Workspace
from tests.core.driving import claim_of
from tests.local.local_kit import failure
from tests.operators.conftest import Bench


def deferred(bench: Bench, **context: Any) -> int:
    """A try that waits for its run, and is then lost: nothing but the ledger remembers it."""
    with pytest.raises(TaskDeferred) as given:
        bench.run(bench.operator(deferrable=True), **context)
    return int(given.value.trigger.serialize()[1]["run_id"])


@pytest.mark.parametrize("most", [1, 5])
def test_A02_a_lost_try_leaves_one_run_and_the_next_reports_it(bench: Bench, most: int) -> None:
    bench.api.post("update", job_id=bench.job_id, new_settings={"max_concurrent_runs": most})
    bench.notebooks.block("gold")
    run_id = deferred(bench)
    assert deferred(bench, try_number=2) == run_id
    bench.notebooks.unblock("gold")
    assert bench.run(try_number=3)["run_id"] == run_id
    assert len(bench.runs()) == 1


@pytest.mark.parametrize("kind", ["claim", "backfill"])
def test_A08_a_run_now_whose_answer_was_lost_starts_one_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    arguments: dict[str, Any] = {"range": {"flights": (-1, 0)}} if kind == "backfill" else {}
    whole = Workspace.run_now

    async def lost(self: Workspace, *args: Any, **kwargs: Any) -> int:
        await whole(self, *args, **kwargs)
        raise Unavailable("the answer was lost")

    monkeypatch.setattr(Workspace, "run_now", lost)
    with pytest.raises(Unavailable):
        bench.run(bench.operator(**arguments))
    monkeypatch.setattr(Workspace, "run_now", whole)
    bench.run(bench.operator(**arguments), try_number=2)
    assert len(bench.runs()) == 1
    assert bench.bounds() == [(-1, 0)]


def test_a_failed_try_starts_the_next_generation_and_the_last_blocks(bench: Bench) -> None:
    bench.notebooks.functions["gold"] = lambda run: failure("ValueError: bad row")
    for number in (1, 2):
        with pytest.raises(RunFailed, match="bad row"):
            bench.run(bench.operator(max_generations="2"), try_number=number)
    assert [of_run(run)["bridge_generation"] for run in bench.runs()] == ["0", "1"]
    assert claim_of(bench.record()).status is ClaimStatus.BLOCKED


def test_a_cleared_task_processes_what_is_pending_and_replays_nothing(bench: Bench) -> None:
    bench.run()
    bench.commit()
    bench.run(try_number=2, max_tries=3)
    assert bench.bounds() == [(-1, 0), (0, 1)]


def test_foreign_and_manual_runs_are_left_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.notebooks.block("gold")
    foreign = int(bench.api.post("run-now", job_id=bench.job_id)["run_id"])
    bench.notebooks.unblock("gold")
    before = bench.api.ended(foreign)
    bench.run()
    assert bench.api.run(foreign) == before
    assert len(bench.runs()) == 2


def test_D10_two_tasks_of_one_subscription_share_the_one_run(bench: Bench) -> None:
    bench.notebooks.block("gold")
    first = deferred(bench)
    other = deferred(bench, run_id="asset__2")
    assert first == other
    bench.notebooks.unblock("gold")
    bench.api.ended(first)
    assert bench.run()["run_id"] == first
    assert bench.run(bench.operator(on_nothing_new="succeed"), run_id="asset__2")["run_id"] is None
    assert len(bench.runs()) == 1


def test_E14_a_failure_in_the_trigger_is_raised_in_the_worker_and_retried(bench: Bench) -> None:
    bench.notebooks.block("gold")
    run_id = deferred(bench)
    task = bench.operator(deferrable=True)
    event = {"status": "error", "error": "NotPermitted", "message": "no right", "deadline": "2100-01-01T00:00:00+00:00"}
    with pytest.raises(Exception, match="no right"):
        task.execute_complete(bench.context(task), event)
    assert deferred(bench, try_number=2) == run_id
    bench.notebooks.unblock("gold")
