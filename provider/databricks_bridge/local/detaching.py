"""`local up --detach`: the deployment in a process of its own, and the wait until it is ready."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.managing import find, log_file, ready_file
from databricks_bridge.local.private import make_private

_PAUSE_SECONDS = 0.1


class DidNotStart(BridgeError):
    """The detached deployment ended before it was ready."""


def detach(home: Path, arguments: Sequence[str]) -> int:
    """Start `local up` with these arguments and return when it is ready; its exit code when it is not to be.

    Ctrl-C leaves it starting. Raises DidNotStart, with what it said last.
    """
    if (running := find(home)) is not None:
        raise DidNotStart(f"{home} is in use by a deployment with pid {running.pid}; stop it with local down")
    make_private(home)
    log = log_file(home)
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "databricks_bridge.local", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with log.open(errors="replace") as said:
        while not _ready(home, process.pid):
            print(said.read(), end="", flush=True)
            if process.poll() is not None:
                print(said.read(), end="", file=sys.stderr, flush=True)
                raise DidNotStart(f"it ended with exit code {process.returncode}; its log is {log}")
            time.sleep(_PAUSE_SECONDS)
        print(said.read(), end="", flush=True)
    print(
        f"It runs in the background, pid {process.pid}. Stop it: databricks-bridge local down --home {home}", flush=True
    )
    return 0


def _ready(home: Path, pid: int) -> bool:
    try:
        return int(json.loads(ready_file(home).read_text())["pid"]) == pid
    except (FileNotFoundError, ValueError):
        return False
