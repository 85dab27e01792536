"""Jobs of the shapes that Databricks shows in its bundle examples: task values, conditional execution, for_each.

Each comes to the workspace in two ways, by the lab file's `bundle:` and by the body that the CLI's direct engine sends, and is then run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.furnish import furnish
from databricks_bridge.local.lab_file import read_lab
from databricks_bridge.local.rest import Rest
from tests.local.local_kit import OK, Api, Notebooks, client, eventually, write_notebook

HEAD = "# Databricks notebook source\n"
VALUES = """
- {task_key: giver, notebook_task: {notebook_path: src/giver.py}}
- {task_key: taker, depends_on: [{task_key: giver}], notebook_task: {notebook_path: src/taker.py}}
"""
BRANCHES = """
- {task_key: count, notebook_task: {notebook_path: src/count.py}}
- task_key: many
  depends_on: [{task_key: count}]
  condition_task: {left: "{{tasks.count.values.bad}}", op: GREATER_THAN, right: "100"}
- {task_key: mend, depends_on: [{task_key: many, outcome: "true"}], notebook_task: {notebook_path: src/mend.py}}
- {task_key: pass_on, depends_on: [{task_key: many, outcome: "false"}], notebook_task: {notebook_path: src/pass_on.py}}
"""
EACH = """
- {task_key: make, notebook_task: {notebook_path: src/make.py}}
- task_key: each
  depends_on: [{task_key: make}]
  for_each_task:
    inputs: "{{tasks.make.values.items}}"
    concurrency: 10
    task: {task_key: one, notebook_task: {notebook_path: src/one.py, base_parameters: {item: "{{input}}"}}}
"""


def by_lab_file(folder: Path, deployment: Deployment, tasks: str, sources: dict[str, str]) -> None:
    """Writes a bundle as one has it in a repository, with its jobs in a file of its own, and furnishes ops with it."""
    (folder / "resources").mkdir(parents=True)
    (folder / "src").mkdir()
    for name, text in sources.items():
        (folder / "src" / f"{name}.py").write_text(HEAD + text)
    listed = yaml.safe_load(tasks.replace("src/", "../src/"))
    (folder / "resources" / "job.yml").write_text(
        yaml.safe_dump({"resources": {"jobs": {"example": {"name": "example", "tasks": listed}}}})
    )
    (folder / "databricks.yml").write_text(
        "bundle: {name: examples}\ninclude: [resources/*.yml, resources/*/*.yml]\n"
        "targets: {dev: {mode: development, default: true}}\n"
    )
    (folder / "lab.yaml").write_text("workspaces: {ops: {bundle: {file: databricks.yml, target: dev}}}\n")
    rest = Rest("ops", deployment.host("ops"), deployment.token("ops"))
    furnish(read_lab(folder / "lab.yaml"), {"ops": rest}, lambda line: None)


def by_api(folder: Path, deployment: Deployment, tasks: str, sources: dict[str, str]) -> None:
    """Sends what the CLI sends, as recorded with it: `format`, `queue`, `deployment`, tasks by their key, no suffixes."""
    files = deployment.layout.workspace_files("ops") / "Shared"
    for name, text in sources.items():
        write_notebook(deployment, "ops", name)
        (files / f"{name}.py").write_text(HEAD + text)
    listed = yaml.safe_load(tasks.replace("src/", "/Workspace/Shared/").replace(".py}", "}").replace(".py,", ","))
    body = {
        "deployment": {"kind": "BUNDLE", "metadata_file_path": "/Workspace/Shared/state/metadata.json"},
        "edit_mode": "UI_LOCKED",
        "format": "MULTI_TASK",
        "max_concurrent_runs": 1,
        "name": "example",
        "queue": {"enabled": True},
        "tasks": sorted(listed, key=lambda task: str(task["task_key"])),
    }
    headers = {"Authorization": f"Bearer {deployment.token('ops')}"}
    httpx.post(f"{deployment.host('ops')}/api/2.2/jobs/create", json=body, headers=headers).raise_for_status()


Way = Callable[[Path, Deployment, str, dict[str, str]], None]
WAYS = pytest.mark.parametrize("way", [by_lab_file, by_api])


def ran(deployment: Deployment) -> dict[str, Any]:
    """The run of the one job of ops, once it has ended."""
    api = Api(client(deployment, "ops"))
    (job,) = api.get("list")["jobs"]
    assert job["settings"]["name"].endswith("example")
    run_id = int(api.post("run-now", job_id=job["job_id"])["run_id"])
    eventually(lambda: api.run(run_id)["status"]["state"] == "TERMINATED", seconds=90)
    return api.run(run_id)


def results(run: dict[str, Any]) -> dict[str, str]:
    return {task["task_key"]: task["state"]["result_state"] for task in run["tasks"]}


def sets(**values: Any) -> Callable[[NotebookRun], NotebookResult]:
    return lambda request: replace(OK, task_values=values)


@dataclass(frozen=True)
class Place:
    folder: Path
    deployment: Deployment


@pytest.fixture
def place(tmp_path: Path, deployment: Deployment) -> Place:
    return Place(tmp_path / "bundle", deployment)


@WAYS
def test_a_task_takes_the_value_of_the_task_before_it(place: Place, notebooks: Notebooks, way: Way) -> None:
    notebooks.functions["giver"] = sets(answer=41)
    way(place.folder, place.deployment, VALUES, {"giver": "", "taker": ""})
    assert results(ran(place.deployment)) == {"giver": "SUCCESS", "taker": "SUCCESS"}
    assert [one.task_values for one in notebooks.runs_of("taker")] == [{"giver": {"answer": 41}}]


@WAYS
@pytest.mark.parametrize(("bad", "taken", "left"), [(123, "mend", "pass_on"), (100, "pass_on", "mend")])
def test_a_condition_takes_one_branch_and_leaves_the_other(
    place: Place, notebooks: Notebooks, way: Way, bad: int, taken: str, left: str
) -> None:
    notebooks.functions["count"] = sets(bad=bad)
    way(place.folder, place.deployment, BRANCHES, {"count": "", "mend": "", "pass_on": ""})
    run = ran(place.deployment)
    assert run["state"]["result_state"] == "SUCCESS"
    found = results(run)
    assert found == {"count": "SUCCESS", "many": "SUCCESS", taken: "SUCCESS", left: "EXCLUDED"}
    (many,) = [task for task in run["tasks"] if task["task_key"] == "many"]
    assert many["condition_task"]["outcome"] == ("true" if taken == "mend" else "false")
    assert (len(notebooks.runs_of(taken)), len(notebooks.runs_of(left))) == (1, 0)


@WAYS
@pytest.mark.parametrize("items", [[1, 2, 3], ["a b", "ü"], []])
def test_a_for_each_task_runs_once_for_each_item(
    place: Place, notebooks: Notebooks, way: Way, items: list[Any]
) -> None:
    notebooks.functions["make"] = sets(items=items)
    way(place.folder, place.deployment, EACH, {"make": "", "one": ""})
    assert results(ran(place.deployment)) == {"make": "SUCCESS", "each": "SUCCESS"}
    assert sorted(one.parameters["item"] for one in notebooks.runs_of("one")) == sorted(str(item) for item in items)
