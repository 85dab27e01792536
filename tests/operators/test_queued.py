"""A run of ours that finds its job at the limit of concurrent runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge.core.parameters import of_run
from databricks_bridge.ledgers.airflow import KEY
from databricks_bridge.local.runs import keeper
from tests.local.local_kit import eventually
from tests.operators import conftest
from tests.operators.conftest import Bench


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace looks at its queue twice a second."""
    monkeypatch.setattr(conftest, "deployment_in_thread", partial(conftest.deployment_in_thread, time_scale=1 / 120))


def deferred(bench: Bench) -> str:
    """What the task waits for now: the class of its trigger."""
    with pytest.raises(TaskDeferred) as waits:
        bench.run(bench.operator(deferrable=True))
    return str(waits.value.trigger.serialize()[0].rpartition(".")[2])


def states(bench: Bench) -> list[tuple[str, Any]]:
    return [(run["state"]["life_cycle_state"], run["state"].get("result_state")) for run in bench.runs()]


def half_a_minute_later(bench: Bench) -> None:
    """The pause before the next generation is over."""
    record = bench.store.get(KEY)
    assert record["claim"]["not_before"] > datetime.now(UTC).isoformat()
    record["claim"]["not_before"] = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    bench.store.set(KEY, record)


def test_C08_a_run_that_waits_in_the_queue_is_followed_and_after_48_hours_the_same_range_is_given_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.notebooks.block("gold")
    bench.api.post("run-now", job_id=bench.job_id)
    eventually(lambda: bench.notebooks.seen)
    assert deferred(bench) == "RunTrigger"
    assert states(bench)[1] == ("QUEUED", None)
    assert deferred(bench) == "RunTrigger", "the same run, however often the task is tried"
    assert len(bench.runs()) == 2

    with monkeypatch.context() as two_days_later:
        two_days_later.setattr(keeper, "QUEUE_SECONDS", 0.0)
        eventually(lambda: states(bench)[1] == ("SKIPPED", "MAXIMUM_CONCURRENT_RUNS_REACHED"))
    assert deferred(bench) == "PauseTrigger"
    assert (len(bench.runs()), bench.watermark()) == (2, -1)
    claim = bench.record().claim
    assert claim is not None
    assert (claim.generation, claim.failures) == (1, 0), "a generation that does not count"

    bench.commit()
    bench.notebooks.unblock("gold")
    half_a_minute_later(bench)
    bench.run(bench.operator())
    assert states(bench)[2] == ("TERMINATED", "SUCCESS")
    given = [of_run(run) for run in bench.runs()[1:]]
    assert [(one["flights_start"], one["flights_end"]) for one in given] == [("0", "0")] * 2
    assert bench.watermark() == 0
