"""The bundle: jobs that Databricks would take, and notebooks that fit them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import deploy
from demo.places import AUDIT_JOB, BRONZE_AND_SILVER, GOLD_JOB, WORKSPACES

NOTEBOOKS = deploy.BUNDLE.parent / "notebooks"
BRIDGE = {f"bridge_{name}" for name in ("subscription", "epoch", "generation", "token", "ranges", "full_rebuild")}

Job = dict[str, Any]


def jobs(target: str) -> dict[str, Job]:
    found: dict[str, Job] = yaml.safe_load(deploy.BUNDLE.read_text())["targets"][target]["resources"]["jobs"]
    return found


ALL_JOBS = [pytest.param(job, id=f"{target}-{key}") for target in WORKSPACES for key, job in jobs(target).items()]


def source(job: Job) -> str:
    return Path(deploy.BUNDLE.parent, job["tasks"][0]["notebook_task"]["notebook_path"]).read_text()


def declared(job: Job) -> dict[str, str]:
    return {parameter["name"]: parameter["default"] for parameter in job.get("parameters", [])}


@pytest.mark.parametrize("target", WORKSPACES)
def test_the_header_names_every_schema_that_a_target_writes(target: str) -> None:
    """Who deploys the bundle makes these by hand first; one that is left out fails the first run."""
    header = deploy.BUNDLE.read_text().partition("bundle:")[0].replace("\n#", "")
    said = next(part for part in re.split("must exist:|;|\\(all of", header) if f"in `{target}`" in part)
    written = {
        schema
        for job in jobs(target).values()
        for schema in re.findall(r"\bmain\.(\w+)\.\w+", source(job))
        if job["name"] != "create-tables"
    }
    assert {one for one in written if not re.search(rf"\b{one}\b", said)} == set()


def test_targets_are_the_workspaces_and_have_their_jobs() -> None:
    bundle = yaml.safe_load(deploy.BUNDLE.read_text())
    assert bundle["bundle"]["name"] == "databricks-bridge-demo"
    assert tuple(bundle["targets"]) == WORKSPACES
    for target, names in {**BRONZE_AND_SILVER, "analytics": (GOLD_JOB,)}.items():
        assert set(names) <= {job["name"] for job in jobs(target).values()}
    assert AUDIT_JOB in {job["name"] for job in jobs("ops").values()}


@pytest.mark.parametrize("job", ALL_JOBS)
def test_job_is_spelled_as_the_jobs_api_has_it(job: Job) -> None:
    from databricks.sdk.service.jobs import JobSettings

    assert JobSettings.from_dict(job).as_dict() == job


@pytest.mark.parametrize("job", ALL_JOBS)
def test_notebook_exists_and_is_python_in_databricks_source_format(job: Job) -> None:
    text = source(job)
    assert text.startswith("# Databricks notebook source\n")
    ast.parse(text)


@pytest.mark.parametrize("job", ALL_JOBS)
def test_notebook_reads_only_parameters_that_its_job_declares(job: Job) -> None:
    text = source(job)
    read = set(re.findall(r'dbutils\.widgets\.get\("(\w+)"\)', text))
    if re.search(r'dbutils\.widgets\.get\(f"', text):
        read |= {f"{source}_{part}" for source in ("flights", "weather") for part in ("table", "start", "end", "as_of")}
    assert read <= declared(job).keys()


@pytest.mark.parametrize("job", ALL_JOBS)
def test_timers_keep_databricks_floor_and_names_its_alphabet(job: Job) -> None:
    for trigger in (value for value in job.get("trigger", {}).values() if isinstance(value, dict)):
        assert all(value >= 60 for key, value in trigger.items() if key.endswith("_seconds"))
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) for name in declared(job))


def test_only_bronze_and_silver_start_by_themselves() -> None:
    for target in WORKSPACES:
        for job in jobs(target).values():
            fires = job["name"].startswith(("bronze-", "silver-")) and job["name"] != AUDIT_JOB
            assert ("trigger" in job) == fires
            if job["name"] != "create-tables":
                assert job["queue"] == {"enabled": True}
                assert job["max_concurrent_runs"] == 1


def test_gold_declares_what_the_operator_sends() -> None:
    names = declared(jobs("analytics")["delays_by_weather"])
    ranges = {f"{source}_{part}" for source in ("flights", "weather") for part in ("table", "start", "end", "as_of")}
    assert names == dict.fromkeys(BRIDGE | ranges, "")


def test_silver_shows_which_tables_fired_it() -> None:
    for target, key in (("ops", "silver_flights"), ("met", "silver_weather")):
        assert declared(jobs(target)[key]) == {"updated_tables": "{{job.trigger.table_update.updated_tables}}"}


def test_every_notebook_is_deployed() -> None:
    used = {job["tasks"][0]["notebook_task"]["notebook_path"] for target in WORKSPACES for job in jobs(target).values()}
    assert {f"./notebooks/{file.name}" for file in NOTEBOOKS.glob("*.py")} == used


def test_airflow_finds_no_dag_among_the_notebooks() -> None:
    assert "*" in (deploy.BUNDLE.parent / ".airflowignore").read_text().splitlines()


def test_notebook_path_is_below_the_root_and_without_suffix() -> None:
    path = deploy.notebook_path("/Workspace/Shared/x/ops/files", "./notebooks/silver_flights.py")
    assert path == "/Workspace/Shared/x/ops/files/notebooks/silver_flights"
