"""Ctrl-C while the demo is being told: nothing is left running, and the logs are named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from demo.places import ROOT, Places
from demo.processes import wait_until

pytestmark = pytest.mark.spark


def started(places: Places) -> list[psutil.Process]:
    """What the demo has started and all that descends from it."""
    if not places.processes.exists():
        return []
    found = []
    for record in json.loads(places.processes.read_text() or "[]"):
        # One of them is done early: what makes Airflow's database the first time.
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(record["pid"])
            found += [main, *main.children(recursive=True)]
    return found


def test_ctrl_c_ends_every_process_and_says_where_the_logs_are(tmp_path: Path) -> None:
    places = Places(tmp_path)
    demo = subprocess.Popen(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env={**os.environ, "DEMO_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    family: list[psutil.Process] = []
    try:
        # The local deployment, the controller of its engine, and the JVM.
        wait_until(lambda: len(started(places)) >= 3, "the engine's processes", 120, lambda: None)
        family = started(places)
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=120)
    finally:
        demo.kill()
    assert demo.returncode == 130, output
    assert "interrupted" in output
    assert f"logs: {places.logs}" in output
    assert [member for member in family if member.is_running()] == []
    assert not places.processes.exists()


def test_unknown_arguments_are_refused_with_the_usage() -> None:
    refused = subprocess.run([sys.executable, "-m", "demo", "now"], cwd=ROOT, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "python -m demo stop" in refused.stderr
