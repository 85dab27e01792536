"""A pytest plugin: the fixture `databricks_local`, local Databricks workspaces for a project's own tests.

It is loaded in every pytest run where the package is installed, so it imports nothing of weight and changes nothing until
it is asked to. It is described in docs/testing.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from databricks_bridge.local.engine.model import Engine
    from databricks_bridge.local.fake_notebooks import NotebookFunction
    from databricks_bridge.local.testing import LocalDatabricks

ENGINES = ("spark", "fake")
DEFAULT_WORKSPACE = "databricks_default"
TIME_SCALE = 0.05
_MARKER = (
    'databricks_local(engine="fake", notebooks={"/path": function}, workspaces=["ops"], time_scale=0.05): what the '
    "fixture databricks_local starts for this test"
)
_OPTIONS = ("engine", "notebooks", "workspaces", "time_scale")
_home = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two settings of a project."""
    parser.addini("databricks_local_engine", "what runs notebooks in local workspaces: spark or fake", default="spark")
    parser.addini(
        "databricks_local_dags",
        "the folder of DAGs, from the root of the project: gives the tests an Airflow home and database of their own",
        default="",
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Airflow reads its home when it is imported, so it is set before the first conftest."""
    dags = str(early_config.getini("databricks_local_dags"))
    if dags:
        from databricks_bridge.local.airflow_for_tests import settings

        home = Path(tempfile.mkdtemp(prefix="databricks-local-airflow-"))
        early_config.stash[_home] = home
        os.environ.update(settings(home, (early_config.rootpath / dags).resolve()))
        os.environ["AIRFLOW__DATABRICKS_BRIDGE__LEDGER"] = (home / "ledger").as_uri()


def pytest_configure(config: pytest.Config) -> None:
    """The marker, for `--strict-markers`."""
    config.addinivalue_line("markers", _MARKER)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The tests' own Airflow goes with them."""
    import shutil

    if _home in config.stash:
        shutil.rmtree(config.stash[_home], ignore_errors=True)


@pytest.fixture(scope="session")
def databricks_local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One warm Spark for the whole session. Only tests that need it start it."""
    with _needs_local():
        from databricks_bridge.local.engine.jars import prepare
        from databricks_bridge.local.engine.spark import SparkEngine
        from databricks_bridge.local.shared_engine import engine_in_thread
    jars = prepare(lambda _: None)
    with engine_in_thread(SparkEngine(tmp_path_factory.mktemp("spark"), jars)) as engine:
        yield engine


@pytest.fixture(scope="session")
def databricks_local_airflow(pytestconfig: pytest.Config) -> None:
    """The database of the tests' own Airflow, when the project has asked for one (`databricks_local_dags`)."""
    if _home in pytestconfig.stash:
        from databricks_bridge.local.airflow_for_tests import make_database

        make_database(pytestconfig.stash[_home], os.environ)


@pytest.fixture
def databricks_local(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    databricks_local_airflow: None,
) -> Iterator[LocalDatabricks]:
    """Local workspaces of this test alone, and an Airflow connection for each, named like it.

    The marker `databricks_local` says which, and what runs their notebooks. They are not Databricks.
    """
    given = _options(request)
    home = tmp_path / "databricks_local"
    with _needs_local():
        from databricks_bridge.local.testing import local_databricks
    engine, sources = _engine(request, given, home)
    with local_databricks(
        home,
        given["workspaces"],
        engine,
        ledger=_ledger(request.config, home),
        notebooks=sources,
        time_scale=given["time_scale"],
        set_for_test=monkeypatch.setattr,
    ) as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, ",".join(filter(None, (os.environ.get(name), "127.0.0.1"))))
        yield found


def _ledger(config: pytest.Config, home: Path) -> Path:
    # A DAG that is imported at collection keeps the address that it read then, so all tests of a session have one folder.
    return config.stash[_home] / "ledger" if _home in config.stash else home / "ledger"


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The nearest marker's options over those of the farther ones, over the project's."""
    found: dict[str, Any] = {
        "engine": str(request.config.getini("databricks_local_engine")),
        "notebooks": {},
        "workspaces": (DEFAULT_WORKSPACE,),
        "time_scale": TIME_SCALE,
    }
    for marker in reversed(list(request.node.iter_markers("databricks_local"))):
        unknown = sorted(set(marker.kwargs) - set(_OPTIONS))
        if marker.args or unknown:
            wrong = ", ".join([*map(repr, marker.args), *unknown])
            raise pytest.UsageError(f"databricks_local: {wrong} is not one of its options: {', '.join(_OPTIONS)}")
        notebooks = found["notebooks"] | marker.kwargs.get("notebooks", {})
        found |= marker.kwargs | {"notebooks": notebooks}
    if found["engine"] not in ENGINES:
        raise pytest.UsageError(f"databricks_local: engine is {found['engine']!r}; use {' or '.join(ENGINES)}")
    return found


def _engine(request: pytest.FixtureRequest, given: Mapping[str, Any], home: Path) -> tuple[Engine, dict[str, str]]:
    """What runs notebooks, and the source of each that lies in the workspaces from the start."""
    notebooks: dict[str, object] = given["notebooks"]
    if given["engine"] == "fake":
        from databricks_bridge.local.fake_notebooks import FakeNotebooks
        from databricks_bridge.local.layout import Layout
        from databricks_bridge.local.testing import PLACEHOLDER

        for path, function in notebooks.items():
            if not callable(function):
                raise pytest.UsageError(f"databricks_local: the notebook {path} of a fake engine must be a function")
        functions = cast("dict[str, NotebookFunction]", notebooks)
        return FakeNotebooks(Layout(home), functions), dict.fromkeys(functions, PLACEHOLDER)
    sources = {}
    for path, file in notebooks.items():
        if callable(file):
            raise pytest.UsageError(
                f'databricks_local: the notebook {path} is a function, which takes engine="fake"; for Spark give its file'
            )
        sources[path] = (request.config.rootpath / str(file)).read_text()
    return request.getfixturevalue("databricks_local_spark"), sources


@contextmanager
def _needs_local() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise pytest.UsageError(
            f"databricks_local: {error.name} is missing; install airflow-provider-databricks-bridge[local]"
        ) from error
