"""Deploying the bundle by the official SDK to local workspaces, and what the demo reads back from them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine import InstantEngine, NotebookResult, NotebookRun
from demo import deploy, waves
from demo.databricks_api import Workspace, succeeded, workspaces
from demo.places import WORKSPACES, DemoFailed, Places
from demo.processes import wait_until


class Notebooks:
    """Stands in for Spark: remembers which notebooks ran and with what."""

    def __init__(self) -> None:
        self.runs: list[NotebookRun] = []
        self.error: str | None = None

    def __call__(self, run: NotebookRun) -> NotebookResult:
        self.runs.append(run)
        return NotebookResult(self.error is None, '{"rows_in": 0}', self.error, self.error)


@pytest.fixture
def notebooks() -> Notebooks:
    return Notebooks()


@pytest.fixture
def deployed(tmp_path: Path, notebooks: Notebooks) -> Iterator[dict[str, Workspace]]:
    places = Places(tmp_path)
    with deployment_in_thread(places.local, WORKSPACES, engine=InstantEngine(notebooks), time_scale=0.01):
        yield workspaces(places.deployment)


def nothing(_: str) -> None:
    return


def poll(ready: Callable[[], bool], what: str) -> None:
    wait_until(ready, what, 30, lambda: None, pause=0.05)


def names(workspace: Workspace) -> list[str]:
    return sorted(job["settings"]["name"] for job in workspace.get("/api/2.2/jobs/list", limit=100)["jobs"])


def test_every_target_is_deployed_and_deploying_again_changes_nothing(
    deployed: dict[str, Workspace], notebooks: Notebooks
) -> None:
    deploy.deploy(deployed.values(), nothing)
    found = {name: names(workspace) for name, workspace in deployed.items()}
    assert found == {
        "ops": ["bronze-audit", "bronze-flights", "create-tables", "silver-flights"],
        "met": ["bronze-weather", "create-tables", "silver-weather"],
        "analytics": ["create-tables", "delays-by-weather"],
    }
    assert sorted(run.parameters["tables"] for run in notebooks.runs) == ["delays", "flights", "weather"]
    ids = {name: deployed["ops"].job_id(name) for name in found["ops"]}
    deploy.deploy(deployed.values(), nothing)
    assert {name: names(workspace) for name, workspace in deployed.items()} == found
    assert {name: deployed["ops"].job_id(name) for name in found["ops"]} == ids


def test_notebooks_are_the_bundles(deployed: dict[str, Workspace]) -> None:
    deploy.deploy([deployed["analytics"]], nothing)
    run = deployed["analytics"].client.workspace.export(
        "/Workspace/Shared/databricks-bridge-demo/analytics/files/notebooks/delays_by_weather"
    )
    assert run.content is not None
    source = deploy.BUNDLE.parent / "notebooks" / "delays_by_weather.py"
    assert base64.b64decode(run.content) == source.read_bytes()


def test_tables_that_cannot_be_made_stop_the_deploy(deployed: dict[str, Workspace], notebooks: Notebooks) -> None:
    notebooks.error = "AnalysisException: no"
    with pytest.raises(DemoFailed, match="the tables of met could not be made: AnalysisException: no"):
        deploy.deploy([deployed["met"]], nothing)


def test_landed_files_start_bronze_by_themselves(deployed: dict[str, Workspace], notebooks: Notebooks) -> None:
    deploy.deploy([deployed["ops"], deployed["met"]], nothing)
    assert waves.land(deployed, 1) == len(waves.files("ops", 1)) + len(waves.files("met", 1))
    for workspace, job in (("ops", "bronze-flights"), ("met", "bronze-weather")):
        poll(lambda w=workspace, j=job: any(succeeded(run) for run in deployed[w].runs(j)), job)
        assert {run["trigger"] for run in deployed[workspace].runs(job)} == {"FILE_ARRIVAL"}


def test_tokens_are_not_shown(deployed: dict[str, Workspace]) -> None:
    for workspace in deployed.values():
        assert workspace.token not in repr(workspace)


def test_a_job_that_is_not_there_is_named(deployed: dict[str, Workspace]) -> None:
    with pytest.raises(DemoFailed, match="ops has 0 jobs named gone"):
        deployed["ops"].job_id("gone")
