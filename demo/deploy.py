"""Deploy one target of the bundle with the official SDK: schemas, volumes, notebooks, tables, jobs.

The official CLI does this on Databricks (`databricks bundle deploy`). Here the SDK does the same steps, so that the demo
needs no program from outside the lock. Deploying again changes jobs in place.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from demo.databricks_api import Workspace, is_active, succeeded
from demo.places import ROOT, DemoFailed
from demo.processes import wait_until

if TYPE_CHECKING:
    from databricks.sdk.service.jobs import JobSettings

Json = dict[str, Any]
BUNDLE = ROOT / "dags" / "databricks" / "databricks.yml"
SCHEMAS = {
    "ops": ("landing", "bronze", "silver", "audit"),
    "met": ("landing", "bronze", "silver"),
    "analytics": ("gold",),
}
VOLUMES = {"ops": ("flights", "checkpoints"), "met": ("weather", "checkpoints"), "analytics": ()}
# A job that must have run before the others are made: a trigger can only watch a table that exists.
FIRST = "create_tables"


def deploy(targets: Iterable[Workspace], say: Callable[[str], None], bundle: Path = BUNDLE) -> None:
    """Deploy to each workspace the target that is named like it. Raises DemoFailed when a table could not be made."""
    described = yaml.safe_load(bundle.read_text())["targets"]
    making: list[tuple[Workspace, str, dict[str, Json], int]] = []
    for workspace in targets:
        target = described[workspace.name]
        root = posixpath.join(target["workspace"]["root_path"], "files")
        jobs: dict[str, Json] = target["resources"]["jobs"]
        say(f"{workspace.name}: catalog, schemas, volumes, notebooks")
        _make_schemas(workspace)
        _import_notebooks(workspace, bundle.parent, root, jobs)
        started = workspace.post("/api/2.2/jobs/run-now", {"job_id": _put_job(workspace, jobs[FIRST], root)})
        making.append((workspace, root, jobs, int(started["run_id"])))
    for workspace, root, jobs, run_id in making:
        _wait(workspace, run_id, say)
        for key, job in jobs.items():
            if key != FIRST:
                _put_job(workspace, job, root)


def share(reader: Workspace, catalog: str, source_metastore: str) -> None:
    """Show the silver schema of another metastore in `reader`, with history. A local-only call."""
    body = {
        "catalog": catalog,
        "source_metastore": source_metastore,
        "source_catalog": "main",
        "schemas": ["silver"],
        "lag": "none",
        "history": True,
    }
    reader.post("/local/shares", body)


def notebook_path(root: str, relative: str) -> str:
    """Where the bundle's notebook lies in the workspace: without the suffix, as Databricks names notebooks."""
    return posixpath.normpath(posixpath.join(root, relative.removesuffix(".py")))


def _wait(workspace: Workspace, run_id: int, say: Callable[[str], None]) -> None:
    # Not the SDK's waiter: it sleeps longer and longer, and three workspaces are waited for at once here.
    def done() -> bool:
        return not is_active(workspace.run(run_id))

    wait_until(done, f"the tables of {workspace.name}", 180, lambda: say(f"{workspace.name}: making tables"))
    run = workspace.run(run_id)
    if not succeeded(run):
        raise DemoFailed(f"the tables of {workspace.name} could not be made: {workspace.output(run).get('error')}")


def _make_schemas(workspace: Workspace) -> None:
    from databricks.sdk.errors.base import DatabricksError
    from databricks.sdk.service.catalog import VolumeType

    client = workspace.client
    wanted: list[Callable[[], object]] = [partial(client.catalogs.create, "main")]
    wanted += [partial(client.schemas.create, schema, "main") for schema in SCHEMAS[workspace.name]]
    wanted += [
        partial(client.volumes.create, "main", "landing", volume, VolumeType.MANAGED)
        for volume in VOLUMES[workspace.name]
    ]
    for create in wanted:
        try:
            create()
        except DatabricksError as error:
            # CATALOG_ALREADY_EXISTS and its siblings have no class of their own in the SDK.
            if not str(error.error_code).endswith("ALREADY_EXISTS"):
                raise


def _import_notebooks(workspace: Workspace, folder: Path, root: str, jobs: dict[str, Json]) -> None:
    from databricks.sdk.service.workspace import ImportFormat, Language

    relative = sorted({task["notebook_task"]["notebook_path"] for job in jobs.values() for task in job["tasks"]})
    paths = {notebook_path(root, path): folder / path for path in relative}
    for parent in sorted({posixpath.dirname(path) for path in paths}):
        workspace.client.workspace.mkdirs(parent)
    for path, source in paths.items():
        workspace.client.workspace.upload(
            path, io.BytesIO(source.read_bytes()), format=ImportFormat.SOURCE, language=Language.PYTHON, overwrite=True
        )


def _put_job(workspace: Workspace, described: Json, root: str) -> int:
    from databricks.sdk.service.jobs import JobSettings

    settings = JobSettings.from_dict(described)
    for task in settings.tasks or []:
        if task.notebook_task is not None:
            task.notebook_task.notebook_path = notebook_path(root, task.notebook_task.notebook_path)
    for job in workspace.client.jobs.list(name=settings.name):
        if job.job_id is not None:
            workspace.client.jobs.reset(job.job_id, settings)
            return job.job_id
    return _create(workspace, settings)


def _create(workspace: Workspace, settings: JobSettings) -> int:
    created = workspace.client.jobs.create(
        name=settings.name,
        max_concurrent_runs=settings.max_concurrent_runs,
        parameters=settings.parameters,
        queue=settings.queue,
        tasks=settings.tasks,
        trigger=settings.trigger,
    )
    if created.job_id is None:
        raise RuntimeError(f"{workspace.name} made the job {settings.name} and gave no id for it")
    return created.job_id
