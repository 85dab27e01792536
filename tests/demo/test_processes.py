"""The demo's processes: all of them end, and no others."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from demo.places import DemoFailed, Places
from demo.processes import AlreadyRunning, Services, only_one, stop_recorded, wait_until

# Its own handler: a shell starts what runs in the background with SIGINT ignored, and children inherit that.
POLITE = (
    "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(print('bye', flush=True)))\n"
    "print('up', flush=True); time.sleep(600)"
)
# A parent that ignores SIGINT, with a child in a process group of its own: only SIGKILL by pid ends them.
STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], process_group=0); "
    "print('up', flush=True); time.sleep(600)"
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def poll(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_stop_lets_a_process_say_goodbye(places: Places) -> None:
    services = Services(places)
    service = services.start("polite", [sys.executable, "-c", POLITE], os.environ, places.home)
    poll(lambda: "up" in service.log.read_text())
    services.stop()
    assert not psutil.pid_exists(service.process.pid)
    assert service.log.read_text() == "up\nbye\n"
    assert not places.processes.exists()


def test_stop_ends_the_stubborn_and_their_children(places: Places) -> None:
    services = Services(places)
    service = services.start("stubborn", [sys.executable, "-c", STUBBORN], os.environ, places.home)
    poll(lambda: "up" in service.log.read_text())
    family = [service.process.pid, *(child.pid for child in psutil.Process(service.process.pid).children())]
    assert len(family) == 2
    assert services.owns(family[1])
    assert not services.owns(os.getpid())
    assert stop_recorded(places, wait=0.2) == ["stubborn"]
    assert not any(psutil.pid_exists(pid) for pid in family)


def test_a_pid_that_is_another_process_now_is_left_alone(places: Places) -> None:
    places.processes.write_text(json.dumps([{"name": "mine once", "pid": os.getpid(), "created": 1.0}]))
    assert stop_recorded(places) == []


def test_a_process_that_ended_by_itself_is_a_failure_with_its_last_words(places: Places) -> None:
    services = Services(places)
    services.start("once", [sys.executable, "-c", ""], os.environ, places.home, once=True)
    dying = services.start("dying", [sys.executable, "-c", "print('port in use'); exit(2)"], os.environ, places.home)
    dying.process.wait(30)
    with pytest.raises(DemoFailed, match="dying ended with code 2: port in use"):
        services.check()


def test_a_second_demo_in_the_same_folder_is_refused_and_stops_nothing(places: Places) -> None:
    with (
        only_one(places),
        pytest.raises(AlreadyRunning, match=f"a demo is running in {places.home} .pid {os.getpid()}.; let it end"),
        only_one(places),
    ):
        pass
    with only_one(places):
        pass


def test_wait_until_gives_up_and_says_what_for(places: Places) -> None:
    seen: list[int] = []
    with pytest.raises(DemoFailed, match="waited 0 s for the moon, in vain"):
        wait_until(lambda: False, "the moon", 0.05, lambda: seen.append(1), pause=0.01)
    assert seen
