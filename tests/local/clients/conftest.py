"""A deployment whose SQL is the declared fake, and an Airflow connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.testing import connection_to
from tests.local.clients.fake_sql import FakeSql
from tests.local.local_kit import Notebooks


@pytest.fixture
def fake_sql() -> FakeSql:
    return FakeSql()


@pytest.fixture
def deployment(tmp_path: Path, notebooks: Notebooks, fake_sql: FakeSql) -> Iterator[Deployment]:
    """Two workspaces of one metastore, ops and met."""
    from databricks_bridge.local.workspace_spec import WorkspaceSpec

    specs = [WorkspaceSpec("ops", "shared"), WorkspaceSpec("met", "shared")]
    with deployment_in_thread(tmp_path / "home", specs, engine=InstantEngine(notebooks.run), sql=fake_sql) as up:
        yield up


@pytest.fixture
def connection(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> str:
    """A connection to ops, as the official hook wants it."""
    monkeypatch.setenv("AIRFLOW_CONN_OPS", connection_to(deployment.host("ops"), deployment.token("ops")))
    return "ops"
