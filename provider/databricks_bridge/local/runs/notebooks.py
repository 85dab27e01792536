"""Where the notebook of a task is, and what a run of it is given."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.model import NotebookRun
from databricks_bridge.local.layout import is_inside
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.admission import reference_values
from databricks_bridge.local.runs.endings import TASK_ENDINGS
from databricks_bridge.local.runs.model import Attempt, Outcome, Run
from databricks_bridge.local.runs.plan import Task

SOURCE_COPY = "source.py"
"""Name of the copy of what ran, in the folder of its task run."""
LINEAGE = "lineage.jsonl"
"""Name of the file of what its statements read and wrote, in the same folder."""
RESULT_WORDS: Mapping[Outcome, str] = {
    Outcome.SUCCESS: "success",
    Outcome.FAILED: "failed",
    Outcome.BROKEN: "failed",
    Outcome.NO_NOTEBOOK: "failed",
    Outcome.TIMEDOUT: "timedout",
    Outcome.CANCELED: "canceled",
    Outcome.UPSTREAM_FAILED: "upstream_failed",
    Outcome.UPSTREAM_CANCELED: "upstream_canceled",
    Outcome.EXCLUDED: "excluded",
    Outcome.DISABLED: "disabled",
}
"""What `{{tasks.<key>.result_state}}` says."""


def find_notebook(files: Path, notebook_path: str) -> Path | None:
    """The file of a workspace path, with or without `.py` and with or without the `/Workspace` prefix; else None.

    What a link takes out of `files` is not there.
    """
    parts = [part for part in PurePosixPath(notebook_path).parts if part != "/"]
    if not parts or ".." in parts:
        return None
    for names in (parts, parts[1:] if parts[0] == "Workspace" else ["Workspace", *parts]):
        if not names:
            continue
        file = files.joinpath(*names)
        for candidate in (file, file.with_name(file.name + ".py")):
            if candidate.is_file() and is_inside(candidate, files):
                return candidate
    return None


def find_python_file(workspace: Workspace, path: str) -> Path | None:
    """The file of a workspace path or of `/Volumes/...`, with or without `dbfs:` before it; else None."""
    if path.removeprefix("dbfs:").startswith("/Volumes/"):
        try:
            file = workspace.layout.volume_path(workspace.metastore, path)
        except InvalidArgument:
            return None
        return file if file.is_file() else None
    return find_notebook(workspace.layout.workspace_files(workspace.name), path)


def reference_values_of(
    run: Run, task: Task, attempt: Attempt, others: Sequence[tuple[Task, Attempt]], workspace: Workspace
) -> dict[str, str]:
    """The values of the references that an attempt makes. `others` are the tasks it names, with their newest attempts."""
    values = {
        **reference_values(run, workspace),
        **{f"job.parameters.{item['name']}": item["value"] for item in run.parameters},
        "task.name": attempt.task_key,
        "task.run_id": str(attempt.run_id),
        "task.execution_count": str(attempt.number + 1),
        "task.notebook_path": str(task.get("notebook_task", {}).get("notebook_path", "")),
    }
    if attempt.input is not None:
        values |= _input_values(json.loads(attempt.input))
    for other_task, other in others:
        prefix = f"tasks.{other.task_key}"
        values[f"{prefix}.run_id"] = str(other.run_id)
        values[f"{prefix}.execution_count"] = str(other.number + 1)
        values[f"{prefix}.notebook_path"] = str(other_task.get("notebook_task", {}).get("notebook_path", ""))
        if other.outcome is not None:
            values[f"{prefix}.result_state"] = RESULT_WORDS.get(other.outcome, "")
            ending = TASK_ENDINGS[other.outcome]
            values[f"{prefix}.error_code"] = "" if ending.type == "SUCCESS" else ending.code
        if other.output:
            values[f"{prefix}.output.rows"] = json.dumps(other.output["rows"])
            for key, value in other.output["first_row"].items():
                values[f"{prefix}.output.first_row.{key}"] = "" if value is None else _text(value)
        for key, value in other.task_values.items():
            values[f"{prefix}.values.{key}"] = _text(value)
    return values


def _input_values(value: Any) -> dict[str, str]:
    fields = value if isinstance(value, dict) else {}
    return {"input": _text(value), **{f"input.{name}": _text(item) for name, item in fields.items()}}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def run_context(run: Run, attempt: Attempt, workspace: Workspace, task: Task) -> dict[str, str]:
    """What a run says of itself, by the names of the tags of Databricks' command context. What it lacks is left out."""
    notebook_path = str(task.get("notebook_task", {}).get("notebook_path", ""))
    known = {
        "runId": str(attempt.run_id),
        "idInJob": str(attempt.run_id),
        "multitaskParentRunId": str(run.run_id),
        "taskKey": attempt.task_key,
        "jobId": "" if run.job_id is None else str(run.job_id),
        "jobName": run.name,
        "jobTriggerType": run.trigger.lower(),
        "orgId": workspace.workspace_id,
        "user": workspace.user_name,
        "notebookPath": notebook_path,
    }
    return {name: value for name, value in known.items() if value}


def notebook_run(run: Run, attempt: Attempt, notebook: Path, workspace: Workspace) -> NotebookRun:
    """What the engine is given for an attempt whose parameters are resolved."""
    folder = workspace.layout.run_folder(workspace.name, attempt.run_id)
    folder.mkdir(parents=True, exist_ok=True)
    # What ran, for runs/export: the file in the workspace may be another one by then.
    shutil.copyfile(notebook, folder / SOURCE_COPY)
    return NotebookRun(
        run_id=attempt.run_id,
        task_key=attempt.task_key,
        metastore_root=workspace.layout.metastore_root(workspace.metastore),
        volumes_root=workspace.layout.volumes_root(workspace.metastore),
        notebook=notebook,
        parameters=dict(attempt.parameters),
        host=workspace.host,
        token=workspace.credentials.token,
        log=folder / "output.log",
        lineage=folder / LINEAGE,
        ca_file=workspace.ca_file,
    )
