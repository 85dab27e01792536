"""The package as its users get it: its public names, its version, and what its wheel holds."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import databricks_bridge

ROOT = Path(__file__).resolve().parents[1]
CACHES = ("__pycache__", ".mypy_cache", ".ruff_cache")
PUBLIC = {
    "BridgeError",
    "CheckpointReached",
    "ClaimBlocked",
    "ClaimUndecided",
    "ConsumerMismatch",
    "ControlTableReached",
    "DatabricksIncrementalRunOperator",
    "DatabricksSubscriptionSensor",
    "DatabricksTriggeredRunSensor",
    "DeltaTable",
    "DeltaVersionSensor",
    "HistoryGap",
    "InvalidArgument",
    "LedgerLost",
    "RunFailed",
    "StuckClaim",
    "Subscription",
    "TableRecreated",
    "TableReplaced",
    "TargetChanged",
    "TriggerPaused",
    "TriggeredRuns",
}


def test_the_public_names_are_exactly_these() -> None:
    assert set(databricks_bridge.__all__) - {"__version__"} == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_each_public_name_is_importable_from_the_root(name: str) -> None:
    assert isinstance(getattr(databricks_bridge, name), type)


def test_dir_shows_the_public_names() -> None:
    assert set(dir(databricks_bridge)) >= PUBLIC


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        getattr(databricks_bridge, "NoSuchThing")  # noqa: B009


def test_importing_the_root_imports_none_of_its_packages() -> None:
    program = (
        "import sys, databricks_bridge; print(*sorted(m for m in sys.modules if m.startswith('databricks_bridge.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_changelog_has_this_version() -> None:
    heads = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert databricks_bridge.__version__ in heads


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in a wheel built from a copy of the sources, with the build back end that the lock pins."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "provider", source / "provider", ignore=shutil.ignore_patterns(*CACHES))
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(
        build, cwd=source, check=True, capture_output=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    )
    (file,) = out.glob("*.whl")
    assert file.name == f"airflow_provider_databricks_bridge-{databricks_bridge.__version__}-py3-none-any.whl"
    return zipfile.ZipFile(file).namelist()


def test_the_wheel_claims_no_namespace_but_its_own(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert tops == {
        "databricks_bridge",
        f"airflow_provider_databricks_bridge-{databricks_bridge.__version__}.dist-info",
    }


def test_the_wheel_holds_every_file_of_the_package(wheel: list[str]) -> None:
    provider = ROOT / "provider"
    files = {
        str(file.relative_to(provider))
        for file in (provider / "databricks_bridge").rglob("*")
        if file.is_file() and not set(CACHES) & set(file.parts)
    }
    assert "databricks_bridge/py.typed" in files
    assert files <= set(wheel)


def test_every_module_of_the_wheel_imports(wheel: list[str]) -> None:
    modules = [name.removesuffix(".py").replace("/", ".") for name in wheel if name.endswith(".py")]
    for module in modules:
        if not module.endswith("__main__"):
            importlib.import_module(module.removesuffix(".__init__"))
