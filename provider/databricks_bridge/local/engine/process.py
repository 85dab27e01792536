"""One notebook run, in the process that is its own."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from databricks_bridge.local.engine.model import NotebookResult


def perform(request: dict[str, Any]) -> NoReturn:
    """Run the notebook and write its result to a file. Ends the process: what a notebook leaves behind cannot hold it up."""
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
    from databricks_bridge.local.engine.job_context import CommandContext
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
    context = CommandContext(
        request.get("context", {}), os.environ.get("DATABRICKS_HOST", ""), os.environ.get("DATABRICKS_TOKEN", "")
    )
    return run_notebook(
        notebook,
        spark,
        DBUtils(request["parameters"], volumes, request["task_values"], context),
        serverless=request.get("serverless", False),
    )


def _write(file: Path, result: NotebookResult) -> None:
    whole = file.with_suffix(".writing")
    whole.write_text(json.dumps(asdict(result)), encoding="utf-8")
    whole.rename(file)
