"""Puts into running workspaces what a lab file says is in them. Done again, it changes only what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.bundle.references import with_job_ids
from databricks_bridge.local.lab_bundle import Bundle
from databricks_bridge.local.lab_file import Arrival, Lab, LabWorkspace
from databricks_bridge.local.rest import Rest

Say = Callable[[str], None]
FIRST_SECONDS = 600.0
_PAUSE_SECONDS = 0.2


class CannotFurnish(BridgeError):
    """A job that had to run first did not succeed."""


def furnish(lab: Lab, workspaces: Mapping[str, Rest], say: Say, sleep: Callable[[float], None] = time.sleep) -> None:
    """Catalogs, schemas, volumes, notebooks, the jobs that run first; then shares, jobs, and seed files last.

    A seed file that is there already is left alone, so that nothing arrives twice. Raises CannotFurnish, WorkspaceError.
    """
    started = []
    for one in lab.workspaces:
        rest = workspaces[one.spec.name]
        started.append((one, rest, _groundwork(one, rest, say)))
    for one, rest, runs in started:
        for key, run_id in runs.items():
            _wait(rest, key, run_id, sleep)
        for share in one.shares:
            rest.call("POST", "/local/shares", share)
    for one, rest, runs in started:
        _put_bundle_jobs(one.bundle, rest, runs)
        for job in one.jobs:
            rest.put_job(job)
    for one, rest, _ in started:
        land(rest, one.files, overwrite=False)


def land(rest: Rest, arrivals: Iterable[Arrival], *, overwrite: bool) -> int:
    """Upload files; how many of them arrived."""
    return sum(
        rest.upload(f"{arrival.folder}/{file.name}", file, overwrite=overwrite)
        for arrival in arrivals
        for file in arrival.files
    )


def _groundwork(one: LabWorkspace, rest: Rest, say: Say) -> dict[str, int]:
    """Up to the jobs that run first, which are started: key to run id."""
    say(f"{rest.name}: catalogs, schemas, volumes, notebooks, jobs")
    for catalog in one.catalogs:
        rest.make("/api/2.1/unity-catalog/catalogs", {"name": catalog})
    for schema in one.schemas:
        catalog, name = schema.split(".")
        rest.make("/api/2.1/unity-catalog/schemas", {"catalog_name": catalog, "name": name})
    for volume in one.volumes:
        catalog, schema, name = volume.split(".")
        body = {"catalog_name": catalog, "schema_name": schema, "name": name, "volume_type": "MANAGED"}
        rest.make("/api/2.1/unity-catalog/volumes", body)
    notebooks = {**(one.bundle.notebooks if one.bundle else {}), **(one.notebooks or {})}
    for path, file in notebooks.items():
        rest.notebook_file(path, file)
    runs: dict[str, int] = {}
    if one.bundle is None:
        return runs
    _put_securables(one.bundle, rest)
    for path, file in one.bundle.files.items():
        rest.workspace_file(path, file)
    for key in one.bundle.first:
        job_id = rest.put_job(one.bundle.jobs[key])
        runs[key] = int(rest.call("POST", "/api/2.2/jobs/run-now", {"job_id": job_id})["run_id"])
    return runs


def _put_securables(bundle: Bundle, rest: Rest) -> None:
    for kind, bodies in (("catalogs", bundle.catalogs), ("schemas", bundle.schemas), ("volumes", bundle.volumes)):
        for body in bodies:
            rest.make(f"/api/2.1/unity-catalog/{kind}", body)
    for kind, name, changes in bundle.grants:
        rest.call("PATCH", f"/api/2.1/unity-catalog/permissions/{kind}/{name}", {"changes": changes})


def _put_bundle_jobs(bundle: Bundle | None, rest: Rest, made: Mapping[str, int]) -> None:
    """All but those in `made`; in the bundle's order, so that the ids which a job names are there."""
    ids: dict[str, int] = {}
    for key, job in bundle.jobs.items() if bundle else ():
        assert bundle is not None
        if key in made:
            found = rest.job_id(str(job["name"]))
            assert found is not None, "it has run"
            ids[key] = found
        else:
            ids[key] = rest.put_job(with_job_ids(job, ids))
        if access := bundle.permissions.get(key):
            control = [
                {"permission_level": one["level"], **{who: name for who, name in one.items() if who != "level"}}
                for one in access
            ]
            rest.call("PUT", f"/api/2.0/permissions/jobs/{ids[key]}", {"access_control_list": control})


def _wait(rest: Rest, key: str, run_id: int, sleep: Callable[[float], None]) -> None:
    deadline = time.monotonic() + FIRST_SECONDS
    while True:
        run = rest.call("GET", "/api/2.2/jobs/runs/get", run_id=run_id)
        if run["status"]["state"] == "TERMINATED":
            break
        if time.monotonic() > deadline:
            raise CannotFurnish(
                f"{rest.name}: the job {key} has not ended in {FIRST_SECONDS:.0f} s; see {run['run_page_url']}"
            )
        sleep(_PAUSE_SECONDS)
    if run["state"].get("result_state") != "SUCCESS":
        output = rest.call("GET", "/api/2.2/jobs/runs/get-output", run_id=run["tasks"][0]["run_id"])
        raise CannotFurnish(
            f"{rest.name}: the job {key}, which runs first, failed: {output.get('error', run['state'])}"
        )
