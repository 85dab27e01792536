"""How a child process makes sure that it does not outlive its parent, not even one that is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """On Linux the kernel kills this process when the thread that started it ends. Elsewhere the pipe must do."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def take_group_along() -> None:
    """Have this process's group killed when this process has ended, however it ends. Call it before there are threads.

    A process of the group that neither dies with its parent nor reads a pipe goes all the same.
    """
    lifeline, kept = os.pipe()
    if os.fork() > 0:
        os.close(lifeline)
        return  # `kept` stays open for as long as this process lives, and is inherited by nobody
    os.close(kept)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Who waits for the end of this process's output must not wait for that of the watcher.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    while os.read(lifeline, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


def die_at_end_of(descriptor: int) -> None:
    """End this process at once when the other end of the pipe is closed."""

    def watch() -> None:
        while os.read(descriptor, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
