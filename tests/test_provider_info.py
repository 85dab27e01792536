"""Provider metadata: right by Airflow's own schema, in step with the modules on disk, and seen by real Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.triggers.base import BaseTrigger

import databricks_bridge
from databricks_bridge._provider_info import get_provider_info

PACKAGE = Path(databricks_bridge.__file__).parent
DISTRIBUTION = "airflow-provider-databricks-bridge"


def modules_of(kind: str) -> set[str]:
    info: Any = get_provider_info()
    return {module for entry in info[kind] for module in entry["python-modules"]}


def modules_below(package: str, base: type) -> set[str]:
    """The modules of the package that define something a DAG author or a triggerer can instantiate."""
    names = [f"databricks_bridge.{package}.{file.stem}" for file in (PACKAGE / package).glob("*.py")]
    return {
        name for name in names if any(_is_offered(thing, name, base) for thing in vars(import_module(name)).values())
    }


def _is_offered(thing: object, module: str, base: type) -> bool:
    return isinstance(thing, type) and issubclass(thing, base) and thing.__module__ == module and not isabstract(thing)


def test_the_metadata_fits_airflows_own_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


@pytest.mark.parametrize(
    ("kind", "base"), [("operators", BaseOperator), ("sensors", BaseOperator), ("triggers", BaseTrigger)]
)
def test_the_listed_modules_are_those_on_disk(kind: str, base: type) -> None:
    assert modules_of(kind) == modules_below(kind, base)


def test_the_listed_links_are_links() -> None:
    info: Any = get_provider_info()
    for path in info.get("extra-links", ()):
        module, _, name = path.rpartition(".")
        assert issubclass(getattr(import_module(module), name), BaseOperatorLink)


def test_the_entry_point_is_this_function() -> None:
    (entry,) = (
        point for point in entry_points(group="apache_airflow_provider") if point.value.startswith("databricks_bridge")
    )
    assert entry.load() is get_provider_info
    assert entry.dist is not None
    assert entry.dist.name == get_provider_info()["package-name"] == DISTRIBUTION


def test_no_connection_type_is_taken_from_the_official_provider() -> None:
    assert not {"connection-types", "hook-class-names", "asset-uris"} & set(get_provider_info())


@pytest.mark.airflow
def test_airflow_lists_the_provider_and_its_setting(tmp_path: Path) -> None:
    assert {"package_name": DISTRIBUTION, "version": databricks_bridge.__version__}.items() <= next(
        row
        for row in json.loads(run_airflow(tmp_path, "providers", "list", "--output", "json"))
        if row["package_name"] == DISTRIBUTION
    ).items()
    assert run_airflow(tmp_path, "config", "get-value", "databricks_bridge", "ledger").strip() == "airflow"


def run_airflow(home: Path, *arguments: str) -> str:
    program = Path(sys.executable).parent / "airflow"
    env = os.environ | {"AIRFLOW_HOME": str(home), "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    done = subprocess.run([program, *arguments], env=env, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout
