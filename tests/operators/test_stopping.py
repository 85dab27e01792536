"""Being asked to stop, as Airflow's worker asks: a signal handler calls `on_kill`, and the task goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from databricks_bridge.core.cancelling import Pulse
from databricks_bridge.core.errors import RunFailed
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.operators.stopping import Stopping, Tried
from tests.core.driving import claim_of
from tests.local.local_kit import eventually, failure
from tests.operators.conftest import Bench

RANGE = {"flights": (-1, 0)}


class State:
    """What Airflow says of the task; `asked` are the questions."""

    def __init__(self, state: str | None) -> None:
        self.state = state
        self.asked: list[dict[str, Any]] = []

    def __call__(self, **given: Any) -> dict[str, Any]:
        self.asked.append(given)
        (task_id,), (run_id,), index = given["task_ids"], given["run_ids"], given["map_index"]
        name = task_id if index < 0 else f"{task_id}_{index}"
        return {run_id: {name: self.state}}


def says(monkeypatch: pytest.MonkeyPatch, state: str | None) -> State:
    answer = State(state)
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(answer))
    return answer


@pytest.fixture
def blocked(bench: Bench) -> Iterator[Bench]:
    bench.notebooks.block("gold")
    yield bench
    if "gold" in bench.notebooks._waiters:
        bench.notebooks.unblock("gold")


def run_and_stop(bench: Bench, task: Any, then: Any = lambda: None, **context: Any) -> Any:
    """Run the task as a worker does, with its handler; the signal comes while its run is at work."""
    before = signal.signal(signal.SIGUSR1, lambda *_: task.on_kill())

    def stop() -> None:
        eventually(lambda: bench.notebooks.runs_of("gold") and bench.pushed.get("run_id"))
        os.kill(os.getpid(), signal.SIGUSR1)
        then()

    try:
        with ThreadPoolExecutor(1) as thread:
            stopping = thread.submit(stop)
            try:
                return bench.run(task, **context)
            finally:
                stopping.result()
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("state", "ends", "retries"),
    [("failed", AirflowFailException, 2), ("success", AirflowSkipException, 2), ("success", AirflowSkipException, 0)],
)
def test_A10_a_person_marks_the_task_and_its_run_is_cancelled_and_recorded(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch, state: str, ends: type[Exception], retries: int
) -> None:
    says(monkeypatch, state)
    with pytest.raises(ends, match=f"a person marked the task {state}; this process ends here"):
        run_and_stop(blocked, blocked.operator(retries=retries))
    (run,) = blocked.runs()
    assert blocked.api.ended(run["run_id"])["state"]["result_state"] == "CANCELED"
    record = blocked.record()
    assert record.history[-1].what == f"run {run['run_id']} cancelled: a person marked the task {state}"
    assert (claim_of(record).status, claim_of(record).failures) == (ClaimStatus.FAILED, 0)


def test_after_a_cancel_the_next_try_starts_the_next_generation(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, "failed")
    with pytest.raises(AirflowFailException):
        run_and_stop(blocked, blocked.operator())
    blocked.api.ended(blocked.runs()[0]["run_id"])
    blocked.notebooks.unblock("gold")
    blocked.run(try_number=2)
    assert blocked.bounds() == [(-1, 0), (-1, 0)]
    assert blocked.watermark() == 0


@pytest.mark.parametrize("state", ["running", "restarting", "up_for_retry", "scheduled", "skipped", None])
def test_A10_shutdown_clear_and_eviction_cancel_nothing_and_the_task_goes_on(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    answer = says(monkeypatch, state)

    def go_on() -> None:
        eventually(lambda: answer.asked)
        blocked.notebooks.unblock("gold")

    value = run_and_stop(blocked, blocked.operator(), go_on)
    assert value["run_id"] == blocked.runs()[0]["run_id"]
    assert blocked.notebooks.killed == []
    assert blocked.watermark() == 0
    assert answer.asked[0] == {"dag_id": "delays", "task_ids": ["t"], "run_ids": ["manual__1"], "map_index": -1}


@pytest.mark.parametrize("context", [{"try_number": 3}, {"fail_fast": True}], ids=["last try", "fail_fast"])
def test_failed_without_certainty_cancels_nothing(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch, context: dict[str, Any]
) -> None:
    answer = says(monkeypatch, "failed")

    def go_on() -> None:
        eventually(lambda: answer.asked)
        blocked.notebooks.unblock("gold")

    assert run_and_stop(blocked, blocked.operator(), go_on, **context)["run_id"]
    assert blocked.notebooks.killed == []


def test_airflow_that_does_not_answer_cancels_nothing(blocked: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def silent(**given: Any) -> Any:
        asked.set()
        raise ConnectionError("the supervisor is gone")

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(silent))

    def go_on() -> None:
        assert asked.wait(20)
        blocked.notebooks.unblock("gold")

    assert run_and_stop(blocked, blocked.operator(), go_on)["run_id"]
    assert blocked.notebooks.killed == []


def test_a_mapped_task_asks_for_its_own_state(blocked: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = says(monkeypatch, "failed")
    with pytest.raises(AirflowFailException):
        run_and_stop(blocked, blocked.operator(), map_index=4)
    assert answer.asked[0]["map_index"] == 4


def test_the_run_of_a_backfill_is_cancelled_without_a_word_in_the_ledger(
    blocked: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, "failed")
    with pytest.raises(AirflowFailException):
        run_and_stop(blocked, blocked.operator(range=RANGE))
    (run,) = blocked.runs()
    assert blocked.api.ended(run["run_id"])["state"]["result_state"] == "CANCELED"
    assert blocked.store.rows == {}
    blocked.notebooks.unblock("gold")
    blocked.run(blocked.operator(range=RANGE), try_number=2)
    assert blocked.bounds() == [(-1, 0)] * 2


def test_a_process_that_stood_still_cancels_nothing(blocked: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = says(monkeypatch, "failed")
    times = iter([0.0, 100.0])
    monkeypatch.setattr(Pulse, "__post_init__", lambda self: setattr(self, "_last", next(times) - 1000))

    def go_on() -> None:
        eventually(lambda: answer.asked)
        blocked.notebooks.unblock("gold")

    assert run_and_stop(blocked, blocked.operator(), go_on)["run_id"]
    assert blocked.notebooks.killed == []


def test_on_kill_before_and_after_the_work_does_nothing(bench: Bench) -> None:
    task = bench.operator()
    task.on_kill()
    bench.run(task)
    task.on_kill()
    assert bench.watermark() == 0


def test_D13_a_time_limit_of_the_task_never_cancels_its_run(blocked: Bench) -> None:
    task = blocked.operator(deferrable=True)
    with pytest.raises(TaskDeferred):
        blocked.run(task)
    with pytest.raises(AirflowTaskTimeout, match="the next try follows it"):
        task.execute_complete(blocked.context(task), {"status": "deadline", "deadline": "2026-01-01T00:00:00+00:00"})
    assert blocked.notebooks.killed == []


def test_an_error_of_the_work_is_the_error_of_the_task(bench: Bench) -> None:
    bench.notebooks.functions["gold"] = lambda run: failure("ValueError: bad row")
    with pytest.raises(RunFailed, match="bad row"):
        bench.run()


async def test_what_stops_the_process_stops_the_work() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    stopping = Stopping(lambda: Tried("d", "r", "t", -1, True, False))
    task = asyncio.ensure_future(stopping.during(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
