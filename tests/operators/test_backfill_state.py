"""Which state a backfill's run is told to read, by the operator on a real table (T50)."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge.core.acts import Pause
from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.parameter_names import names_of
from databricks_bridge.core.parameters import of_run
from databricks_bridge.feeds.backfill import BackfillDriver
from databricks_bridge.triggers.pause import PauseTrigger
from tests.local.local_kit import failure
from tests.operators.conftest import SOURCE, Bench


@pytest.fixture
def processed(bench: Bench) -> Bench:
    """A table with the versions 0 to 3, all processed."""
    for _ in range(3):
        bench.commit()
    bench.run()
    return bench


def told(bench: Bench) -> list[tuple[str, str, str, str]]:
    names = ("flights_start", "flights_end", "flights_as_of", "bridge_full_rebuild")
    runs = [of_run(run) for run in bench.runs()]
    return [(one[names[0]], one[names[1]], one[names[2]], one[names[3]]) for one in runs]


def test_an_old_range_is_touched_and_the_newest_state_is_read(processed: Bench) -> None:
    processed.run(processed.operator(range={"flights": (0, 2)}))
    processed.run(processed.operator(range={"flights": (-1, 1)}), run_id="manual__2")
    processed.run(processed.operator(range={"flights": (-1, 3)}), run_id="manual__3")
    assert told(processed) == [
        ("0", "3", "3", '["flights"]'),
        ("1", "2", "3", "[]"),
        ("0", "1", "3", "[]"),
        ("0", "3", "3", '["flights"]'),
    ]


def test_the_next_try_after_a_failure_reads_what_is_newest_then(processed: Bench) -> None:
    answers = [failure("ValueError: bad row")]
    ok = failure("").__class__(succeeded=True, exit_value=None, error=None, error_trace=None)
    processed.notebooks.functions["gold"] = lambda run: answers.pop() if answers else ok
    task = processed.operator(range={"flights": (0, 2)})
    with pytest.raises(Exception, match="bad row"):
        processed.run(task)
    processed.commit()
    processed.run(task, try_number=2)
    assert [as_of for _, _, as_of, _ in told(processed)] == ["3", "3", "4"]


def behind_once(bench: Bench) -> None:
    """The first run does not see the version that it was asked for, while the table moves on with each run."""
    answers = [failure("BridgeReaderBehind: main.silver.flights is at version 2 here")]
    ok = failure("").__class__(succeeded=True, exit_value=None, error=None, error_trace=None)

    def answer(run: object) -> Any:
        bench.commit()
        return answers.pop() if answers else ok

    bench.notebooks.functions["gold"] = answer


def test_a_reader_that_is_behind_is_asked_for_the_same_state_again(
    processed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind_once(processed)
    monkeypatch.setattr(BackfillDriver, "_pause", lambda self, *_: Pause(self.driver.now(), "behind"))
    processed.run(processed.operator(range={"flights": (0, 2)}))
    assert [as_of for _, _, as_of, _ in told(processed)] == ["3", "3", "3"]


def test_a_deferred_try_asks_for_the_same_state_again(processed: Bench) -> None:
    behind_once(processed)
    task = processed.operator(range={"flights": (0, 2)}, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        processed.run(task)
    event = {"status": "ready", "deadline": "2100-01-01T00:00:00+00:00"}
    if not isinstance(deferred.value.trigger, PauseTrigger):
        run_id = deferred.value.trigger.serialize()[1]["run_id"]
        processed.api.ended(run_id)
        with pytest.raises(TaskDeferred):
            task.execute_complete(processed.context(task), {**event, "run_id": run_id})
    with pytest.raises(TaskDeferred):
        task.execute_complete(processed.context(task), event)
    assert [as_of for _, _, as_of, _ in told(processed)] == ["3", "3", "3"]


def test_a_job_that_could_not_be_told_which_state_to_read_is_refused(processed: Bench) -> None:
    parameters = [{"name": name, "default": ""} for name in sorted(names_of([SOURCE], ["region"]))]
    processed.api.post("update", job_id=processed.job_id, new_settings={"parameters": parameters})
    with pytest.raises(
        InvalidArgument, match=r"does not declare the job parameters flights_as_of, which a backfill needs"
    ):
        processed.run(processed.operator(range={"flights": (0, 2)}))
    assert len(processed.runs()) == 1
    processed.commit()
    processed.run()
    assert len(processed.runs()) == 2
