"""Processes beside the one that measures: what they cost, and how they are spoken to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def child(module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`python -m module` with its standard output to read from; ended when the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that the process prints. Raises RuntimeError when it ends instead."""
    assert process.stdout is not None
    said = process.stdout.readline()
    if not said:
        raise RuntimeError(f"a measured process ended with {process.wait(10)}")
    return said.strip()


def say(process: subprocess.Popen[str], text: str) -> None:
    """One line to the standard input of the process."""
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def pss_mb(pid: int | str = "self") -> float:
    """The memory of a process, pages that it shares counted in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024


def cpu_seconds(pid: int | str = "self") -> float:
    """What all threads of a process have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sleep_until(moment: float) -> None:
    """Until a moment of the monotonic clock, past ones included."""
    time.sleep(max(0.0, moment - time.monotonic()))
