"""The pytest plugin as its users have it: in a project of their own, from the built wheel, by what the docs say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CACHES = ("__pycache__", ".mypy_cache", ".ruff_cache")
BLOCK = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.airflow


def example() -> dict[str, str]:
    """The files of the documented example: each block of code whose first line names one."""
    return dict(BLOCK.findall((ROOT / "docs" / "testing.md").read_text()))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment, in which the built wheel is installed beside what this one has."""
    folder = tmp_path_factory.mktemp("user")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "provider", source / "provider", ignore=shutil.ignore_patterns(*CACHES))
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "wheel")]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    interpreter = folder / "venv" / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(interpreter),
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
    ]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # A path alone: what .pth files say there, such as where an editable install lies, is not read.
    (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def run(python: Path, project: Path, files: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a project that has these files, with nothing of this one's Airflow."""
    for name, text in files.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTEST"))}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments]
    return subprocess.run(command, cwd=project, env=inherited, capture_output=True, text=True, timeout=200)


def test_the_documented_example_passes_in_a_project_of_its_own(python: Path, tmp_path: Path) -> None:
    files = example()
    assert sorted(files) == ["dags/gold_orders.py", "pyproject.toml", "tests/test_gold_orders.py"]
    where = "import databricks_bridge.local.testing as t\ndef test_the_wheel_is_what_is_tested():\n    assert 'venv' in t.__file__\n"
    done = run(python, tmp_path, files | {"tests/test_where.py": where}, "--strict-markers", "--durations=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_fixture_leaves_nothing_behind_and_says_what_is_wrong(python: Path, tmp_path: Path) -> None:
    tests = """
import os
import pytest

def boom(call):
    raise RuntimeError(f"no orders in {call.workspace}")

@pytest.mark.databricks_local(notebooks={"/n": boom})
def test_a_failing_notebook_and_one_that_is_not_declared(databricks_local):
    one = databricks_local.workspace
    assert "AIRFLOW_CONN_DATABRICKS_DEFAULT" in os.environ
    assert one.token not in repr(databricks_local)
    for name, path in (("a", "/n"), ("b", "/Shared/other")):
        one.notebook("/Shared/other", "# Databricks notebook source")
        one.call("POST", "/api/2.2/jobs/run-now", {"job_id": one.job(name, path)})
    (a,), (b,) = one.ended("a"), one.ended("b")
    errors = [
        one.call("GET", "/api/2.2/jobs/runs/get-output", run_id=run["tasks"][0]["run_id"])["error"] for run in (a, b)
    ]
    assert errors[0] == "RuntimeError: no orders in databricks_default"
    assert errors[1].startswith("NotebookNotDeclared: no function is declared for the notebook /Shared/other")

def test_the_connection_is_gone():
    assert "AIRFLOW_CONN_DATABRICKS_DEFAULT" not in os.environ
    assert "AIRFLOW__DATABRICKS_BRIDGE__LEDGER" not in os.environ

@pytest.mark.databricks_local(engine="duck")
def test_engine(databricks_local): ...

@pytest.mark.databricks_local(workspace="ops")
def test_option(databricks_local): ...

@pytest.mark.databricks_local(engine="spark", notebooks={"/n": boom})
def test_function_for_spark(databricks_local): ...
"""
    done = run(python, tmp_path, {"pytest.ini": "[pytest]\ndatabricks_local_engine = fake\n", "test_it.py": tests})
    assert "2 passed, 3 errors" in done.stdout, done.stdout + done.stderr
    assert "engine is 'duck'; use spark or fake" in done.stdout
    assert "workspace is not one of its options: engine, notebooks, workspaces, time_scale" in done.stdout
    assert 'which takes engine="fake"; for Spark give its file' in done.stdout
