"""The file of a local deployment: what it says, what is wrong in it, and what it puts into real workspaces."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from databricks_bridge.core.errors import WorkspaceError
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.furnish import CannotFurnish, furnish, land
from databricks_bridge.local.lab_file import Lab, read_lab
from databricks_bridge.local.marked_yaml import FileError
from databricks_bridge.local.rest import Rest
from tests.local.local_kit import Notebooks, eventually, failure

LAB = """\
time_scale: 0.05
workspaces:
  ops:
    catalogs:
      main:
        landing: [flights]
        silver:
    notebooks:
      /Shared/bronze: bronze.py
    jobs:
      - name: bronze
        trigger: {file_arrival: {url: /Volumes/main/landing/flights/}}
        tasks:
          - {task_key: main, notebook_task: {notebook_path: /Shared/bronze}}
    files:
      /Volumes/main/landing/flights/: seed/*.json
  gold:
    port: 0
    metastore: reports
    bundle: {file: bundle.yml, target: gold, first: create_tables}
    shares:
      ops_share: {metastore: ops, schemas: [silver]}
waves:
  - ops:
      /Volumes/main/landing/flights: [wave-1/a.json, wave-1/*.json]
  - ops:
"""
BUNDLE = """\
bundle: {name: lab}
resources:
  jobs:
    create_tables:
      tasks: [{task_key: make, notebook_task: {notebook_path: ./bronze.py}}]
targets:
  gold:
    resources:
      jobs:
        gold:
          name: gold-job
          parameters: [{name: day, default: "{{job.start_time.iso_date}}"}]
          tasks: [{task_key: main, notebook_task: {notebook_path: ./bronze.py}}]
"""
SOURCE = "# Databricks notebook source\n"


def lab_in(folder: Path, text: str = LAB, bundle: str = BUNDLE) -> Path:
    for name in ("seed/one.json", "wave-1/b.json", "wave-1/a.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "bronze.py").write_text(SOURCE)
    (folder / "bundle.yml").write_text(bundle)
    (folder / "lab.yaml").write_text(text)
    return folder / "lab.yaml"


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    lab = read_lab(lab_in(tmp_path))
    ops, gold = lab.workspaces
    assert (lab.home, lab.time_scale) == (tmp_path / ".lab", 0.05)
    assert (ops.spec.name, ops.spec.metastore, ops.spec.port) == ("ops", None, 0)
    assert (ops.catalogs, ops.schemas) == (("main",), ("main.landing", "main.silver"))
    assert ops.volumes == ("main.landing.flights",)
    assert gold.spec.metastore == "reports"
    assert gold.shares[0] == {
        "catalog": "ops_share",
        "source_metastore": "ops",
        "source_catalog": "main",
        "schemas": ["silver"],
        "lag": "none",
        "history": True,
    }
    assert gold.bundle is not None
    root = "/Workspace/Users/local-workspace/.bundle/lab/gold/files"
    assert gold.bundle.notebooks == {f"{root}/bronze": tmp_path / "bronze.py"}
    assert [job["name"] for job in gold.bundle.jobs.values()] == ["create_tables", "gold-job"]
    assert gold.bundle.first == ("create_tables",)
    (arrival,) = lab.waves[0]["ops"]
    assert arrival.folder == "/Volumes/main/landing/flights"
    assert [file.name for file in arrival.files] == ["a.json", "b.json"]
    assert lab.waves[1] == {"ops": ()}


@pytest.mark.parametrize(
    ("was", "becomes", "line", "says"),
    [
        ("time_scale: 0.05", "time_scale: 2", 1, "time_scale: is '2'; give a number from 0.001 to 1"),
        ("time_scale: 0.05", "timescale: 0.05", 1, "timescale: is not a key here; use home, time_scale, tls, waves, workspaces"),
        ("    port: 0", "    prot: 0", 18, "workspaces.gold.prot: is not a key here; use address, bundle, catalogs"),
        ("    port: 0", "    port: ops", 18, "workspaces.gold.port: is 'ops'; give a number from 0 to 65535"),
        ("    port: 0", "    metastore: x", 19, "workspaces.gold.metastore: is given twice"),
        ("  gold:", "  Gold:", 17, "workspaces.Gold: workspace name 'Gold' may hold lower-case letters"),
        ("/Shared/bronze: bronze.py", "/Shared/bronze: gone.py", 9, "workspaces.ops.notebooks./Shared/bronze: gone.py is no file of"),
        ("      - name: bronze", "      - nam: bronze", 11, "workspaces.ops.jobs[0]: name is missing"),
        ("seed/*.json", "seed/*.csv", 16, "seed/*.csv is no file of"),
        ("metastore: ops, schemas", "metastore: met, schemas", 22, "workspaces.gold.shares.ops_share.metastore: no workspace has the metastore 'met'"),
        ("metastore: ops, schemas", "metastore: reports, schemas", 22, "is the workspace's own metastore"),
        ("schemas: [silver]", "schemas: [silver], lag: late", 22, "lag: is 'late'; use none or held"),
        ("target: gold", "target: prod", 20, "workspaces.gold.bundle.target: "),
        ("first: create_tables", "first: tables", 20, "has no job 'tables' for this target; it has create_tables, gold"),
        ("  - ops:\n      /V", "  - met:\n      /V", 24, "waves[0].met: is not a key here; use gold, ops"),
        ("/Volumes/main/landing/flights: [", "/tmp/x: [", 25, "is not a folder of a volume"),
        ("  - ops:\n", "  - ops: [\n", 26, "is not YAML: expected ',' or ']'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_line_and_key(tmp_path: Path, was: str, becomes: str, line: int, says: str) -> None:
    assert LAB.count(was) >= 1
    file = lab_in(tmp_path, LAB.replace(was, becomes, 1))
    with pytest.raises(FileError) as wrong:
        read_lab(file)
    assert str(wrong.value).startswith(f"{file}:{line}: ")
    assert says in str(wrong.value)


@pytest.mark.parametrize(("text", "says"), [("", "workspaces is missing"), ("- a\n", "is a list; give a mapping")])
def test_a_file_without_workspaces_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FileError, match=says):
        read_lab(lab_in(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"gone.yaml: cannot be read: No such file"):
        read_lab(tmp_path / "gone.yaml")


def rests(up: Deployment) -> dict[str, Rest]:
    return {name: Rest(name, up.host(name), up.token(name)) for name in up.workspaces}


def put(lab: Lab, up: Deployment) -> dict[str, Rest]:
    found = rests(up)
    furnish(lab, found, lambda line: None)
    return found


def jobs_of(rest: Rest) -> dict[str, int]:
    jobs = rest.call("GET", "/api/2.2/jobs/list", limit=100).get("jobs", [])
    return {job["settings"]["name"]: job["job_id"] for job in jobs}


def test_what_it_says_is_there_and_done_again_changes_nothing(tmp_path: Path, notebooks: Notebooks) -> None:
    lab = read_lab(lab_in(tmp_path))
    specs = [one.spec for one in lab.workspaces]
    with deployment_in_thread(lab.home, specs, engine=InstantEngine(notebooks.run), time_scale=0.01) as up:
        workspaces = put(lab, up)
        assert [run.notebook.stem for run in notebooks.seen][:1] == ["bronze"], "create_tables ran"
        ops, gold = workspaces["ops"], workspaces["gold"]
        jobs = (jobs_of(ops), jobs_of(gold))
        assert [sorted(names) for names in jobs] == [["bronze"], ["create_tables", "gold-job"]]
        listed = gold.call("GET", "/local/shares")["shares"]
        assert [share["catalog"] for share in listed] == ["ops_share"]
        assert (up.layout.volume_path("ops", "/Volumes/main/landing/flights/one.json")).read_text() == "{}"

        (tmp_path / "seed" / "one.json").write_text("changed since")
        put(lab, up)
        assert (jobs_of(ops), jobs_of(gold)) == jobs
        assert (up.layout.volume_path("ops", "/Volumes/main/landing/flights/one.json")).read_text() == "{}"

        assert land(ops, lab.waves[0]["ops"], overwrite=True) == 2
        (tmp_path / "seed" / "two.json").write_text("{}")
        eventually(lambda: ops.call("GET", "/api/2.2/jobs/runs/list", job_id=jobs[0]["bronze"]).get("runs"))


def test_a_job_that_runs_first_and_fails_stops_it(tmp_path: Path, notebooks: Notebooks) -> None:
    lab = read_lab(lab_in(tmp_path))
    notebooks.functions["bronze"] = lambda run: failure("AnalysisException: no such schema")
    with (
        deployment_in_thread(lab.home, [one.spec for one in lab.workspaces], engine=InstantEngine(notebooks.run)) as up,
        pytest.raises(
            CannotFurnish, match="gold: the job create_tables, which runs first, failed: AnalysisException: no"
        ),
    ):
        put(lab, up)


def test_a_refusal_names_the_workspace_and_shows_no_token(tmp_path: Path, notebooks: Notebooks) -> None:
    text = LAB.replace("url: /Volumes/main/landing/flights/", "url: nowhere")
    lab = read_lab(lab_in(tmp_path, text))
    with deployment_in_thread(
        lab.home, [one.spec for one in lab.workspaces], engine=InstantEngine(notebooks.run)
    ) as up:
        with pytest.raises(WorkspaceError) as refused:
            put(lab, up)
        assert "the workspace ops answered 400 to POST /api/2.2/jobs/create" in str(refused.value)
        assert up.token("ops") not in str(refused.value) + json.dumps([repr(one) for one in rests(up).values()])


def test_the_text_of_this_module_is_a_lab(tmp_path: Path) -> None:
    """The example in the docs of `lab_file` says only what can be said."""
    from databricks_bridge.local import lab_file

    text = textwrap.dedent((lab_file.__doc__ or "").partition("\n\n")[2].partition("\n\nPaths")[0])
    for name in ("notebooks/bronze.py", "seed/a.json", "wave-1/a.json", "databricks.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "databricks.yml").write_text(
        "bundle: {name: b}\ntargets: {ops: {resources: {jobs: {create_tables: {name: a}}}}}"
    )
    text = text.replace("[...]", "[]")
    (tmp_path / "lab.yaml").write_text(text.replace("  ops:\n", "  met:\n  ops:\n", 1))
    lab = read_lab(tmp_path / "lab.yaml")
    assert lab.home == tmp_path / "lab"


def test_the_lab_of_the_composition_lands_every_file_of_the_demo_once() -> None:
    root = Path(__file__).resolve().parents[2]
    lab = read_lab(root / "docker" / "lab.yaml")
    assert [one.spec.name for one in lab.workspaces] == ["ops", "met", "analytics"]
    landed = [file.name for wave in lab.waves for arrivals in wave.values() for one in arrivals for file in one.files]
    assert sorted(landed) == sorted(file.name for file in (root / "demo" / "data").glob("*/wave-*.json"))
