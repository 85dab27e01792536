"""The process from which those of notebooks are forked: it has imported PySpark and pandas, which takes seconds, and no more.

One JSON line on standard input for each notebook: `{"id": 1, "environment": {...}, "log": ..., ...}`, the rest being what
`process.perform` takes. Answers on standard output: `{"id": 1, "pid": ...}` at once, and `{"id": 1, "exit_code": ...}` when
the notebook's process has ended. It starts no thread, as what forks should not. Its end is the end of all that it has forked.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import signal
import sys
import warnings
from typing import Any, NoReturn

from databricks_bridge.local.engine.lifeline import die_at_end_of, die_with_parent

_READ = 65536


def main() -> None:
    """Serve until standard input ends."""
    die_with_parent()
    answers = os.dup(1)
    os.dup2(2, 1)
    _import_what_notebooks_need()
    Template(answers).serve()


def _import_what_notebooks_need() -> None:
    import delta.tables  # noqa: F401
    import pyspark.java_gateway
    import pyspark.logger
    import pyspark.sql.functions
    import pyspark.sql.streaming

    # PySpark imports it, and pandas with it, when the first call with an argument is made, which is while it attaches.
    import pyspark.testing  # noqa: F401

    from databricks_bridge.local.engine import adaptation, autoloader, notebook, process, session  # noqa: F401
    from databricks_bridge.local.engine.sql_text import Statement

    Statement.of("SELECT 1")


class Template:
    """Forks, and tells how what it forked has ended. `answers` is where it answers."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._children: dict[int, int] = {}
        # A child notices the end of this process, even a violent one, by the end of the one pipe; a signal wakes by the other.
        self._lifeline, self._kept = os.pipe()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def serve(self) -> None:
        """Until standard input ends."""
        pending = b""
        while True:
            ready, _, _ = select.select([0, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, _READ)
                self._reap()
            if 0 in ready:
                more = os.read(0, _READ)
                if not more:
                    return
                *lines, pending = (pending + more).split(b"\n")
                for line in lines:
                    self._fork(json.loads(line))

    def _fork(self, order: dict[str, Any]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent, pid = os.getpid(), _forked()
        if pid == 0:
            self._become_notebook(order, parent)
        _lead_a_group(pid)
        self._children[pid] = order["id"]
        self._answer({"id": order["id"], "pid": pid})

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._answer({"id": self._children.pop(pid), "exit_code": os.waitstatus_to_exitcode(status)})

    def _answer(self, answer: dict[str, Any]) -> None:
        os.write(self._answers, json.dumps(answer).encode() + b"\n")

    def _become_notebook(self, order: dict[str, Any], parent: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _lead_a_group(0)
            die_with_parent()
            if os.getppid() != parent:
                os._exit(1)
            for descriptor in (self._answers, self._kept, self._woken, self._wake):
                os.close(descriptor)
            die_at_end_of(self._lifeline)
            _take_over(order)
            from databricks_bridge.local.engine.process import perform

            perform(order)
        finally:
            # Never on into the loop of the template, whatever happens.
            os._exit(1)


def _forked() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of threads: numpy's own, which it handles. The filter is not for the notebook.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _take_over(order: dict[str, Any]) -> None:
    """The environment, and the log as standard output and error."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, standard)
    os.close(log)
    os.close(nothing)
    sys.stdin = io.StringIO()
    os.environ.clear()
    os.environ.update(order["environment"])
    # Python's own random numbers begin anew in a fork; numpy's go on where the template's are, the same for every notebook.
    from numpy import random

    random.seed()


def _lead_a_group(pid: int) -> None:
    """Both sides say it, so that it is so for whoever comes first; whoever comes second may be too late to say it."""
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)


if __name__ == "__main__":
    main()
