"""What set-up prints, and how it runs a long command: the whole output in a log, a sign of life on the screen."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HEARTBEAT_SECONDS = 10.0
TAIL_LINES = 20


class SetUpError(Exception):
    """Set-up cannot go on. The message says what happened, where, and what to do next."""


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def seconds(since: float) -> str:
    return f"{time.monotonic() - since:.0f} s"


def run_logged(
    title: str,
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    progress: Callable[[str], str | None] = lambda line: None,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> None:
    """Runs the command with its output appended to `log`; raises SetUpError with the last lines if it fails.

    `progress` is shown each line and may return what the next sign of life should tell.
    """
    started = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    say(title)
    with log.open("a") as record, log.open(errors="replace") as output:
        record.write(f"$ {' '.join(command)}\n")
        record.flush()
        beginning = output.seek(0, os.SEEK_END)
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=record, stderr=subprocess.STDOUT)
        news = ""
        try:
            while (code := _wait(process, heartbeat_seconds)) is None:
                for line in output:
                    news = progress(line) or news
                say("  ... " + ", ".join(part for part in (news, seconds(started)) if part))
        except BaseException:
            process.terminate()
            process.wait()
            raise
        output.seek(beginning)
        tail = output.read().splitlines()[-TAIL_LINES:]
    if code != 0:
        raise SetUpError(_failure(title, code, tail, log))
    say(f"  done in {seconds(started)}")


def _wait(process: subprocess.Popen[bytes], timeout_seconds: float) -> int | None:
    try:
        return process.wait(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        return None


def _failure(title: str, code: int, tail: Sequence[str], log: Path) -> str:
    shown = "\n".join(f"    {line}" for line in tail)
    return f"failed with exit code {code}: {title}\n{shown}\n  The whole output: {log}"
