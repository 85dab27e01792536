"""How a child process answers: one JSON object for each line of its standard output, and nothing else between them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

Reply = Callable[[dict[str, Any]], None]


def take_standard_output() -> Reply:
    """From here on only what is given to the result goes to standard output; it may be called from any thread.

    PySpark and the JVM, which inherits it, may print on standard output: that goes to standard error now.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    write = threading.Lock()

    def reply(answer: dict[str, Any]) -> None:
        with write:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

    return reply
