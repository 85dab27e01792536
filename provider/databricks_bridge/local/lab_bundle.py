"""The jobs of a Databricks Asset Bundle, as far as plain YAML says them: one file, one target, its notebooks."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.marked_yaml import Entry, read_marked

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
Json = dict[str, Any]


@dataclass(frozen=True)
class Bundle:
    """`jobs` by their key, with notebook paths as they are in the workspace; `notebooks` such a path to its file.

    `first` are the keys of jobs that are run to their end before the others are made.
    """

    jobs: Mapping[str, Json]
    notebooks: Mapping[str, Path]
    first: tuple[str, ...]


def read_bundle(entry: Entry) -> Bundle:
    """What `{file:, target:, first:}` names. Raises FileError, also for what only `databricks bundle deploy` can do."""
    fields = entry.fields(("file", "target", "first"))
    for key in ("file", "target"):
        if key not in fields:
            raise entry.error(f"{key} is missing")
    file = entry.file.parent / fields["file"].text()
    top = read_marked(file).fields()
    targets = top["targets"].fields() if "targets" in top else {}
    name = fields["target"].text()
    if name not in targets:
        raise fields["target"].error(f"{file} has no target {name!r}; it has {', '.join(sorted(targets)) or 'none'}")
    target = targets[name].fields()
    jobs = {**_jobs(top), **_jobs(target)}
    first = tuple(item.text() for item in fields["first"].items()) if "first" in fields else ()
    for key in first:
        if key not in jobs:
            raise fields["first"].error(f"{file} has no job {key!r} for this target; it has {', '.join(jobs)}")
    root = posixpath.join(_root(top, target, name), "files")
    notebooks: dict[str, Path] = {}
    made = {key: _job(job, file.parent, root, notebooks) for key, job in jobs.items()}
    return Bundle(made, notebooks, first)


def _jobs(fields: Mapping[str, Entry]) -> dict[str, Entry]:
    resources = fields["resources"].fields() if "resources" in fields else {}
    return resources["jobs"].fields() if "jobs" in resources else {}


def _root(top: Mapping[str, Entry], target: Mapping[str, Entry], name: str) -> str:
    for fields in (target, top):
        workspace = fields["workspace"].fields() if "workspace" in fields else {}
        if "root_path" in workspace:
            _check_references(workspace["root_path"], workspace["root_path"].text())
            return workspace["root_path"].text()
    bundle = top["bundle"].fields() if "bundle" in top else {}
    return f"/Workspace/Shared/.bundle/{bundle['name'].text() if 'name' in bundle else 'bundle'}/{name}"


def _job(entry: Entry, folder: Path, root: str, notebooks: dict[str, Path]) -> Json:
    job: Json = dict(entry.value() or {})
    _check_references(entry, job)
    fields = entry.fields()
    job.setdefault("name", entry.key.rpartition(".")[2])
    for task, where in zip(job.get("tasks") or [], fields["tasks"].items() if "tasks" in fields else [], strict=True):
        if not str((task.get("spark_python_task") or {}).get("python_file", "/")).startswith("/"):
            raise where.error("names a Python file of the bundle; of a bundle's files only notebooks are uploaded here")
        notebook = task.get("notebook_task") or {}
        if "notebook_path" not in notebook:
            continue
        written = str(notebook["notebook_path"])
        if written.startswith("/"):
            continue
        file = folder / written
        if not file.is_file():
            raise where.error(f"the notebook {written} is no file of {folder}")
        path = posixpath.normpath(posixpath.join(root, written.removesuffix(".py")))
        notebooks[path] = file
        notebook["notebook_path"] = path
    return job


def _check_references(entry: Entry, value: Any) -> None:
    """`{{...}}` is resolved by the workspace, `${...}` by the CLI alone."""
    found = _REFERENCE.search(repr(value))
    if found:
        raise entry.error(
            f"uses ${{{found[1]}}}, which only the Databricks CLI resolves; deploy with it "
            "(databricks bundle deploy), or write the value"
        )
