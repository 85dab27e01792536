"""Local deployments for tests: real HTTP, real SQLite, the official SDK as client; notebooks are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.local.local_kit import Api, Notebooks, client, write_notebook


@pytest.fixture
def notebooks() -> Notebooks:
    return Notebooks()


@pytest.fixture
def deployment(tmp_path: Path, notebooks: Notebooks) -> Iterator[Deployment]:
    """Two workspaces, ops and met."""
    with deployment_in_thread(tmp_path / "home", ["ops", "met"], engine=InstantEngine(notebooks.run)) as up:
        yield up


@pytest.fixture
def ops(deployment: Deployment) -> Any:
    """The official SDK's client for ops."""
    return client(deployment, "ops")


@pytest.fixture
def api(ops: Any) -> Api:
    return Api(ops)


@pytest.fixture
def make_job(deployment: Deployment, api: Api) -> Callable[..., int]:
    """Create a job in ops whose tasks run notebooks of their own names, `tasks` mapping each to its settings."""

    def make(tasks: dict[str, dict[str, Any]] | None = None, **settings: Any) -> int:
        body = [
            {"task_key": key, "notebook_task": {"notebook_path": write_notebook(deployment, "ops", key)}, **extra}
            for key, extra in (tasks or {"main": {}}).items()
        ]
        return int(api.post("create", name=settings.pop("name", "job"), tasks=body, **settings)["job_id"])

    return make


@pytest.fixture
def http(deployment: Deployment) -> Iterator[httpx.Client]:
    """A client of ops that is nobody's library: it sees each answer as it is."""
    headers = {"Authorization": f"Bearer {deployment.token('ops')}"}
    with httpx.Client(base_url=deployment.host("ops"), headers=headers, timeout=20) as opened:
        yield opened
