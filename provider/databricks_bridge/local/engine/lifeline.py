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


def die_at_end_of(descriptor: int) -> None:
    """End this process at once when the other end of the pipe is closed."""

    def watch() -> None:
        while os.read(descriptor, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
