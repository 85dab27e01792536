"""The process of one notebook run. It reads one line of JSON on standard input, and writes the result to a file.

Standard input stays open for as long as the engine wants the notebook to run; its end ends this process.
"""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.lifeline import die_at_end_of, die_with_parent
from databricks_bridge.local.engine.model import NotebookResult


def main() -> None:
    """Run the notebook that standard input names. Does not return: what a notebook leaves behind cannot hold the end up."""
    die_with_parent()
    request = json.loads(_first_line(0))
    die_at_end_of(0)
    sys.stdin = io.StringIO()
    result = _run(request)
    if result.error_trace:
        print(result.error_trace, file=sys.stderr)
    _write(Path(request["result"]), result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(request: dict[str, Any]) -> NotebookResult:
    from databricks_bridge.local.engine.adaptation import adapt_python
    from databricks_bridge.local.engine.dbutils import DBUtils
    from databricks_bridge.local.engine.notebook import failed, run_notebook
    from databricks_bridge.local.engine.paths import VolumePaths
    from databricks_bridge.local.engine.session import attach

    notebook = Path(request["notebook"])
    volumes = VolumePaths(Path(request["volumes_root"]))
    try:
        spark = attach(request["key"], volumes)
    except Exception as error:  # noqa: BLE001 - the run must end with a reason
        return failed(error, error.__traceback__)
    adapt_python(volumes)
    os.chdir(notebook.parent)
    sys.path.insert(0, str(notebook.parent))
    sys.argv = [str(notebook), *request["arguments"]]
    return run_notebook(notebook, spark, DBUtils(request["parameters"], volumes, request["task_values"]))


def _first_line(descriptor: int) -> bytes:
    """Up to the newline and not a byte further, unbuffered: the rest of the pipe belongs to the lifeline."""
    line = bytearray()
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _write(file: Path, result: NotebookResult) -> None:
    whole = file.with_suffix(".writing")
    whole.write_text(json.dumps(asdict(result)), encoding="utf-8")
    whole.rename(file)


if __name__ == "__main__":
    main()
