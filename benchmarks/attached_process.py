"""A Python process that has attached to the warm JVM once, and runs one notebook again and again.

Its first line of input is what a notebook's process is given, and `home`, a file for what the notebook prints; each line after
it is one run. Prints a JSON line when it has attached, and for each run: `seconds` and `error`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_OUT = os.dup(1)


def _say(**what: Any) -> None:
    os.write(_OUT, f"{json.dumps(what)}\n".encode())


def main() -> None:
    given = json.loads(sys.stdin.readline())
    for standard in (1, 2):
        os.dup2(os.open(given["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), standard)
    from databricks_bridge.local.engine.adaptation import adapt_python
    from databricks_bridge.local.engine.dbutils import DBUtils
    from databricks_bridge.local.engine.notebook import run_notebook
    from databricks_bridge.local.engine.paths import VolumePaths
    from databricks_bridge.local.engine.session import attach

    volumes = VolumePaths(Path(given["volumes_root"]))
    spark = attach(given["key"], volumes)
    adapt_python(volumes)
    _say(attached=True)
    for _ in sys.stdin:
        began = time.monotonic()
        result = run_notebook(Path(given["notebook"]), spark, DBUtils(given["parameters"], volumes, {}))
        _say(seconds=time.monotonic() - began, error=result.error)


if __name__ == "__main__":
    main()
