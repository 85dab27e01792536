"""`python -m scripts.lock`: makes requirements.lock from pyproject.toml, pinned, hashed, and naming no host.

Pins that still fit are kept; `--upgrade` moves all of them. uv runs in a virtual environment that is thrown away.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.set_up.console import SetUpError, run_logged, say
from scripts.set_up.places import Places, here

UV = "uv==0.13.8"
COMPILE = (
    "pip", "compile", "pyproject.toml", "--extra", "local", "--group", "dev", "--constraints", "scripts/constraints.txt",
    "--universal", "--python-version", "3.11", "--generate-hashes",
    "--no-header", "--no-emit-index-url", "--no-emit-find-links", "--quiet",
)  # fmt: skip
HEAD = "# Made by `make lock` from pyproject.toml and scripts/constraints.txt.\n"


def main(arguments: list[str]) -> int:
    try:
        make(here(), upgrade="--upgrade" in arguments)
    except SetUpError as error:
        print(f"lock: {error}", file=sys.stderr)
        return 1
    return 0


def make(places: Places, *, upgrade: bool) -> None:
    """Replaces the lock, or raises SetUpError and leaves it as it was."""
    with tempfile.TemporaryDirectory(prefix="databricks-bridge-lock-") as folder:
        venv, fresh, log = Path(folder) / "venv", Path(folder) / "requirements.lock", places.work / "lock.log"
        if places.lock.exists() and not upgrade:
            fresh.write_text(places.lock.read_text())
        run_logged(f"a throw-away environment with {UV}", [sys.executable, "-m", "venv", str(venv)], log=log)
        run_logged(f"installing {UV}", [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", UV], log=log)
        command = [str(venv / "bin" / "uv"), *COMPILE, "--output-file", str(fresh)]
        say("resolving")
        done = subprocess.run(command, cwd=places.root, capture_output=True, text=True)
        if done.returncode != 0:
            raise SetUpError(f"uv could not resolve the lock:\n{done.stderr}")
        text = HEAD + fresh.read_text()
    problems = faults(text)
    if problems:
        raise SetUpError(f"the lock was not replaced: {'; '.join(problems)}")
    beside = places.lock.with_name(places.lock.name + ".new")
    beside.write_text(text)
    beside.replace(places.lock)
    say(f"{places.lock.name} written")


def faults(lock: str) -> list[str]:
    """What makes the text of a lock unfit: an address, an option, a pin that is not exact, or one without a hash."""
    found = []
    for number, line in enumerate(lock.splitlines(), start=1):
        if "://" in line or re.match(r"\s*-(?!-hash=)", line) or re.search(r"\s@\s", line):
            found.append(f"line {number} names a place: {line.strip()}")
    for pin in requirements(lock):
        if not re.match(r"[A-Za-z0-9._-]+(\[[^\]]*\])?==", pin):
            found.append(f"not pinned: {pin.split()[0]}")
        if "--hash=sha256:" not in pin:
            found.append(f"without a hash: {pin.split()[0]}")
    return found


def requirements(lock: str) -> list[str]:
    """Each requirement with its continuation lines joined; comments are dropped."""
    lines = (line for line in lock.splitlines() if not line.lstrip().startswith("#"))
    return [line.strip() for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
