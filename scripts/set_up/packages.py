"""The virtual environment, what the lock pins, and this package itself, editable."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

from scripts.set_up import stamps
from scripts.set_up.console import run_logged, say
from scripts.set_up.places import Places


def prepare(places: Places) -> None:
    """Leaves a `.venv` with the lock's packages and this one. Where it is there already, nothing is done or fetched."""
    version = platform.python_version()
    _venv(places)
    locked = stamps.digest([version], [places.lock])
    if not stamps.holds(places.venv / ".stamp-lock", locked):
        pinned = len(locked_names(places.lock.read_text()))
        _pip(
            places,
            f"installing the {pinned} packages of {places.lock.name} (pip, hashes checked)",
            ["--require-hashes", "--requirement", str(places.lock)],
            pip_progress(pinned),
        )
        stamps.put(places.venv / ".stamp-lock", locked)
    editable = stamps.digest([locked], [places.project])
    if not stamps.holds(places.venv / ".stamp-package", editable):
        _pip(
            places,
            "installing this package, editable",
            ["--no-deps", "--no-build-isolation", "--editable", str(places.root)],
        )
        stamps.put(places.venv / ".stamp-package", editable)


def locked_names(lock: str) -> list[str]:
    """The distributions that the text of a lock pins, one for each pin (a marker may pin a name twice)."""
    return re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==", lock, flags=re.MULTILINE)


def pip_progress(pinned: int) -> Callable[[str], str | None]:
    """Turns pip's lines into what a sign of life tells: how far it is, and the package in hand."""
    seen = 0

    def note(line: str) -> str | None:
        nonlocal seen
        words = line.split()
        if words[:1] == ["Collecting"] and len(words) > 1:
            seen += 1
            return f"{seen} of {pinned}: {words[1]}"
        if line.lstrip().startswith("Building wheel for "):
            return f"building {words[3]}"
        if line.startswith("Installing collected packages"):
            return "unpacking"
        return None

    return note


def _venv(places: Places) -> None:
    if places.venv.exists() and not _usable(places):
        say(f"removing {places.venv.name}: unfinished, moved, or made with another Python")
        shutil.rmtree(places.venv)
    if not places.venv.exists():
        run_logged(
            f"making {places.venv.name} with Python {platform.python_version()} ({sys.executable})",
            [sys.executable, "-m", "venv", str(places.venv)],
            log=places.work / "venv.log",
        )


def _usable(places: Places) -> bool:
    """Whether `.venv` is of this Python's version, was made where it lies (its scripts hold that path), and has pip."""
    try:
        configuration = (places.venv / "pyvenv.cfg").read_text()
        probe = "import pip, platform; print(platform.python_version())"
        answer = subprocess.run([places.python, "-c", probe], capture_output=True, text=True)
    except OSError:
        return False
    made_here = re.search(rf"^command = .* {re.escape(str(places.venv))}$", configuration, flags=re.MULTILINE)
    return made_here is not None and answer.stdout.strip() == platform.python_version()


def _pip(
    places: Places, title: str, arguments: list[str], progress: Callable[[str], str | None] = lambda line: None
) -> None:
    options = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    command = [str(places.python), "-m", "pip", "install", *options, *arguments]
    run_logged(title, command, log=places.work / "pip.log", progress=progress)
