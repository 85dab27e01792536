"""runs/export: what a notebook task ran, cell by cell, with what each cell printed, as one HTML document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.source import Cell, CellKind, parse_notebook
from databricks_bridge.local.pages.document import document, text
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.model import Attempt, Run
from databricks_bridge.local.runs.notebooks import SOURCE_COPY
from databricks_bridge.local.runs.plan import task_of
from databricks_bridge.local.server.errors import InvalidParameterValue

VIEWS = ("CODE", "DASHBOARDS", "ALL")
"""Jobs API, ViewsToExport. There are no dashboards here."""
EXPORT_LIMIT = 10 * 1024 * 1024
"""Bytes of output that a document shows."""


def exported_views(workspace: Workspace, run: Run, attempt: Attempt, views: str) -> dict[str, Any]:
    """The answer of runs/export. Raises InvalidParameterValue for a task that is no notebook, or has not begun."""
    if views not in VIEWS:
        raise InvalidParameterValue(f"views_to_export is {views!r}; use one of {', '.join(VIEWS)}")
    task = task_of(run, attempt)
    if "notebook_task" not in task:
        raise InvalidParameterValue(f"Run {attempt.run_id} is not a notebook task; only those can be exported")
    folder = workspace.layout.run_folder(workspace.name, attempt.run_id)
    source = folder / SOURCE_COPY
    if not source.is_file():
        raise InvalidParameterValue(f"Run {attempt.run_id} has not run its notebook; there is nothing to export")
    if views == "DASHBOARDS":
        return {}
    name = Path(task["notebook_task"]["notebook_path"]).name
    return {
        "views": [
            {"content": _document(name, source, folder / "output.log", attempt), "name": name, "type": "NOTEBOOK"}
        ]
    }


def _document(name: str, source: Path, log: Path, attempt: Attempt) -> str:
    printed = log.read_bytes()[:EXPORT_LIMIT] if log.is_file() else b""
    whole = source.read_text(encoding="utf-8-sig")
    try:
        cells = parse_notebook(whole)
    except NotServedHere:
        cells = (Cell(CellKind.PYTHON, whole, 1),)
    spans = {line: (begin, end) for line, begin, end in attempt.cells}
    parts = [f"<h1>{text(name)}</h1>"]
    for cell in cells:
        parts.append(f'<pre class="code">{text(cell.text)}</pre>')
        begin, end = spans.get(cell.first_line, (0, 0))
        if output := printed[begin:end].decode(errors="replace"):
            parts.append(f'<pre class="output">{text(output)}</pre>')
    if not attempt.cells and printed:
        # Which cell printed what is known of a run that came to its end only.
        parts.append(f'<pre class="output">{text(printed.decode(errors="replace"))}</pre>')
    if attempt.error is not None:
        parts.append(f'<pre class="error">{text(attempt.error)}</pre>')
    return document(name, "".join(parts))
