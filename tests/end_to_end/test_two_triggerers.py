"""Two real triggerers, one of which is stopped for so long that the other takes its triggers, and then goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from demo.processes import wait_until
from tests.end_to_end.conftest import Bridge

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

STOPPED_SECONDS = 40.0
"""Airflow gives the triggers of a triggerer to another one after 30 s without a sign of life."""
WAITS = {"runs_deferrable": 4, "moves_deferrable": 4}


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
def second_triggerer(environment: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**environment, "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(port)}
    command = [sys.executable, "-m", "airflow", "triggerer"]
    with (folder / "second.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def test_E07_E16_a_triggerer_that_stops_and_goes_on_loses_no_wait_and_wakes_none_twice(
    bridge: Bridge, tmp_path: Path
) -> None:
    home = Path(bridge.ledger.removeprefix("file://")).parent
    first = triggerers(home)
    assert first, "the triggerer of the deployment runs"
    bridge.commit(1, "main.moving.flights")
    with second_triggerer(first[0].environ(), tmp_path) as second:
        log = tmp_path / "second.log"
        wait_until(lambda: b"triggerer" in log.read_bytes().lower(), "the second triggerer", 120, lambda: None)
        started = [(dag_id, bridge.start(dag_id)) for dag_id, count in WAITS.items() for _ in range(count)]
        wait_until(
            lambda: all(bridge.airflow.task(*one, "wait")["state"] == "deferred" for one in started),
            "all sensors to be deferred",
            240,
            lambda: None,
        )
        for process in first:
            process.suspend()
        try:
            stopped = time.monotonic()
            bridge.land("two-triggerers.json")
            bridge.commit(1, "main.moving.flights")
            time.sleep(max(0.0, stopped + STOPPED_SECONDS - time.monotonic()))
        finally:
            for process in first:
                process.resume()
        states = {one: bridge.wait(*one, seconds=200) for one in started}
        assert second.poll() is None
    assert set(states.values()) == {"success"}, states
    assert {bridge.airflow.task(*one, "wait")["try_number"] for one in started} == {1}
    newest = bridge.runs("ops", "by-file")[-1]
    answers = [bridge.airflow.xcoms(*one, "wait")["return_value"] for one in started if one[0] == "runs_deferrable"]
    assert {answer["run_id"] for answer in answers} == {newest["run_id"]}
    assert {run["state"]["result_state"] for run in bridge.runs("ops", "by-file")} == {"SUCCESS"}, "none was cancelled"
