"""A wait for runs that cannot come says so: over real HTTP, in every mode."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout

from databricks_bridge.core.errors import NotFound, TriggerPaused
from tests.local.local_kit import eventually
from tests.sensors.fired import MODES, WAYS, Fired, answer_of, sensor
from tests.sensors.worker import Worker, in_a_dag

PAUSED, UNPAUSED = {"pause_status": "PAUSED"}, {"pause_status": "UNPAUSED"}
TIMEOUT = 0.5
NEVER = "2100-01-01T00:00:00+00:00"


def paused_job(fired: Fired) -> int:
    job_id = fired.job()
    fired.api.post("update", job_id=job_id, new_settings={"trigger": fired.trigger(**PAUSED)})
    return job_id


def warnings(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING and words in one.getMessage()]


def timed_out(monkeypatch: pytest.MonkeyPatch, task: Any) -> str:
    worker = Worker(monkeypatch, retries=0)
    assert worker.take(in_a_dag(task)) == "failed"
    (error,) = worker.errors
    assert isinstance(error, AirflowSensorTimeout)
    return str(error)


@pytest.mark.parametrize("mode", MODES)
def test_C05_a_paused_trigger_is_warned_of_once_and_named_by_the_time_out(
    fired: Fired, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """With `mode="reschedule"` each poke is a process of its own, which knows nothing of the one before."""
    job_id = paused_job(fired)
    said = timed_out(monkeypatch, sensor(job_id, mode, timeout=TIMEOUT))
    assert "the file_arrival trigger of job" in said
    assert "is paused" in said
    told = warnings(caplog, f"the file_arrival trigger of job {job_id} ('{fired.names[-1]}') is paused")
    assert len(told) > 1 if mode == "reschedule" else len(told) == 1
    assert "pause_status UNPAUSED" in told[0]


@pytest.mark.parametrize("mode", MODES)
def test_C05_a_paused_trigger_fails_the_wait_where_the_author_says_so(
    fired: Fired, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    worker = Worker(monkeypatch, retries=0)
    assert worker.take(in_a_dag(sensor(paused_job(fired), mode, on_paused="fail"))) == "failed"
    (error,) = worker.errors
    assert isinstance(error, TriggerPaused)
    assert isinstance(error, AirflowFailException), "a retry cannot unpause it"
    assert "is paused: no run of FILE_ARRIVAL, TABLE will be fired until it is resumed" in str(error)


def test_C05_a_trigger_that_is_paused_during_a_deferred_wait_fails_it(fired: Fired) -> None:
    job_id = fired.job()

    def pause() -> None:
        fired.api.post("update", job_id=job_id, new_settings={"trigger": fired.trigger(**PAUSED)})

    with pytest.raises(TriggerPaused, match=r"is paused.*on_paused"):
        answer_of(sensor(job_id, "deferrable", on_paused="fail"), pause)


@pytest.mark.parametrize("way", WAYS)
def test_C05_a_run_that_was_active_when_its_trigger_was_paused_is_waited_for(
    fired: Fired, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    fired.notebooks.block(f"job{len(fired.names)}")
    job_id = fired.job(continuous=UNPAUSED)
    name = fired.names[-1]
    (run,) = eventually(lambda: fired.api.get("runs/list", job_id=job_id).get("runs"))
    fired.api.post("update", job_id=job_id, new_settings={"continuous": PAUSED})
    task = sensor(job_id, way, on_paused="fail", triggers={"CONTINUOUS"})
    genuine = type(task)._look_once

    async def look_and_end(self: Any, context: Any) -> Any:
        answer = await genuine(self, context)
        if answer is None and way == "poke":
            fired.notebooks.unblock(name)
        return answer

    monkeypatch.setattr(type(task), "_look_once", look_and_end)
    answer = answer_of(task, lambda: fired.notebooks.unblock(name))
    assert (answer["run_id"], answer["result_state"]) == (run["run_id"], "SUCCESS")
    (told,) = warnings(caplog, "the continuous trigger of job")
    assert told.endswith(f"a run that it fired before goes on: {run['run_id']}")


@pytest.mark.parametrize("mode", MODES)
def test_a_job_without_such_a_trigger_is_warned_of(
    fired: Fired, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    job_id = fired.job()
    said = timed_out(monkeypatch, sensor(job_id, mode, triggers={"TABLE"}, timeout=TIMEOUT, on_paused="fail"))
    words = "has no trigger that fires runs of TABLE: it has file_arrival (FILE_ARRIVAL)"
    assert words in said
    assert warnings(caplog, words)


def test_C12_a_location_that_has_grown_too_large_is_told_at_the_first_look_with_the_services_words(
    fired: Fired, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = fired.job(files=10_001)
    words = fired.said(job_id, "last_failed")["description"]
    assert words == f"{fired.url()} holds 10001 files; without file events a file arrival trigger may watch 10000"
    for way in WAYS:
        caplog.clear()
        assert words in timed_out(monkeypatch, sensor(job_id, way, since=NEVER, timeout=TIMEOUT))
        (told,) = warnings(caplog, words)
        assert told.startswith(f"the file_arrival trigger of job {job_id}")
    fired.api.post("delete", job_id=job_id)  # its folder would go on being listed


def test_C12_a_trigger_that_cannot_be_evaluated_any_more_is_told_during_a_deferred_wait(
    fired: Fired, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = fired.job()
    volume = f"main.landing.{fired.names[-1]}"
    with ExitStack() as faults:

        def revoke() -> None:
            faults.enter_context(fired.fault(kind="revoke", privilege="READ_VOLUME", securable=volume))
            fired.said(job_id, "last_failed")

        with pytest.raises(AirflowSensorTimeout) as ended:
            answer_of(sensor(job_id, "deferrable", timeout=2), revoke)
    (told,) = warnings(caplog, "could not be evaluated")
    assert f"READ VOLUME on Volume '{volume}'" in told
    assert f"READ VOLUME on Volume '{volume}'" in str(ended.value)


@pytest.mark.parametrize("mode", MODES)
def test_C02_an_overwrite_is_named_by_the_time_out_with_what_the_trigger_last_did(
    fired: Fired, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    job_id = fired.job()
    fired.said(job_id, "last_not_triggered")
    fired.land("a.csv", "old")
    run = fired.run(job_id)
    fired.land("a.csv", "new")
    eventually(lambda: fired.history(job_id)["last_not_triggered"]["timestamp"] > run["end_time"])
    said = timed_out(monkeypatch, sensor(job_id, mode, since=NEVER, timeout=TIMEOUT))
    assert f" as run {run['run_id']} (1 new file(s) in {fired.url()})" in said
    assert f"did not fire: no new files in {fired.url()}" in said
    assert "takes a file that is written again under its old name for no arrival" in said


@pytest.mark.parametrize("soft_fail", [True, False])
def test_a_time_out_stays_what_it_was_where_the_workspace_cannot_be_asked(
    fired: Fired, monkeypatch: pytest.MonkeyPatch, soft_fail: bool
) -> None:
    task = sensor(fired.job(), "poke", timeout=TIMEOUT, soft_fail=soft_fail)
    with fired.fault(kind="unavailable", path="jobs/get"):
        state = Worker(monkeypatch, retries=0).take(in_a_dag(task))
    assert state == ("skipped" if soft_fail else "failed")


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_does_not_exist_is_an_error_at_the_first_look(
    fired: Fired, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    worker = Worker(monkeypatch, retries=0)
    assert worker.take(in_a_dag(sensor(123456, mode))) == "failed"
    (error,) = worker.errors
    assert type(error) is NotFound
    assert "123456" in str(error)
