"""A bundle of the lab file is what `databricks bundle deploy` would deploy, or is refused by file, line and key: T77."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.furnish import furnish
from databricks_bridge.local.lab_bundle import Bundle
from databricks_bridge.local.lab_file import read_lab
from databricks_bridge.local.marked_yaml import FileError
from databricks_bridge.local.refusals import ALL, Area
from databricks_bridge.local.rest import Rest
from tests.local.local_kit import Notebooks

NOTEBOOK = "# Databricks notebook source\n"
TASK = "{task_key: main, notebook_task: {notebook_path: %s}}"


def lab(folder: Path, target: str = "dev", **files: str) -> Path:
    """A lab with one workspace that has the bundle of these files; `__` stands for `/`, and `_yml` for `.yml`."""
    for name, text in {"src__nb_py": NOTEBOOK, **files}.items():
        path = folder / name.replace("__", "/").replace("_yml", ".yml").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    (folder / "lab.yaml").write_text(f"workspaces: {{ops: {{bundle: {{file: databricks.yml, target: {target}}}}}}}\n")
    return folder / "lab.yaml"


def bundle(folder: Path, target: str = "dev", **files: str) -> Bundle:
    found = read_lab(lab(folder, target, **files)).workspaces[0].bundle
    assert found is not None
    return found


def test_included_files_are_part_of_it_and_their_paths_are_their_own(tmp_path: Path) -> None:
    read = bundle(
        tmp_path,
        "default",
        databricks_yml="bundle: {name: b}\ninclude: ['resources/*.yml', resources/deep/x.yml]",
        resources__a_yml=f"resources: {{jobs: {{a: {{tasks: [{TASK % '../src/nb.py'}]}}}}}}",
        resources__deep__x_yml=f"resources: {{jobs: {{x: {{tasks: [{TASK % '../../src/nb.py'}]}}}}}}",
    )
    path = "/Workspace/Users/local-workspace/.bundle/b/default/files/src/nb"
    assert {key: job["tasks"][0]["notebook_task"]["notebook_path"] for key, job in read.jobs.items()} == {
        "a": path,
        "x": path,
    }
    assert read.notebooks == {path: tmp_path / "src" / "nb.py"}


def test_a_target_is_merged_into_the_job_above_it(tmp_path: Path) -> None:
    read = bundle(
        tmp_path,
        databricks_yml="""
        bundle: {name: b}
        resources:
          jobs:
            gold:
              name: gold
              trigger: {table_update: {table_names: [main.s.t]}}
              parameters: [{name: a, default: "1"}, {name: b, default: "2"}]
              job_clusters: [{job_cluster_key: c, new_cluster: {num_workers: 1, spark_version: x}}]
              tasks:
                - {task_key: one, max_retries: 1, notebook_task: {notebook_path: src/nb.py}}
                - {task_key: two, depends_on: [{task_key: one}], notebook_task: {notebook_path: src/nb.py}}
        targets:
          dev:
            resources:
              jobs:
                gold:
                  max_concurrent_runs: 2
                  trigger: {pause_status: PAUSED}
                  parameters: [{name: b, default: "3"}, {name: c, default: "4"}]
                  job_clusters: [{job_cluster_key: c, new_cluster: {num_workers: 9}}]
                  tasks: [{task_key: two, max_retries: 5}, {task_key: three, notebook_task: {notebook_path: /Shared/n}}]
        """,
    )
    gold = read.jobs["gold"]
    assert gold["trigger"] == {"table_update": {"table_names": ["main.s.t"]}, "pause_status": "PAUSED"}
    assert (gold["max_concurrent_runs"], gold["queue"]) == (2, {"enabled": True})
    assert gold["parameters"] == [
        {"name": "a", "default": "1"},
        {"name": "b", "default": "3"},
        {"name": "c", "default": "4"},
    ]
    assert gold["job_clusters"][0]["new_cluster"] == {"num_workers": 9, "spark_version": "x"}
    assert [(task["task_key"], task.get("max_retries")) for task in gold["tasks"]] == [
        ("one", 1),
        ("two", 5),
        ("three", None),
    ]
    assert gold["tasks"][1]["depends_on"] == [{"task_key": "one"}]


def test_an_unknown_key_is_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The CLI does so too. It may hold a template for jobs, with variables that this target does not have."""
    read = bundle(
        tmp_path,
        databricks_yml="""
        bundle: {name: b}
        job-config: {a: &a {name: "of ${var.nobody}"}, b: &b {max_concurrent_runs: 3}}
        resources: {jobs: {one: {<<: *b, tasks: [{task_key: t, notebook_task: {notebook_path: src/nb.py}}]}}}
        targets: {dev: {sincludes: [x], resources: {}}}
        """,
    )
    assert read.jobs["one"]["max_concurrent_runs"] == 3
    assert [record.getMessage().partition("databricks.yml:")[2] for record in caplog.records] == [
        "3: job-config is no key of a bundle and is left out",
        "5: sincludes is no key of a bundle and is left out",
    ]


def test_a_variable_that_a_used_template_lacks_is_still_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="the bundle declares no such variable"):
        bundle(
            tmp_path,
            databricks_yml="""
            bundle: {name: b}
            job-config: {a: &a {name: "of ${var.nobody}"}}
            resources: {jobs: {one: {<<: *a, tasks: [{task_key: t, notebook_task: {notebook_path: src/nb.py}}]}}}
            targets: {dev: {}}
            """,
        )


def test_anchors_and_merge_keys_are_carried_out(tmp_path: Path) -> None:
    read = bundle(
        tmp_path,
        "default",
        databricks_yml="""
        bundle: {name: b}
        common: &common {max_concurrent_runs: 7, tags: {a: "1"}}
        more: &more {timeout_seconds: 60, max_concurrent_runs: 8}
        resources:
          jobs:
            one: {<<: *common, name: on, tasks: [{task_key: t, notebook_task: {notebook_path: /Shared/n}}]}
            two: {<<: [*common, *more], tags: {b: "2"}, tasks: []}
        """,
    )
    one, two = read.jobs["one"], read.jobs["two"]
    assert (one["name"], one["max_concurrent_runs"], one["tags"]) == ("on", 7, {"a": "1"})
    assert (two["max_concurrent_runs"], two["timeout_seconds"], two["tags"]) == (7, 60, {"b": "2"})


def test_development_pauses_prefixes_and_tags(tmp_path: Path) -> None:
    text = """
    bundle: {name: b}
    resources:
      catalogs: {c: {name: lake}}
      schemas: {s: {name: bronze, catalog_name: main}}
      jobs:
        j: {name: job, schedule: {quartz_cron_expression: "0 0 0 * * ?", timezone_id: UTC}, tags: {dev: mine}, tasks: []}
        k: {continuous: {pause_status: UNPAUSED}, tasks: []}
    targets:
      dev: {mode: development}
      prod: {mode: production, presets: {name_prefix: "p ", trigger_pause_status: PAUSED, tags: {team: x}}}
    """
    development = bundle(tmp_path, databricks_yml=text)
    job = development.jobs["j"]
    assert (job["name"], job["max_concurrent_runs"]) == ("[dev local_workspace] job", 4)
    assert (job["schedule"]["pause_status"], job["tags"]) == ("PAUSED", {"dev": "mine"})
    assert development.jobs["k"]["continuous"] == {"pause_status": "UNPAUSED"}
    assert development.jobs["k"]["tags"] == {"dev": "local_workspace"}
    assert "queue" not in development.jobs["k"]
    assert development.schemas == ({"name": "dev_local_workspace_bronze", "catalog_name": "main"},)
    assert development.catalogs == ({"name": "lake"},)
    production = bundle(tmp_path, "prod", databricks_yml=text)
    assert (production.jobs["j"]["name"], production.jobs["j"]["tags"]) == ("p job", {"team": "x", "dev": "mine"})


def test_variables_and_references_stand_for_their_values(tmp_path: Path) -> None:
    read = bundle(
        tmp_path,
        databricks_yml="""
        bundle: {name: b}
        variables:
          schema: {default: "${var.base}_x"}
          base: {}
          most: {default: 3}
          cluster: {type: complex, default: {num_workers: 2, spark_version: "${var.base}"}}
        resources:
          schemas: {s: {name: "${var.schema}", catalog_name: main}}
          jobs:
            after: {tasks: [{task_key: t, run_job_task: {job_id: "${resources.jobs.first.id}"}}]}
            first:
              name: "${bundle.name}-${bundle.target}-${workspace.current_user.short_name}"
              max_concurrent_runs: "${var.most}"
              job_clusters: [{job_cluster_key: c, new_cluster: "${var.cluster}"}]
              parameters:
                - {name: root, default: "${workspace.file_path}/x"}
                - {name: schema, default: "${resources.schemas.s.name}"}
                - {name: day, default: "{{job.start_time.iso_date}}"}
              tasks: []
        targets:
          dev: {variables: {base: dev}, workspace: {root_path: "/Shared/${bundle.name}"}}
        """,
    )
    first = read.jobs["first"]
    assert list(read.jobs) == ["first", "after"]
    assert (first["name"], first["max_concurrent_runs"]) == ("b-dev-local_workspace", 3)
    assert first["job_clusters"][0]["new_cluster"] == {"num_workers": 2, "spark_version": "dev"}
    assert [one["default"] for one in first["parameters"]] == [
        "/Workspace/Shared/b/files/x",
        "dev_x",
        "{{job.start_time.iso_date}}",
    ]


REFUSED = [
    ("resources: {jobs: {j: {name: '${var.x}'}}}", "uses ${var.x}, and the bundle declares no such variable"),
    ("variables: {x: {}}\nresources: {jobs: {j: {name: '${var.x}'}}}", "variables.x: has no value for this target"),
    ("variables: {x: {default: '${var.x}'}}\nresources: {jobs: {j: {name: '${var.x}'}}}", "refers to itself"),
    ("resources: {jobs: {j: {name: '${bundle.git.branch}'}}}", "not known before the local workspace runs"),
    ("resources: {jobs: {j: {name: '${resources.jobs.k.id}'}}}", "there is no job 'k'"),
    ("resources: {jobs: {j: {tasks: [{task_key: a, notebook_task: {notebook_path: gone.py}}]}}}", "gone.py is no file of"),
    ("resources: {jobs: {j: {tasks: [{task_key: a, notebook_task: {notebook_path: ../../x.py}}]}}}", "is no file of"),
    ("resources: {jobs: {j: {name: a, name: b}}}", "resources.jobs.j.name: is given twice"),
    ("include: [gone.yml]", "gone.yml is no file of"),
    ("permissions: [{level: CAN_WONDER, user_name: x}]", "level is 'CAN_WONDER'"),
    ("resources: {unheard: {x: {}}}", "is not a kind of resource here"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "says"), REFUSED)
def test_what_cannot_be_is_refused_by_file_line_and_key(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(FileError) as refused:
        bundle(tmp_path, "default", databricks_yml=f"bundle: {{name: b}}\n{more}")
    assert says in str(refused.value)
    line = int(str(refused.value).removeprefix(f"{tmp_path / 'databricks.yml'}:").partition(":")[0])
    assert line >= 2


@pytest.mark.parametrize("refusal", [one for one in ALL if one.area is Area.BUNDLE], ids=lambda one: one.name)
def test_what_only_the_cli_deploys_is_refused_in_the_words_of_the_list(tmp_path: Path, refusal: Any) -> None:
    text = yaml.safe_dump(refusal.example, sort_keys=False)
    with pytest.raises(FileError) as refused:
        bundle(tmp_path, "default", databricks_yml=text)
    assert refusal.words in str(refused.value)


def test_a_long_name_in_a_reference_costs_linear_time(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        bundle(
            tmp_path,
            "default",
            databricks_yml=f"bundle: {{name: '${{{'a' * 5000}'}}\nresources: {{jobs: {{j: {{name: '${{var.{'a_-' * 3000}}}'}}}}}}",
        )


def test_all_of_it_is_in_the_workspace_afterwards(tmp_path: Path) -> None:
    file = lab(
        tmp_path,
        "default",
        src__tool_py="print(1)\n",
        databricks_yml="""
        bundle: {name: b}
        permissions: [{level: CAN_RUN, group_name: users}]
        resources:
          catalogs: {c: {name: lake}}
          schemas: {s: {name: bronze, catalog_name: "${resources.catalogs.c.name}", grants: [{principal: users, privileges: [SELECT]}]}}
          volumes: {v: {name: files, catalog_name: lake, schema_name: "${resources.schemas.s.name}", volume_type: MANAGED}}
          jobs:
            after: {tasks: [{task_key: t, run_job_task: {job_id: "${resources.jobs.first.id}"}}]}
            first:
              tasks:
                - {task_key: a, notebook_task: {notebook_path: src/nb.py}}
                - {task_key: b, spark_python_task: {python_file: src/tool.py}, environment_key: e}
              environments: [{environment_key: e, spec: {client: "1"}}]
        """,
    )
    read = read_lab(file)
    with deployment_in_thread(tmp_path / "home", ["ops"], engine=InstantEngine(Notebooks().run)) as up:
        rest = Rest("ops", up.host("ops"), up.token("ops"))
        for _ in range(2):
            furnish(read, {"ops": rest}, lambda line: None)
        jobs = {
            job["settings"]["name"]: job for job in rest.call("GET", "/api/2.2/jobs/list", expand_tasks="true")["jobs"]
        }
        assert sorted(jobs) == ["after", "first"]
        assert jobs["after"]["settings"]["tasks"][0]["run_job_task"]["job_id"] == jobs["first"]["job_id"]
        access = rest.call("GET", f"/api/2.0/permissions/jobs/{jobs['first']['job_id']}")["access_control_list"]
        assert [
            one["all_permissions"][0]["permission_level"] for one in access if one.get("group_name") == "users"
        ] == ["CAN_MANAGE_RUN"]
        root = "/Workspace/Users/local-workspace/.bundle/b/default/files/src"
        kinds = {
            one["path"].rpartition("/")[2]: one["object_type"]
            for one in rest.call("GET", "/api/2.0/workspace/list", {"path": root})["objects"]
        }
        assert kinds == {"nb": "NOTEBOOK", "tool.py": "FILE"}
        assert rest.call("GET", "/api/2.1/unity-catalog/volumes/lake.bronze.files")["volume_type"] == "MANAGED"
        granted = rest.call("GET", "/api/2.1/unity-catalog/permissions/schema/lake.bronze")["privilege_assignments"]
        assert {"principal": "users", "privileges": ["SELECT"]} in granted
