from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from databricks_bridge.feeds import run_feed
from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.sensors import waiting
from databricks_bridge.triggers import polling
from tests.local.local_kit import Api, Notebooks, client
from tests.sensors.fired import Fired


@pytest.fixture(scope="module")
def module_fired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fired]:
    """A deployment for all tests of a module, whose triggers are looked at ten times a second."""
    notebooks, home = Notebooks(), tmp_path_factory.mktemp("fired")
    with deployment_in_thread(home, ["ops"], engine=InstantEngine(notebooks.run), time_scale=1 / 600) as up:
        yield Fired(up, notebooks, Api(client(up, "ops")))


@pytest.fixture
def fired(module_fired: Fired, monkeypatch: pytest.MonkeyPatch) -> Fired:
    """The same, connected as `ops`, with short pauses and budgets, and a feed that reads its jobs anew each second."""
    deployment = module_fired.deployment
    connection = {"conn_type": "databricks", "host": deployment.host("ops"), "password": deployment.token("ops")}
    monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
    monkeypatch.setattr(run_feed, "GATHER_SECONDS", 0.02)
    monkeypatch.setattr(run_feed.RunFeed.__init__, "__kwdefaults__", {"recheck_seconds": 0.5})
    monkeypatch.setattr(polling, "SHORTEST_INTERVAL", 0.05)
    monkeypatch.setattr(waiting, "SHORTEST_CALL_SECONDS", 0.2)
    return module_fired
