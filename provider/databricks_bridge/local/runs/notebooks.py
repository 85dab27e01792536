"""Where the notebook of a task is, and what a run of it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from databricks_bridge.local.engine.model import NotebookRun
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.admission import reference_values
from databricks_bridge.local.runs.model import Attempt, Outcome, Run
from databricks_bridge.local.runs.plan import Task
from databricks_bridge.local.runs.references import resolve_all

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
}
"""What `{{tasks.<key>.result_state}}` says."""


def find_notebook(files: Path, notebook_path: str) -> Path | None:
    """The file of a workspace path, with or without `.py` and with or without the `/Workspace` prefix; else None."""
    parts = [part for part in PurePosixPath(notebook_path).parts if part != "/"]
    if not parts or ".." in parts:
        return None
    for names in (parts, parts[1:] if parts[0] == "Workspace" else ["Workspace", *parts]):
        if not names:
            continue
        file = files.joinpath(*names)
        for candidate in (file, file.with_name(file.name + ".py")):
            if candidate.is_file():
                return candidate
    return None


def parameters_of(
    run: Run, task: Task, attempt: Attempt, latest: Sequence[Attempt], workspace: Workspace
) -> tuple[dict[str, str], dict[str, str]]:
    """The notebook's widgets, and the task's own parameters with references resolved.

    A job parameter wins over a task parameter of the same name; notebook_params of run-now win over base_parameters.
    """
    job_parameters = {item["name"]: item["value"] for item in run.parameters}
    values = {
        **reference_values(run, workspace),
        **{f"job.parameters.{name}": value for name, value in job_parameters.items()},
        "task.name": attempt.task_key,
        "task.run_id": str(attempt.run_id),
        "task.execution_count": str(attempt.number + 1),
        "task.notebook_path": str(task["notebook_task"]["notebook_path"]),
    }
    for other in latest:
        prefix = f"tasks.{other.task_key}"
        values[f"{prefix}.run_id"] = str(other.run_id)
        values[f"{prefix}.execution_count"] = str(other.number + 1)
        if other.outcome is not None:
            values[f"{prefix}.result_state"] = RESULT_WORDS.get(other.outcome, "")
    base = {**task["notebook_task"].get("base_parameters", {}), **run.notebook_params}
    resolved = resolve_all(base, values)
    return {**resolved, **job_parameters}, resolved


def notebook_run(run: Run, attempt: Attempt, notebook: Path, workspace: Workspace) -> NotebookRun:
    """What the engine is given for an attempt whose parameters are resolved."""
    folder = workspace.layout.run_folder(workspace.name, attempt.run_id)
    folder.mkdir(parents=True, exist_ok=True)
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
    )
