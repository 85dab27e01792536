"""The demo's long-running processes: started in sessions of their own, watched, and ended by their ids, all of them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from demo.places import DemoFailed, Places

STOP_SECONDS = 20.0


class AlreadyRunning(Exception):
    """Another demo is being told in the same folder."""


@contextmanager
def only_one(places: Places) -> Iterator[None]:
    """Hold the folder's lock, which the system drops with the process. Raises AlreadyRunning."""
    places.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with places.lock.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise AlreadyRunning(
                f"a demo is running in {places.home} (pid {lock.read() or 'unknown'}); let it end or press Ctrl-C there"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@dataclass(frozen=True)
class Service:
    """A process that was started, and the file that it writes its output to. `once`: it is meant to end by itself."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    once: bool = False


class Services:
    """Starts processes and remembers them in a file, so that a later `python -m demo stop` finds what was kept."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._services: list[Service] = []

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path, once: bool = False) -> Service:
        self._places.logs.mkdir(parents=True, exist_ok=True)
        log = self._places.logs / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the terminal must reach the driver alone: it knows the order in which to stop.
                start_new_session=True,
            )
        service = Service(name, process, log, once)
        self._services.append(service)
        self._remember()
        return service

    def check(self) -> None:
        """Raises DemoFailed when one of the processes has ended by itself."""
        for service in self._services:
            code = service.process.poll()
            if code is not None and not service.once:
                raise DemoFailed(f"{service.name} ended with code {code}: {last_line(service.log)}")

    def owns(self, pid: int) -> bool:
        """Whether `pid` is one of these processes or descends from one."""
        try:
            family = {pid, *(parent.pid for parent in psutil.Process(pid).parents())}
        except psutil.NoSuchProcess:
            return False
        return any(service.process.pid in family for service in self._services)

    def stop(self) -> None:
        """End every process that was started, and all that descends from it."""
        stop_recorded(self._places)

    def _remember(self) -> None:
        records = [
            {
                "name": service.name,
                "pid": service.process.pid,
                "created": psutil.Process(service.process.pid).create_time(),
            }
            for service in self._services
            if service.process.poll() is None
        ]
        self._places.processes.write_text(json.dumps(records))


def stop_recorded(places: Places, wait: float = STOP_SECONDS) -> list[str]:
    """End what a demo in this folder started, and say which it was. A pid that was taken by another is left alone.

    SIGINT first, which lets Airflow's standalone stop its components and the local deployment its notebooks; SIGKILL for
    whatever is left after `wait` seconds.
    """
    mains = _recorded(places)
    family = {member for main in mains.values() for member in _descendants(main)}
    for main in mains.values():
        _signal(main, signal.SIGINT)
    psutil.wait_procs(list(mains.values()), timeout=wait)
    family |= {member for main in mains.values() for member in _descendants(main)}
    _, left = psutil.wait_procs(list(family), timeout=2)
    for member in left:
        _signal(member, signal.SIGKILL)
    psutil.wait_procs(left, timeout=5)
    places.processes.unlink(missing_ok=True)
    return list(mains)


def wait_until(
    ready: Callable[[], bool], what: str, seconds: float, meanwhile: Callable[[], None], pause: float = 0.5
) -> None:
    """Ask `ready` until it says yes. `meanwhile` is called between: it shows progress and raises when all is lost."""
    deadline = time.monotonic() + seconds
    while not ready():
        meanwhile()
        if time.monotonic() > deadline:
            raise DemoFailed(f"waited {seconds:.0f} s for {what}, in vain")
        time.sleep(pause)


def last_line(log: Path) -> str:
    """The last line that says something, for an error message."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()] if log.exists() else []
    return next((line for line in reversed(lines) if line), "it said nothing")


def _recorded(places: Places) -> dict[str, psutil.Process]:
    if not places.processes.exists():
        return {}
    found = {}
    for record in json.loads(places.processes.read_text()):
        try:
            process = psutil.Process(record["pid"])
            if abs(process.create_time() - record["created"]) < 1:
                found[record["name"]] = process
        except psutil.NoSuchProcess:
            continue
    return found


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _signal(process: psutil.Process, number: int) -> None:
    try:
        if process.is_running():  # compares the creation time too
            os.kill(process.pid, number)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return
