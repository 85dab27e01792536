"""Two real triggerers, one of which is stopped for so long that the other takes its triggers, and then goes on."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Bridge, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

STOPPED_SECONDS = 40.0
"""Airflow gives the triggers of a triggerer to another one after 30 s without a sign of life."""
SENSORS = ("runs_deferrable", "runs_deferrable", "moves_deferrable", "moves_deferrable")


def triggerers(home: Path) -> list[psutil.Process]:
    """The processes of this deployment's triggerers: supervisors and their children."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("AIRFLOW_HOME", "").startswith(str(home))
            named = " ".join(process.cmdline())
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if ours and "triggerer" in named:
            found.append(process)
    return found


@contextmanager
def second_triggerer(environment: dict[str, str], folder: Path) -> Iterator[None]:
    """One more triggerer, from when it has registered itself until the block is left."""
    command = [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"]
    path = folder / "second.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            until(lambda: b"Starting the triggerer" in path.read_bytes(), "the second triggerer", 120)
            yield
            assert process.poll() is None, "the second triggerer lived through it all"
        finally:
            # SIGINT first: what it has then goes back to the other one at once and not after 30 s.
            for number in (signal.SIGINT, signal.SIGKILL):
                if process.poll() is None:
                    os.killpg(process.pid, number)
                    try:
                        process.wait(20)
                    except subprocess.TimeoutExpired:
                        continue


def stop_between_writes(processes: list[psutil.Process], database: Path) -> bool:
    """Stop the processes; not while one of them holds SQLite's lock, for then nobody else could write, either."""
    for process in processes:
        process.suspend()
    try:
        with closing(
            sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=5, isolation_level=None)
        ) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        for process in processes:
            process.resume()
        return False
    return True


@contextmanager
def stopped(processes: list[psutil.Process], database: Path) -> Iterator[None]:
    """The processes do not run for the length of the block, `STOPPED_SECONDS` at least."""
    until(lambda: stop_between_writes(processes, database), "the first triggerer to be between two writes", 60)
    began = time.monotonic()
    try:
        yield
        time.sleep(max(0.0, began + STOPPED_SECONDS - time.monotonic()))
    finally:
        for process in processes:
            process.resume()


def test_E07_E16_a_triggerer_that_stops_and_goes_on_loses_no_wait_wakes_none_twice_and_cancels_no_run(
    bridge: Bridge, tmp_path: Path
) -> None:
    home = Path(bridge.ledger.removeprefix("file://")).parent
    first = triggerers(home)
    assert first, "the triggerer of the deployment runs"
    gold = bridge.workspaces["gold"]
    hold = gold.post("/local/holds", {"job_name": "consume-kept", "at": "after_start"})["hold_id"]
    for table in ("main.moving.flights", "main.marked.flights"):
        bridge.commit(1, table)
    kept = ("kept", bridge.start("kept"), "consume")
    sensors = [(dag_id, bridge.start(dag_id), "wait") for dag_id in SENSORS]

    def beginnings() -> set[int]:
        """How often each trigger was begun, in whichever triggerer."""
        return {bridge.log(*one).count(" starting") for one in (kept, *sensors)}

    def waiting_in() -> set[int]:
        """The triggerers, by the id of their job, in which something waits."""
        tasks = [bridge.airflow.task(*one) for one in (kept, *sensors)]
        return {task["triggerer_job"]["id"] for task in tasks if task["triggerer_job"]}

    until(lambda: beginnings() == {1}, "all to wait in the first triggerer", 240)
    (one,) = waiting_in()
    environment = first[0].environ()
    with second_triggerer(environment, tmp_path):
        with stopped(first, Path(environment["AIRFLOW_HOME"], "airflow.db")):
            bridge.land("two-triggerers.json")
            bridge.commit(1, "main.moving.flights")
            # Not by the logs: Airflow asks the stopped triggerer for them, and waits for its answer.
            until(lambda: one not in waiting_in(), "the second triggerer to take over", 120)
        states = [bridge.wait(dag_id, run_id, 200) for dag_id, run_id, _ in sensors]
        # While its run is held the wait goes on in the second, so that only the first one's trigger can have been completed.
        until(lambda: "trigger completed" in bridge.log(*kept), "the first triggerer to let go of its trigger", 60)
        assert "invoking on_kill" in bridge.log(*kept), "as Airflow does for a person's mark, too"
        assert [run["state"]["life_cycle_state"] for run in bridge.runs("gold", "consume-kept")] == ["RUNNING"]
        gold.delete(f"/local/holds/{hold}")
        assert bridge.wait("kept", kept[1], 200) == "success", bridge.log(*kept)
    assert states == ["success"] * len(sensors)
    assert beginnings() == {2}, "in each triggerer once"
    assert {bridge.airflow.task(*one)["try_number"] for one in (kept, *sensors)} == {1}
    awakenings = [bridge.log(*one).count("::group::Pre Execute") for one in (kept, *sensors)]
    assert awakenings == [2] * len(awakenings), "once to begin to wait, and once when the wait was over"
    newest = bridge.runs("ops", "by-file")[-1]
    answers = [bridge.airflow.xcoms(*one)["return_value"] for one in sensors if one[0] == "runs_deferrable"]
    assert [answer["run_id"] for answer in answers] == [newest["run_id"]] * len(answers)
    (run,) = bridge.runs("gold", "consume-kept")
    assert run["state"]["result_state"] == "SUCCESS"
    assert bridge.airflow.xcoms(*kept)["run_id"] == run["run_id"]
